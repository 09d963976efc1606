"""A consumer for a user's application: a `confluent_kafka.Consumer` that records everything it receives.

In the history, the name of a consumer denotes one uninterrupted assignment: an assignment, a seek, and a reset of the
position (`auto.offset.reset`, KIP-320) each change the name. Where the position goes back for another reason, the name
stays. In a lane with a group, or in a loop, assignments and commits are recorded, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.transactions import READ_COMMITTED
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows, Readers
from kafka_chaos.harness.workload.groups.commits import Assignment, Commits, errors_in
from kafka_chaos.harness.workload.settings import LoadSettings

RebalanceCallback = Callable[[Any, Any], None]


class ApplicationConsumers(Readers):
    """All consumers that the application of one lane makes, and the records that they receive.

    With transactions or a `group_id`, assignments are recorded, too, and commits if the consumers form that group.
    """

    def __init__(self, lane: LaneSpec, load: LoadSettings, *, group_id: str | None = None) -> None:
        super().__init__(load, lane, group_id)
        # Markers, aborted records, compaction and retention may leave offset 0 without a record.
        self.begins_at_0 = lane.transactional is None and lane.cleanup_policy is None
        self.clients: list[ApplicationConsumer] = []
        self.name = lane.lane  # Names of consumers begin with it.
        self.topic = lane.topic_name
        self.codec = IdentityCodec(lane.lane)
        self._has_assignments = group_id is not None or lane.transactional is not None

    def client(self, configs: Mapping[str, object]) -> ApplicationConsumer:
        """Make one more consumer, with these configs."""
        isolation = str(configs.get("isolation.level", READ_COMMITTED)) if self._has_assignments else None
        name = f"{self.name}-application-{len(self.clients) + 1}"
        client = ApplicationConsumer(self, configs, ConsumedRows(self, isolation=isolation), name)
        self.clients.append(client)
        return client

    def leave(self) -> None:
        """End the recording: assignments and commits that the application left open have no end in the history."""
        for client in self.clients:
            client.stop_recording()
        self.clients = []

    def note_positions(self, reader: object, offsets: Iterable[Sequence[int]]) -> None:
        """Note positions. The highest counts, whichever client has read it: partitions move between clients."""
        with self._lock:
            for partition, offset in offsets:
                self._positions[partition] = None, max(offset, self._positions.get(partition, (None, 0))[1])


class ApplicationConsumer(AbstractContextManager["ApplicationConsumer"]):
    """A `confluent_kafka.Consumer` that records what it receives; callbacks get this object.

    Methods without a docstring do what the client's methods of these names do. All others are passed on to the client.
    """

    def __init__(
        self, recorder: ApplicationConsumers, configs: Mapping[str, object], rows: ConsumedRows, name: str
    ) -> None:
        """The names of the consumer's assignments begin with `name`."""
        self.is_closed = False
        self._recorder = recorder
        self._rows: ConsumedRows | None = rows
        self._next_offsets: dict[int, int] = {}  # By partition, the offset to commit.
        self._unanswered: list[tuple[int, dict[int, int]]] = []  # Asynchronous commits: number, offsets by partition.
        self._on_commit: Any = configs.get("on_commit")
        self._error_cb: Any = configs.get("error_cb")
        self._client: Any = new_client(
            Consumer, {**configs, "on_commit": self._note_committed, "error_cb": self._note_error}
        )
        reset = configs.get("auto.offset.reset", "latest")
        self._assignment = Assignment(name, self._client, self._tell, resets_to=reset, begins_at_0=recorder.begins_at_0)
        self._commits = Commits(self._assignment, recorder.topic)

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: RebalanceCallback | None = None,
        on_revoke: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:

        def assigned(_: Any, partitions: Any) -> None:
            self._note_assigned(partitions)
            if on_assign is not None:
                on_assign(self, partitions)

        def revoked(callback: RebalanceCallback | None, _: Any, partitions: Any) -> None:
            # The callback comes first: the application may commit offsets of these partitions in it.
            if callback is not None:
                callback(self, partitions)
            numbers = self._in_topic(partitions)
            self._assignment.note_revoked(numbers)
            for number in numbers:
                self._next_offsets.pop(number, None)

        revoke, lose = partial(revoked, on_revoke), partial(revoked, on_lost or on_revoke)
        self._client.subscribe(list(topics), on_assign=assigned, on_revoke=revoke, on_lost=lose)

    def assign(self, partitions: Sequence[Any]) -> None:
        self._assignment.note_revoked(self._assignment.held - set(self._in_topic(partitions)))
        self._note_assigned(partitions)
        self._client.assign(list(partitions))

    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        self._note_assigned(partitions)
        self._client.incremental_assign(list(partitions))

    def seek(self, partition: Any) -> None:
        self._client.seek(partition)
        self._next_offsets.pop(partition.partition, None)
        self._assignment.change_name()

    def poll(self, timeout: float = -1) -> Any:
        message = self._client.poll(timeout)
        self._record([message])
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        messages = self._client.consume(num_messages, timeout)
        self._record(messages)
        return list(messages)

    def commit(
        self, message: Any = None, offsets: Sequence[TopicPartition] | None = None, asynchronous: bool = True
    ) -> Any:
        commits, committed = self._commits, self._committed_offsets(message, offsets)
        choices: dict[str, Any] = {"message": message, "offsets": offsets}
        arguments = {name: choice for name, choice in choices.items() if choice is not None}
        if not asynchronous:
            with commits.committing(committed) as failed:
                answers = self._client.commit(**arguments, asynchronous=False)
                failed |= errors_in(answers)
            return answers
        number, errors_before = commits.announce(committed), commits.errors
        self._unanswered.append((number, committed))
        try:
            return self._client.commit(**arguments, asynchronous=True)
        except KafkaException as failure:
            self._unanswered = [commit for commit in self._unanswered if commit[0] != number]
            failed = dict.fromkeys(committed, failure.args[0])
            commits.note_answer(number, failed, certain=commits.errors == errors_before)
            raise

    def sending_offsets(self, offsets: Sequence[TopicPartition], **transaction: int) -> AbstractContextManager[object]:
        """Record the commit that the context manager's block makes: it sends the offsets to the `transaction`."""
        return self._commits.committing(self._committed_offsets(None, offsets), **transaction)

    def close(self) -> None:
        self._client.close()
        self.is_closed = True
        self._assignment.note_revoked(self._assignment.held)

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop_recording(self) -> None:
        """Record nothing more: the application has ended."""
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.note_end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _tell(self, kind: str, **values: Any) -> None:
        if self._rows is not None:
            self._rows.handle(kind, values)

    def _note_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = list(partitions)
        if any(one.topic == self._recorder.topic and one.offset == OFFSET_END for one in partitions):
            message = "a consumer that begins at the end misses what came before, as with auto.offset.reset=latest"
            raise UsageFailure(f"{message}: expected another offset")
        self._assignment.change_name(self._in_topic(partitions))

    def _record(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if message is None or message.error() is not None or message.topic() != self._recorder.topic:
                continue
            partition, offset = message.partition(), message.offset()
            if self._assignment.note_message(message):
                self._next_offsets.pop(partition, None)
            self._next_offsets[partition] = offset + 1
            if self._rows is not None:
                identity = self._recorder.codec.decode_record(message.value(), message.headers())
                self._rows.add_message(self._assignment.name, message, identity)
                self._rows.note_positions([(partition, offset + 1)])
        self._commits.positions.note_positions(self._next_offsets)

    def _note_committed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Tell the answer to a commit that the application asked for, or else to an automatic commit of the client."""
        answers = [answer for answer in partitions if answer.topic == self._recorder.topic]
        answered = {answer.partition: answer.offset for answer in answers if answer.offset >= 0}
        # librdkafka leaves out partitions whose position it has committed already; _NO_OFFSET: it left out all. So an
        # answer with offsets belongs to the first commit that has them all, _NO_OFFSET to the first commit, and any
        # other answer to the first commit without offsets.
        may_lack_partitions = bool(answered) or (error is not None and error.code() == KafkaError._NO_OFFSET)
        for commit in self._unanswered:
            number, offsets = commit
            if answered.items() <= offsets.items() if may_lack_partitions else not offsets:
                self._unanswered.remove(commit)
                failed = {entry.partition: cause for entry in partitions if (cause := entry.error or error) is not None}
                self._commits.note_answer(number, failed, certain=False)
                break
        else:
            self._commits.note_automatic(error, answers)
        if self._on_commit is not None:
            self._on_commit(error, partitions)

    def _note_error(self, error: KafkaError) -> None:
        self._commits.errors += 1
        if self._error_cb is not None:
            self._error_cb(error)

    def _in_topic(self, partitions: Iterable[TopicPartition]) -> list[int]:
        return [partition.partition for partition in partitions if partition.topic == self._recorder.topic]

    def _committed_offsets(self, message: Any, offsets: Sequence[TopicPartition] | None) -> dict[int, int]:
        """What a commit with these arguments commits in the lane's topic: offsets by partition."""
        topic = self._recorder.topic
        if message is not None:
            return {message.partition(): message.offset() + 1} if message.topic() == topic else {}
        if offsets is not None:
            return {entry.partition: entry.offset for entry in offsets if entry.topic == topic and entry.offset >= 0}
        return dict(self._next_offsets)
