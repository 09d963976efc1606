"""A member of a consumer group: polls records, processes them, commits their offsets, and tells the harness of each.

To process a record means to tell the harness of it (event `read`), in a loop also to send the output for it. A
member that is ordered to freeze does so between polling a batch and processing it. A member that is ordered to crash
kills itself by SIGKILL while it processes a batch.

Sources: KIP-62, KIP-429; librdkafka's documentation of rebalance callbacks and of `enable.partition.eof`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_chaos.contract.lane.groups import AFTER, AUTO, BEFORE
from kafka_chaos.harness.clients.python_client import listen
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.groups.commits import Assignment, Commits, Tell, next_offsets
from kafka_chaos.harness.workload.groups.settings import ORDER_CRASH, ORDER_FREEZE, ORDER_LEAVE, MemberSettings

_POLL_TIMEOUT_S = 0.1
_MAX_RECORDS = 500
_LEAVE_TIMEOUT_S = 20.0

Identities = list[tuple[int, int]]
"""(producer_id, seq) of each record."""


class OrderInbox:
    """The harness's orders to the member, which a thread receives. The process ends with the harness."""

    def __init__(self) -> None:
        self._freezes = 0
        self.must_crash = False
        self._leave_deadline: float | None = None
        listen(self._take_order)

    def take_freeze(self) -> bool:
        """Whether the member has to freeze now: returns true once for each order."""
        if self._freezes:
            self._freezes -= 1
            return True
        return False

    def must_leave(self) -> bool:
        """Whether the member has to leave."""
        return self._leave_deadline is not None

    def gives_up(self) -> bool:
        """Whether the member stops waiting for answers: its order to leave is older than `_LEAVE_TIMEOUT_S`."""
        return self._leave_deadline is not None and time.monotonic() > self._leave_deadline

    def _take_order(self, order: Mapping[str, Any]) -> None:
        self._freezes += order["order"] == ORDER_FREEZE
        self.must_crash |= order["order"] == ORDER_CRASH
        if order["order"] == ORDER_LEAVE and self._leave_deadline is None:
            self._leave_deadline = time.monotonic() + _LEAVE_TIMEOUT_S


class MemberLost(Exception):
    """A member's consumer has failed for good, as when another member has taken its `group.instance.id`."""


def die() -> None:
    """Kill this process, so that nothing is closed or sent any more."""
    os.kill(os.getpid(), signal.SIGKILL)


class Member:
    """One member. `connect` makes its consumer, `processing` processes its records, `tell` sends the harness events."""

    def __init__(
        self,
        settings: MemberSettings,
        *,
        connect: Callable[[dict[str, Any]], Consumer],
        tell: Tell,
        orders: OrderInbox,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self.tell = tell
        self.orders = orders
        self._sleep = sleep
        self._codec = IdentityCodec(settings["lane"])
        self._ends: dict[int, int] = {}  # By partition, the end's offset, if the member has read up to it.
        self._has_new_ends = False
        self._last_read_ns = 0
        callbacks: dict[str, Any] = {"error_cb": self._note_error}
        if settings["commits"] == AUTO:
            callbacks["on_commit"] = self._note_committed
        self.client = connect({**settings["configs"], **callbacks})
        resets_to = settings["configs"].get("auto.offset.reset", "latest")
        self.assignment = Assignment(settings["name"], self.client, tell, resets_to=resets_to)
        self.commits = Commits(self.assignment, settings["topic"])
        self.processing = Processing(self, settings["commits"])

    def run(self) -> None:
        """Poll and process until the member is ordered to leave; then leave the group. Raises `MemberLost`."""
        callbacks = {"on_assign": self._note_assigned, "on_revoke": self._note_revoked, "on_lost": self._note_revoked}
        self.client.subscribe([self._settings["topic"]], **callbacks)
        while not self.orders.must_leave():
            self.step()
        self.processing.close()
        self.leave()

    def leave(self) -> None:
        """Close the consumer, which leaves the group, and give back its partitions."""
        self.client.close()
        self.assignment.note_revoked(self.assignment.held)

    def step(self) -> None:
        """Poll once, and process the records."""
        self.processing.serve()
        messages = self.client.consume(self.processing.batch_size, _POLL_TIMEOUT_S)
        records = [message for message in messages if message.error() is None]
        for message in messages:
            self._handle_message(message)
        for record in records:
            self.assignment.note_message(record)
        if records and self._settings["commits"] == AUTO:
            self.commits.positions.note_positions(next_offsets(records))
        if records and self.orders.take_freeze():
            self.tell("changes", change="freezes")
            self._sleep(self._settings["freeze_seconds"])
            self.tell("changes", change="thaws")
        if records:
            crash = self._crash if self.orders.must_crash else None
            if self.processing.handle(records, crash):
                self._seek_back(records)
        if self._has_new_ends and self._ends:
            self.tell("at_end", offsets=sorted(self._ends.items()))
        self._has_new_ends = False

    def tell_read(self, messages: Sequence[Any]) -> Identities:
        """Tell the harness that these messages were processed, a nanosecond apart; returns their identities."""
        first_ns = max(self._last_read_ns + 1, time.monotonic_ns())
        self._last_read_ns = first_ns + len(messages) - 1
        columns = self._codec.columns_of(messages)
        self.tell("read", consumer=self.assignment.name, **columns, ns=first_ns)
        return list(zip(columns["producer_id"], columns["seq"], strict=True))

    def _crash(self) -> None:
        self.tell("notice", text="crashes amid a batch")
        die()

    def _handle_message(self, message: Any) -> None:
        error = message.error()
        if error is None:
            self._ends.pop(message.partition(), None)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._ends[message.partition()] = message.offset()
            self._has_new_ends = True
        elif error.code() == KafkaError._FATAL:
            raise MemberLost(error.str())
        else:
            self.tell("notice", text=error.name())

    def _seek_back(self, messages: Sequence[Any]) -> None:
        """Set the positions back to the first of these messages in each partition, so that they are read again."""
        first_offsets: dict[int, int] = {}
        for message in messages:
            first_offsets.setdefault(message.partition(), message.offset())
        for partition, offset in first_offsets.items():
            self._ends.pop(partition, None)
            if partition in self.assignment.held:
                try:
                    self.client.seek(TopicPartition(self._settings["topic"], partition, offset))
                except KafkaException as failure:
                    # The partition is being revoked: its next owner reads the messages again.
                    self.tell("notice", text=f"seek: {failure.args[0].name()}")
        self.assignment.change_name()

    def _note_assigned(self, _: Any, partitions: Sequence[TopicPartition]) -> None:
        # An assignment makes the harness forget all positions. Where the member is at the end of a partition that it
        # keeps, the client does not report that end again: so the member tells it again.
        self._has_new_ends = True
        self.assignment.change_name(entry.partition for entry in partitions)

    def _note_revoked(self, _: Any, partitions: Sequence[TopicPartition]) -> None:
        for entry in partitions:
            self._ends.pop(entry.partition, None)
        self.assignment.note_revoked(entry.partition for entry in partitions)

    def _note_committed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        self.commits.note_automatic(error, partitions)

    def _note_error(self, _: KafkaError) -> None:
        self.commits.errors += 1


class Processing:
    """How a member outside of a loop processes a batch: it only tells the harness of the records.

    `batch_size`: the most records of a batch. `commits`: when the member commits, as in `Group` and `Loop`.
    """

    batch_size = _MAX_RECORDS

    def __init__(self, member: Member, commits: str) -> None:
        self._member = member
        self._commits = commits

    def handle(self, messages: Sequence[Any], crash: Callable[[], None] | None) -> bool:
        """Process a batch and commit it; returns whether it must be read again. `crash`, if any, is called midway."""
        offsets = next_offsets(messages)
        if self._commits == BEFORE and not self._member.commits.commit(offsets):
            return True
        if not self._process(messages, crash):
            # A batch that was committed before it was processed is never read again.
            return self._commits != BEFORE
        if self._commits == AFTER:
            self._member.commits.commit(offsets)
        return False

    def _process(self, messages: Sequence[Any], crash: Callable[[], None] | None) -> bool:
        """Process messages; returns whether all are processed. `crash` is called after half of them, and never returns.

        Half of an odd number is rounded up, so that a crash always leaves a record that is processed and not committed;
        with commits `before`, it is rounded down, which leaves a record that is committed and not processed.
        """
        if crash is not None:
            self._process_all(messages[: (len(messages) + (self._commits != BEFORE)) // 2])
            crash()
        return self._process_all(messages)

    def _process_all(self, messages: Sequence[Any]) -> bool:
        self._member.tell_read(messages)
        return True

    def serve(self) -> None:
        """Do what is due at every poll: here nothing."""

    def close(self) -> None:
        """Close what the processing has opened: here nothing."""
