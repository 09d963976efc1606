"""The clients of one lane under load: its producers in a thread of their own, and all that read the lane."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

from kafka_chaos.faults.target import CONSUMER, MEMBER
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.consumed import Readers
from kafka_chaos.harness.workload.clients.lives import processes_of
from kafka_chaos.harness.workload.clients.producers import LaneProducers, WrittenRecords
from kafka_chaos.harness.workload.groups.load import GroupLoad
from kafka_chaos.harness.workload.lane_clients import LaneClients, LaneReaders, Members
from kafka_chaos.harness.workload.worker import Worker


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
