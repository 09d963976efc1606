"""A consumer of a user's application as the member of a group: its assignments and its commits are in the history."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_chaos.contract.lane.transactions import READ_COMMITTED
from kafka_chaos.harness.workload.clients.calls import Calls
from kafka_chaos.harness.workload.groups.assignment import Assignment
from kafka_chaos.harness.workload.groups.commits import Commits
from kafka_chaos.harness.workload.groups.rows import MemberRows, Progress
from kafka_chaos.harness.workload.tables import LoadTables


class Callbacks:
    """The configs of a client whose callbacks the member learns of; those of the application are called, too."""

    def __init__(self, configs: Mapping[str, object]) -> None:
        self.member: Member | None = None
        self._on_commit: Any = configs.get("on_commit")
        self._error_cb: Any = configs.get("error_cb")
        self.configs = {**configs, "on_commit": self._committed, "error_cb": self._failed}

    def _committed(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        if self.member is not None:
            self.member.learns(error, partitions)
        if self._on_commit is not None:
            self._on_commit(error, partitions)

    def _failed(self, error: KafkaError) -> None:
        if self.member is not None:
            self.member.commits.errors += 1
        if self._error_cb is not None:
            self._error_cb(error)


class Member:
    """The assignments and commits of one client of the application in `lane`; `configs` are the client's."""

    def __init__(
        self,
        client: Any,
        configs: Mapping[str, object],
        *,
        name: str,
        lane: str,
        topic: str,
        tables: LoadTables,
        has_groups: bool,
        calls: Calls,
    ) -> None:
        self._client = client
        self._topic = topic
        self._rows: MemberRows | None = MemberRows(
            group=str(configs["group.id"]),
            lane=lane,
            isolation=str(configs.get("isolation.level", READ_COMMITTED)),
            tables=tables,
            has_groups=has_groups,
            progress=Progress(),
            calls=calls,
        )
        self.assignment = Assignment(name, client, self._tell)
        self.commits = Commits(client, topic, self.assignment, self._tell)
        self._next: dict[int, int] = {}
        self._asked: list[tuple[int, dict[int, int]]] = []

    @property
    def name(self) -> str:
        """The name of the present assignment."""
        return self.assignment.name

    def metadata(self) -> object:
        """The group metadata of the client, which a transactional producer is given with offsets."""
        return self._client.consumer_group_metadata()

    def given(self, partitions: Iterable[TopicPartition]) -> None:
        """A rebalance gave it these beside what it has."""
        self.assignment.given(self._own(partitions))

    def taken(self, partitions: Iterable[TopicPartition]) -> None:
        """A rebalance took these."""
        gone = self._own(partitions)
        self.assignment.taken(gone)
        for partition in gone:
            self._next.pop(partition, None)

    def replaced(self, partitions: Iterable[TopicPartition]) -> None:
        """It has just these from now on."""
        wanted = self._own(partitions)
        self.assignment.taken(self.assignment.held - set(wanted))
        self.assignment.given(wanted)

    def sought(self) -> None:
        """Its position was set back."""
        self.assignment.sought()
        self._next = {}

    def receives(self, partition: int, offset: int) -> None:
        """It was given the record at this offset."""
        self._next[partition] = offset + 1

    def polled(self) -> None:
        """It was given all that a poll gave."""
        self.commits.positions.reaches(self._next)

    def commit(
        self, message: Any = None, offsets: Sequence[TopicPartition] | None = None, asynchronous: bool = True
    ) -> Any:
        """As `confluent_kafka.Consumer.commit`."""
        places = self._places(message, offsets)
        number, errors = self.commits.asks(places), self.commits.errors
        given = {"message": message, "offsets": offsets}
        named: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if asynchronous:
            self._asked.append((number, places))
        try:
            answers = self._client.commit(**named, asynchronous=asynchronous)
        except KafkaException as failure:
            self._asked = [one for one in self._asked if one[0] != number]
            certain = self.commits.errors == errors
            self.commits.learns(number, dict.fromkeys(places, failure.args[0]), certain=certain)
            raise
        if not asynchronous:
            failed = {one.partition: one.error for one in answers or () if one.error is not None}
            self.commits.learns(number, failed, certain=self.commits.errors == errors)
        return answers

    def in_transaction(
        self, offsets: Sequence[TopicPartition], send: Callable[[], object], *, producer_id: int, transaction: int
    ) -> None:
        """Commit offsets in a transaction, by `send`; raises what it raises."""
        places = self._places(None, offsets)
        with self.commits.in_transaction(places, producer_id=producer_id, transaction=transaction):
            send()

    def learns(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """The client's callback: the answer to what was asked for, or to a commit of the client's own."""
        answered = {one.partition: one.offset for one in partitions if one.topic == self._topic and one.offset >= 0}
        for asked in self._asked:
            if asked[1] == answered:
                self._asked.remove(asked)
                failed = {one.partition: found for one in partitions if (found := one.error or error) is not None}
                self.commits.learns(asked[0], failed, certain=False)
                return
        self.commits.automatic(error, [one for one in partitions if one.topic == self._topic])

    def closed(self) -> None:
        """The client has left its group."""
        self.assignment.taken(self.assignment.held)

    def ended(self) -> None:
        """The application has ended."""
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.ends()

    def _tell(self, kind: str, **values: Any) -> None:
        if self._rows is not None:
            self._rows.takes(kind, values)

    def _own(self, partitions: Iterable[TopicPartition]) -> list[int]:
        return [one.partition for one in partitions if one.topic == self._topic]

    def _places(self, message: Any, offsets: Sequence[TopicPartition] | None) -> dict[int, int]:
        if message is not None:
            return {message.partition(): message.offset() + 1} if message.topic() == self._topic else {}
        if offsets is not None:
            return {one.partition: one.offset for one in offsets if one.topic == self._topic and one.offset >= 0}
        return dict(self._next)
