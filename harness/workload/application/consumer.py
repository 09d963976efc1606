"""A consumer for a user's application: a `confluent_kafka.Consumer` that records everything it receives.

In the history, the name of a consumer denotes one uninterrupted assignment: an assignment, a seek, and a reset of the
position (`auto.offset.reset`, KIP-320) each begin a new name. A position that goes back for another reason does not. In
a lane with a group, or in a loop, assignments and commits are recorded, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_chaos.contract.lane.transactions import READ_COMMITTED
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.groups.commits import Assignment, Commits, errors_in
from kafka_chaos.harness.workload.settings import LoadSettings

Rebalanced = Callable[[Any, Any], None]
_RESETS_TO_THE_START = ("smallest", "earliest", "beginning")


class ApplicationConsumers(Readers):
    """All consumers of one lane's application, which record what they receive and, if it `has_groups`, their groups."""

    def __init__(self, lane: LaneSpec, load: LoadSettings, *, has_groups: bool = False) -> None:
        super().__init__()
        self.begins_at_0 = lane.transactional is None and lane.cleanup_policy is None
        self.clients: list[ApplicationConsumer] = []
        self.group_ids: set[str] = set()
        self.topic = lane.topic_name
        self.codec = IdentityCodec(lane.lane)
        self._lane = lane.lane
        self._load = load
        self._has_groups = has_groups

    def client(self, configs: Mapping[str, object]) -> ApplicationConsumer:
        """Make one more client of the application, with these configs."""
        of_group: dict[str, Any] = {}
        if self._has_groups:
            isolation = str(configs.get("isolation.level", READ_COMMITTED))
            of_group = {"group": str(configs["group.id"]), "isolation": isolation}
        rows = ConsumedRows(self._load, lane=self._lane, readers=self, **of_group)
        client = ApplicationConsumer(self, configs, rows, f"{self._lane}-application-{len(self.clients) + 1}")
        self.clients.append(client)
        self.group_ids.add(str(configs["group.id"]))
        return client

    def leave(self) -> None:
        """The application has ended: assignments and commits that its clients left open have no end in the history."""
        for client in self.clients:
            client.stop_recording()
        self.clients = []

    def note_positions(self, reader: object, offsets: Iterable[Sequence[int]]) -> None:
        """Note positions, for all clients together: a partition that one client has read may be another's next."""
        with self._lock:
            for number, at in offsets:
                self._positions[number] = None, max(at, self._positions.get(number, (None, 0))[1])


class ApplicationConsumer:
    """A `confluent_kafka.Consumer` that records what it receives; methods that are not here are the client's own."""

    def __init__(
        self, recorder: ApplicationConsumers, configs: Mapping[str, object], rows: ConsumedRows, name: str
    ) -> None:
        """The names of its assignments begin with `name`."""
        self._recorder = recorder
        self._rows: ConsumedRows | None = rows
        self._resets_to = str(configs.get("auto.offset.reset", "latest"))
        self._last: dict[int, Any] = {}
        self._next: dict[int, int] = {}
        self._unanswered: list[tuple[int, dict[int, int]]] = []  # Asynchronous commits: number, offsets.
        self._on_commit: Any = configs.get("on_commit")
        self._error_cb: Any = configs.get("error_cb")
        self._client: Any = new_client(Consumer, {**configs, "on_commit": self._committed, "error_cb": self._disturbed})
        self._assignment = Assignment(name, self._client, self._tell)
        self._commits = Commits(self._client, recorder.topic, self._assignment, self._tell)

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Rebalanced | None = None,
        on_revoke: Rebalanced | None = None,
        on_lost: Rebalanced | None = None,
    ) -> None:
        """As `confluent_kafka.Consumer.subscribe`; callbacks get this consumer."""

        def assigned(_: Any, partitions: Any) -> None:
            self._given(partitions)
            if on_assign is not None:
                on_assign(self, partitions)

        def taken(callback: Rebalanced | None) -> Rebalanced:
            def take(_: Any, partitions: Any) -> None:
                if callback is not None:
                    callback(self, partitions)
                gone = self._in_topic(partitions)
                self._assignment.revoked(gone)
                for partition in gone:
                    self._next.pop(partition, None)

            return take

        callbacks = {"on_revoke": taken(on_revoke), "on_lost": taken(on_lost or on_revoke)}
        self._client.subscribe(list(topics), on_assign=assigned, **callbacks)

    def assign(self, partitions: Sequence[Any]) -> None:
        """As `confluent_kafka.Consumer.assign`."""
        self._assignment.revoked(self._assignment.held - set(self._in_topic(partitions)))
        self._given(partitions)
        self._client.assign(list(partitions))

    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        """As `confluent_kafka.Consumer.incremental_assign`."""
        self._given(partitions)
        self._client.incremental_assign(list(partitions))

    def seek(self, partition: Any) -> None:
        """As `confluent_kafka.Consumer.seek`."""
        self._client.seek(partition)
        self._back(partition.partition)

    def poll(self, timeout: float = -1) -> Any:
        """As `confluent_kafka.Consumer.poll`."""
        message = self._client.poll(timeout)
        self._take([message])
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """As `confluent_kafka.Consumer.consume`."""
        messages = self._client.consume(num_messages, timeout)
        self._take(messages)
        return list(messages)

    def commit(
        self, message: Any = None, offsets: Sequence[TopicPartition] | None = None, asynchronous: bool = True
    ) -> Any:
        """As `confluent_kafka.Consumer.commit`."""
        commits, places = self._commits, self._places(message, offsets)
        choices = {"message": message, "offsets": offsets}
        arguments: dict[str, Any] = {name: choice for name, choice in choices.items() if choice is not None}
        if not asynchronous:
            with commits.committing(places) as failed:
                answers = self._client.commit(**arguments, asynchronous=False)
                failed |= errors_in(answers)
            return answers
        number, errors = commits.announce(places), commits.errors
        self._unanswered.append((number, places))
        try:
            return self._client.commit(**arguments, asynchronous=True)
        except KafkaException as failure:
            self._unanswered = [commit for commit in self._unanswered if commit[0] != number]
            commits.note_answer(number, dict.fromkeys(places, failure.args[0]), certain=commits.errors == errors)
            raise

    def sending_offsets(self, offsets: Sequence[TopicPartition], **transaction: int) -> AbstractContextManager[object]:
        """A context manager whose block sends these offsets to a transaction; see `Commits.committing`."""
        return self._commits.committing(self._places(None, offsets), **transaction)

    def close(self) -> None:
        """As `confluent_kafka.Consumer.close`."""
        self._client.close()
        self._assignment.revoked(self._assignment.held)

    def stop_recording(self) -> None:
        """The application has ended: record nothing more."""
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.ends()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _tell(self, kind: str, **values: Any) -> None:
        if self._rows is not None:
            self._rows.handle(kind, values)

    def _given(self, partitions: Iterable[TopicPartition]) -> None:
        self._last = {}
        self._assignment.assigned(self._in_topic(partitions))

    def _take(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if message is None or message.error() is not None or message.topic() != self._recorder.topic:
                continue
            partition, offset = message.partition(), message.offset()
            last = self._last.get(partition)
            if last is not None and offset <= last.offset() and self._was_reset(message, last):
                self._back(partition)
            self._last[partition] = message
            self._next[partition] = offset + 1
            if self._rows is not None:
                identity = self._recorder.codec.decode_record(message.value(), message.headers())
                self._rows.add_message(self._assignment.name, message, identity)
                self._rows.note_positions([(partition, offset + 1)])
        self._commits.positions.note_positions(self._next)

    def _was_reset(self, message: Any, last: Any) -> bool:
        """Whether a position that went back was reset, to the start of the log or, after a truncation, to its end.

        Behind the place of a truncation, every record has a later leader epoch than the records read before.
        """
        if self._resets_to == "error":
            return False
        if self._resets_to not in _RESETS_TO_THE_START or not self._recorder.begins_at_0 or message.offset() == 0:
            return True
        epoch, before = message.leader_epoch(), last.leader_epoch()
        return epoch is None or before is None or epoch > before

    def _back(self, partition: int) -> None:
        self._last = {}
        self._next.pop(partition, None)
        self._assignment.position_changed()

    def _committed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Take the answer to a commit that the application asked for, or else to an automatic one of the client."""
        places = [place for place in partitions if place.topic == self._recorder.topic]
        answered = {place.partition: place.offset for place in places if place.offset >= 0}
        # librdkafka leaves out partitions whose position it has committed already, and says so if these are all.
        is_part = bool(answered) or (error is not None and error.code() == KafkaError._NO_OFFSET)
        fits = (one for one in self._unanswered if (answered.items() <= one[1].items() if is_part else not one[1]))
        commit = next(fits, None)
        if commit is None:
            self._commits.note_automatic(error, places)
        else:
            self._unanswered.remove(commit)
            failed = {place.partition: cause for place in partitions if (cause := place.error or error) is not None}
            self._commits.note_answer(commit[0], failed, certain=False)
        if self._on_commit is not None:
            self._on_commit(error, partitions)

    def _disturbed(self, error: KafkaError) -> None:
        self._commits.errors += 1
        if self._error_cb is not None:
            self._error_cb(error)

    def _in_topic(self, partitions: Iterable[TopicPartition]) -> list[int]:
        return [place.partition for place in partitions if place.topic == self._recorder.topic]

    def _places(self, message: Any, offsets: Sequence[TopicPartition] | None) -> dict[int, int]:
        topic = self._recorder.topic
        if message is not None:
            return {message.partition(): message.offset() + 1} if message.topic() == topic else {}
        if offsets is not None:
            return {place.partition: place.offset for place in offsets if place.topic == topic and place.offset >= 0}
        return dict(self._next)
