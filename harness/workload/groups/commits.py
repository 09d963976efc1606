"""Assignments and commits of a group's member: which partitions it has, what it commits, and with which outcome.

| what the client reported of a commit | outcome |
| --- | --- |
| no error | ok |
| the coordinator refused the member, and no connection failed meanwhile | fail |
| anything else | info: an attempt whose answer was lost may have taken effect |
"""

import itertools
import struct
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_chaos.harness.workload.transactions.producer import ProducerLost

Tell = Callable[..., None]
"""Sends the harness an event of the client protocol: its kind, and its fields by name."""

_RESETS_TO_THE_START = ("smallest", "earliest", "beginning")  # values of `auto.offset.reset`
_MAGIC = b"CGMDv2:"  # Begins the group metadata that librdkafka writes; the generation follows.
_GENERATION = struct.Struct("=i")


def generation_of(metadata: object) -> int | None:
    """The generation in librdkafka's group metadata (with KIP-848, the member's epoch); None if there is none."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_MAGIC):
        return None
    generation = int(_GENERATION.unpack_from(metadata, len(_MAGIC))[0])
    return generation if generation >= 0 else None


class Assignment:
    """The partitions `held` by one member now, under a name that changes with each rebalance, seek and reset."""

    def __init__(
        self, name: str, client: Any, tell: Tell, *, resets_to: object = "earliest", begins_at_0: bool = True
    ) -> None:
        """`resets_to`: the client's `auto.offset.reset`. `begins_at_0`: the log's first record always has offset 0."""
        self.name = f"{name}-0"
        self.begun_ns = 0
        self.client = client
        self.tell = tell
        self._member = name
        self._number = 0
        self.held: set[int] = set()
        self._resets_to = resets_to
        self._begins_at_0 = begins_at_0
        self._last_messages: dict[int, Any] = {}  # By partition, the last message under this name.

    def note_revoked(self, partitions: Iterable[int]) -> None:
        """Note that a rebalance takes these partitions away."""
        revoked = self.held & set(partitions)
        self._tell_given_back(sorted(revoked), time.monotonic_ns())
        self.held -= revoked

    def change_name(self, assigned: Iterable[int] = ()) -> None:
        """Change the name for all partitions: a rebalance has `assigned` some, or a position was set back."""
        self.begun_ns = time.monotonic_ns()
        self._tell_given_back(sorted(self.held), self.begun_ns)
        self.held.update(assigned)
        self._number += 1
        self._last_messages = {}
        self.name = f"{self._member}-{self._number}"
        if self.held:
            self.tell(
                "assigned",
                consumer=self.name,
                member=self.client.memberid() or self._member,
                generation=generation_of(self.client.consumer_group_metadata()),
                partitions=sorted(self.held),
                ns=self.begun_ns,
            )

    def note_message(self, message: Any) -> bool:
        """Note a message. If its client has reset the position before it, change the name and return True."""
        last = self._last_messages.get(message.partition())
        is_reset = last is not None and message.offset() <= last.offset() and self._was_reset(message, last)
        if is_reset:
            self.change_name()
        self._last_messages[message.partition()] = message
        return is_reset

    def _was_reset(self, message: Any, last: Any) -> bool:
        """Whether a position that went back was reset, to the start of the log or, after a truncation, to its end.

        In doubt, it counts as reset. After a truncation, new records have a later leader epoch than those read before.
        """
        if self._resets_to == "error":
            return False
        if self._resets_to not in _RESETS_TO_THE_START or not self._begins_at_0 or message.offset() == 0:
            return True
        epoch, before = message.leader_epoch(), last.leader_epoch()
        return epoch is None or before is None or epoch > before

    def _tell_given_back(self, partitions: list[int], ns: int) -> None:
        if partitions:
            self.tell("given_back", consumer=self.name, partitions=partitions, ns=ns)


_REFUSALS = "ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID"
_REFUSALS_KIP_848 = "STALE_MEMBER_EPOCH FENCED_MEMBER_EPOCH"
REFUSALS = frozenset(
    getattr(KafkaError, name)
    for name in f"{_REFUSALS} {_REFUSALS_KIP_848}".split()
    # librdkafka before 2.4 lacks the errors of KIP-848.
    if hasattr(KafkaError, name)
)
"""The errors with which a coordinator refuses a member that it no longer knows in this generation."""

_MERGE_WINDOW_NS = 100_000_000


class Positions:
    """Notes the earliest time at which a client may have committed an offset by itself, and the assignment then.

    Several automatic commits may be on their way at once, and be answered in any order. All that is known of the commit
    of an offset: it was not sent before the record in front of that offset was polled.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._noted_ns = 0
        # By partition, ascending: an offset, the earliest time at which a poll led to it, the name of the assignment.
        # Offsets that were reached within `_MERGE_WINDOW_NS` share an entry, which bounds the memory.
        self._reached: dict[int, list[tuple[int, int, str]]] = {}

    def note_positions(self, offsets: Mapping[int, int]) -> None:
        """Note that a poll, which began after the last call of this method, led to these offsets to read next."""
        name, since = self._assignment.name, max(self._noted_ns, self._assignment.begun_ns)
        for partition, offset in offsets.items():
            reached = self._reached.setdefault(partition, [])
            if not reached or offset > reached[-1][0]:
                if reached and reached[-1][2] == name and since - reached[-1][1] < _MERGE_WINDOW_NS:
                    reached[-1] = offset, *reached[-1][1:]
                else:
                    reached.append((offset, since, name))
            elif offset < reached[-1][0]:
                # The position was set back. The offset may have been reached before, so the first time counts.
                reached[:] = [(offset, *reached[0][1:])]
        self._noted_ns = time.monotonic_ns()

    def earliest_commit(self, partition: int, offset: int) -> tuple[int, str]:
        """The earliest time at which an offset may have been committed, in ns, and the assignment's name then."""
        reached = self._reached.get(partition, [])
        index = bisect_left(reached, (offset,))
        return reached[index][1:] if index < len(reached) else (self._assignment.begun_ns, self._assignment.name)


def next_offsets(messages: Iterable[Any]) -> dict[int, int]:
    """The offsets to commit for these messages: per partition, the next one to read."""
    offsets: dict[int, int] = {}
    for message in messages:
        offsets[message.partition()] = max(offsets.get(message.partition(), 0), message.offset() + 1)
    return offsets


def errors_in(answers: Iterable[TopicPartition] | None) -> dict[int, KafkaError]:
    """The errors in the answer to a commit, by partition."""
    return {answer.partition: answer.error for answer in answers or () if answer.error is not None}


class Commits:
    """The commits of one member for `topic`. `errors`: how many errors its client has reported outside of calls."""

    def __init__(self, assignment: Assignment, topic: str) -> None:
        self.errors = 0
        self.positions = Positions(assignment)
        self._assignment, self._topic = assignment, topic
        self._client, self._tell = assignment.client, assignment.tell
        self._numbers = itertools.count()
        self._automatic_ns: set[int] = set()

    def partitions(self, offsets: Mapping[int, int]) -> list[TopicPartition]:
        """These offsets as confluent-kafka takes them."""
        return [TopicPartition(self._topic, partition, offset) for partition, offset in sorted(offsets.items())]

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit, and wait for the answer; returns whether the commit was acknowledged for all partitions."""
        with suppress(KafkaException), self.committing(offsets) as failed:
            failed |= errors_in(self._client.commit(offsets=self.partitions(offsets), asynchronous=False))
            return not failed
        return False

    def announce(
        self, offsets: Mapping[int, int], *, consumer: str | None = None, since_ns: int | None = None, **within: int
    ) -> int:
        """Tell of a commit that is about to be sent; returns its number.

        `consumer`, `since_ns`: the assignment and the earliest time of an automatic commit, which was sent already.
        `within`: `producer_id` and number (`transaction`) of the transaction to which the offsets are sent, if any.
        """
        number = next(self._numbers)
        self._tell(
            "commit",
            number=number,
            consumer=self._assignment.name if consumer is None else consumer,
            offsets=sorted(offsets.items()),
            **{"producer_id": None, "transaction": None, **within},
            ns=time.monotonic_ns() if since_ns is None else since_ns,
        )
        return number

    @contextmanager
    def committing(self, offsets: Mapping[int, int], **within: Any) -> Iterator[dict[int, KafkaError]]:
        """Tell of a commit, which the block makes: it commits these offsets, or sends them `within` a transaction.

        An error that the block raises is the outcome. The block gets a dictionary for errors of single partitions.
        """
        number, errors_before = self.announce(offsets, **within), self.errors
        failed: dict[int, KafkaError] = {}
        try:
            yield failed
        except (KafkaException, ProducerLost) as failure:
            error = failure.error if isinstance(failure, ProducerLost) else failure.args[0]
            self.note_answer(number, dict.fromkeys(offsets, error), certain=self.errors == errors_before)
            raise
        self.note_answer(number, failed, certain=self.errors == errors_before)

    def note_answer(self, number: int, failed: Mapping[int, KafkaError], *, certain: bool) -> None:
        """Tell of the answer to a commit; `failed`: errors by partition. `certain`: no connection failed meanwhile."""
        errors = [
            (partition, "fail" if certain and error.code() in REFUSALS else "info", error.name())
            for partition, error in failed.items()
        ]
        self._tell("committed", number=number, errors=errors, ns=time.monotonic_ns())

    def note_automatic(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Tell of an automatic commit of the client (callback `on_commit`): each partition is a commit of its own."""
        for answer in partitions:
            if answer.offset >= 0:
                ns, consumer = self.positions.earliest_commit(answer.partition, answer.offset)
                # The rows of automatic commits are told apart by their times.
                while ns in self._automatic_ns:
                    ns += 1
                self._automatic_ns.add(ns)
                number = self.announce({answer.partition: answer.offset}, consumer=consumer, since_ns=ns)
                cause = answer.error or error
                self.note_answer(number, {} if cause is None else {answer.partition: cause}, certain=False)
