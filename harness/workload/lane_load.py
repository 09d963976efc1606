"""The clients of one lane: which there are, how each is made, and how they work under load.

A plain lane has one producer and one consumer, and further ones that come and go, as the lane's `lives` say. A lane
with transactions has one or more producers, and a consumer in each isolation level. Functions of a user's application
can replace producers or consumers. If the lane has a group, the group's members read it, too. If it has a loop, the
loop's members write it instead of producers. The producers have a thread of their own.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import NamedTuple

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.lanes import has_compaction
from kafka_chaos.contract.lane.transactions import READ_COMMITTED, READ_UNCOMMITTED
from kafka_chaos.faults.target import MEMBER
from kafka_chaos.harness.clients.kinds import IN_PROCESS, parse_client
from kafka_chaos.harness.experiment.lane_specs import LINGER_MS, LaneSpec
from kafka_chaos.harness.experiment.lives import CONSUMER, PRODUCER, LifeSpec, Role
from kafka_chaos.harness.workload.application.handles import Application, ApplicationMembers, ProducerFunction
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.consumed import Readers
from kafka_chaos.harness.workload.clients.defect_watch import log_reader, with_log_reader
from kafka_chaos.harness.workload.clients.following import Follower, RecordedConsumer
from kafka_chaos.harness.workload.clients.lives import FurtherConsumers, processes_of
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows, key_of
from kafka_chaos.harness.workload.clients.producers import LaneProducers, PacedProducers, WrittenRecords
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer, RecordedProducer
from kafka_chaos.harness.workload.groups.group_kinds import ConsumerGroup, ShareGroup
from kafka_chaos.harness.workload.groups.load import GroupLoad
from kafka_chaos.harness.workload.process_clients import ProcessConsumer, ProcessProducer
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.transactions.load import TransactionalProducers
from kafka_chaos.harness.workload.worker import Worker

Members = GroupLoad | ApplicationMembers
"""The members of a group: the harness's own, or the application's."""
LaneReaders = tuple[Follower | ApplicationMembers, ...]
"""The consumers that read a lane from its start to its end. The first reads every record that any other reads."""


@dataclass(frozen=True)
class LaneClients:
    """Makes the clients of one lane.

    `application`: functions that replace its clients. `source`: the lane that the lane's loop reads.
    """

    lane: LaneSpec
    load: LoadSettings
    _: KW_ONLY
    application: Application = field(default_factory=Application)
    source: LaneSpec | None = None

    def make_producers(self) -> LaneProducers:
        """Make the producers of the lane, which has no loop."""
        lane, load, function = self.lane, self.load, self.application.producer
        lives = self._lives(PRODUCER, function)
        if function is not None:
            return ProducerFunction(lane, function, load)
        if lane.transactional is not None:
            connect = partial(RecordedConsumer, lane, load, isolation=READ_COMMITTED)
            connect_reader = connect if lane.transactional.reads else None
            return TransactionalProducers(lane, lambda number, id: self._producer(number, 0, id), load, connect_reader)
        return PacedProducers(self._producer, load, lives)

    def make_loop(self) -> Members:
        """Make the loop that reads the source and writes the lane."""
        function, source = self.application.producer, self.source
        assert source is not None
        if function is None:
            return ConsumerGroup(self.lane, source, self.load).begin()
        return ApplicationMembers(self.lane, function, self.load, source=source)

    def make_readers(self) -> tuple[LaneReaders, Members | None]:
        """Make the consumers that read the whole lane, and the members of its group, if it has one.

        The application's consumer function takes the place of the consumers in a plain lane. In a lane with a group or
        transactions, it takes the place of the members. Raises `UsageFailure` for a lane with a share group.
        """
        lane, load = self.lane, self.load
        if (function := self.application.consumer) is not None:
            if lane.share is not None:
                raise UsageFailure(f"lane {lane.lane}: an application reads it: expected no share group")
            has_followers = lane.group is not None or lane.transactional is not None
            application = ApplicationMembers(lane, function, load)
            return (self._followers(), application) if has_followers else ((application,), None)
        if lane.share is not None:
            return self._followers(), ShareGroup(lane, load).begin()
        return self._followers(), None if lane.group is None else ConsumerGroup(lane, lane, load).begin()

    def make_further_consumers(self) -> FurtherConsumers:
        """Make the consumers that come and go, as the lane's `lives` say."""
        lives = self._lives(CONSUMER, self.application.consumer)
        return FurtherConsumers(
            lambda number, slot: self._follower(f"{CONSUMER}-{slot}", number=number), self.lane, self.load, lives
        )

    def _lives(self, role: Role, function: Callable[..., object] | None) -> list[LifeSpec]:
        """The lives of the lane's further clients in a role. Raises `UsageFailure` if a `function` has the role."""
        lives = [life for life in self.lane.lives if life.role == role for _ in range(life.count)]
        if lives and function is not None:
            raise UsageFailure(f"lane {self.lane.lane}: an application is its {role}: expected no lives of a {role}")
        return lives

    def _producer(self, number: int, slot: int, transactional_id: str | None = None) -> LaneProducer:
        """Make the producer of this number. In slot 0, it writes to all partitions; in any other slot, to one."""
        lane, load = self.lane, self.load
        partitions = 1 if slot else lane.initial_partitions
        first = (slot - 1) % lane.initial_partitions if slot else 0
        client_id = f"{lane.lane}-{number if transactional_id else slot}"
        configs = load.producer_configs(lane)
        if transactional_id is not None:
            configs["transactional.id"] = transactional_id
        client = parse_client(lane.client)
        read_line = log_reader(lane.as_lane(()), configs, load.emit, producer_id=number)
        keys = None
        if client is None and has_compaction(lane.cleanup_policy):
            keys = partial(key_of, keys=lane.keys, tombstones=lane.tombstones, partitions=partitions)
        rows = ProducedRows(
            load.tables,
            lane=lane.lane,
            producer_id=number,
            partitions=RoundRobin(partitions, first=first),
            transactional_id=transactional_id,
            keys=keys,
        )
        if client is None:
            return RecordedProducer(
                rows,
                topic=lane.topic_name,
                # With acks=0, a new partition drops records that come before its leader serves; no producer knows.
                grows_to=0 if slot or lane.acks == "0" else lane.partitions,
                record_size=load.workload.record_size,
                configs=with_log_reader({"client.id": client_id, **configs}, read_line),
            )
        settings = {
            "producer_id": number,
            "partitions": partitions,
            "first_partition": first,
            "record_size": load.workload.record_size,
            "acks": lane.acks,
            "idempotence": lane.idempotence,
            "max_in_flight": lane.max_in_flight,
            "linger_ms": LINGER_MS,
            "delivery_timeout_ms": configs["message.timeout.ms"],
            "transactional_id": transactional_id,
            "transaction_timeout_ms": configs.get("transaction.timeout.ms"),
            **({} if read_line is None else {"log": True}),
        }
        start = load.process_starter(lane, PRODUCER, client_id, settings, lane.producer_configs)
        return ProcessProducer(start, rows, read_line=read_line)

    def _followers(self) -> tuple[Follower, ...]:
        """Make a consumer of the lane's topic or, if the lane has transactions, one in each isolation level."""
        if self.lane.transactional is None:
            return (self._follower(),)
        return tuple(self._follower(level, isolation=level) for level in (READ_UNCOMMITTED, READ_COMMITTED))

    def _follower(self, name: str = "", *, isolation: str | None = None, number: int | None = None) -> Follower:
        """Make a consumer that reads the topic from its start. `name`: the end of its `client.id` in a process."""
        lane, load = self.lane, self.load
        if lane.client == IN_PROCESS:
            return RecordedConsumer(lane, load, isolation=isolation, number=number)
        client_id = f"{lane.lane}-{name}" if name else lane.lane
        settings = {"start_offsets": load.start_offsets.get(lane.lane, {}), "isolation": isolation}
        start = load.process_starter(lane, CONSUMER, client_id, settings, lane.reader_configs)
        return ProcessConsumer(start, lane, load, isolation=isolation, number=number)


class Counts(NamedTuple):
    """How many records of a lane were sent, acknowledged and consumed so far."""

    sent: int
    acknowledged: int
    consumed: int


class LaneLoad:
    """The clients of one lane at work. `written`: the records of its producers, or of the members of its loop."""

    def __init__(self, clients: LaneClients) -> None:
        self.lane = clients.lane
        self.producer: LaneProducers | None = None
        self.loop: Members | None = None
        self.written: WrittenRecords
        if self.lane.loop is None:
            self.written = self.producer = clients.make_producers()
        else:
            self.loop = clients.make_loop()
            self.written = self.loop.output
        self._further_consumers = clients.make_further_consumers()
        self.consumers, self.group = clients.make_readers()
        groups = [members for members in (self.group, self.loop) if members is not None]
        self._all_readers: Sequence[Readers] = (self._further_consumers, *groups, *self.consumers)
        self._members = groups[:1]  # Faults hit the members of the lane's group or, without a group, of its loop.
        self._settle_timeout = clients.load.workload.settle_timeout
        self._sending = threading.Event()
        self._sending.set()
        self._cancelled = threading.Event()
        self._worker = Worker(self._run, name=f"producer-{self.lane.lane}")

    @property
    def counts(self) -> Counts:
        """The counts of the lane; only the first of its consumers counts, which reads everything."""
        return Counts(self.written.sent, self.written.acknowledged, self.consumers[0].consumed)

    @property
    def has_failed(self) -> bool:
        """Whether the lane's producers are processes of their own, and all of them have failed for good."""
        return all(writer.problem for writer in self._writers) and bool(self._writers)

    def report_silence(self, seconds: float) -> bool:
        """Note for each producer process that nothing was acknowledged in time; returns whether there is any."""
        for writer in self._writers:
            writer.note_problem(f"had no record acknowledged within {seconds:g} s")
        return bool(self._writers)

    @property
    def _writers(self) -> Sequence[SupervisedProcess | GroupLoad]:
        """The processes of the lane's producers, if they have any; all members of a loop count as one."""
        if self.producer is None:
            return [self.loop] if isinstance(self.loop, GroupLoad) else []
        return processes_of(self.producer.producers)

    def processes(self, role: str) -> Sequence[SupervisedProcess]:
        """The lane's clients in a role that are processes of their own and run, for faults to hit."""
        clients: Sequence[Readers | LaneProducers] = [] if self.producer is None else [self.producer]
        if role == CONSUMER:
            clients = [*self.consumers, self._further_consumers]
        elif role == MEMBER:
            clients = self._members
        return [process for each in clients for process in each.processes() if process.is_running()]

    def readers(self) -> LaneReaders:
        """The consumers that have to read to the end: those that stay, and those that live when the load has ended."""
        return (*self.consumers, *self._further_consumers.living_consumers())

    def start(self) -> None:
        """Start sending, and whatever else the clients do under load, such as planned crashes of a group's members."""
        for readers in self._all_readers:
            readers.begin_load()
        if self.producer is not None:
            self._worker.start()

    def stop_sending(self) -> None:
        """Stop sending; records in flight still get their outcomes."""
        self._sending.clear()
        self._further_consumers.stop()

    def await_outcomes(self) -> None:
        """Wait until every record, except a loop's records, has an outcome; raises what a thread of the lane raised."""
        self._worker.join()
        self.raise_error()

    def raise_error(self) -> None:
        """Raise an error of the producer's thread, of an application's function or of a group, if there was one."""
        for readers in self._all_readers:
            readers.raise_error()
        self._worker.raise_error()

    def cancel(self) -> None:
        """End at once; records without an outcome become info."""
        self._sending.clear()
        self._cancelled.set()

    def close(self) -> None:
        """End the threads, and pass the last rows to the writers."""
        self.cancel()
        if self.producer is not None and self._worker.ident is None:
            # The load never started, but its clients exist, and may be processes.
            self.producer.finish(0.0, self._cancelled)
        self._worker.join()
        for readers in self._all_readers:
            readers.close()

    def _run(self) -> None:
        assert self.producer is not None
        try:
            self.producer.run(self._sending)
        finally:
            self.producer.finish(self._settle_timeout, self._cancelled)
