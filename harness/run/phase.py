"""Runs one phase: loads its lanes, lets faults hit the cluster meanwhile, and waits until everything settles.

Guarantee: however the block of `under_load` ends, clients and their threads end too, and all their rows are written.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.command.errors import ClusterFailure, WaitTimeout
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import UnsupportedMechanism
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.experiment.specs import PhaseSpec
from kafka_chaos.harness.run.lockstep_phase import LockstepRun
from kafka_chaos.harness.run.observing.collection import await_replicated, partitions_behind
from kafka_chaos.harness.run.observing.monitor import HighWatermarkRecorder, Monitor, PauseWatch
from kafka_chaos.harness.workload.application.handles import Application
from kafka_chaos.harness.workload.load import PhaseLoad

FIRST_RECORDS_TIMEOUT = 60.0  # seconds
ABORT_DELAY = 30.0
"""Seconds that a coordinator may take to abort a timed-out transaction: it looks for such transactions every 10 s."""


@dataclass
class PhaseRun:
    """A phase on a cluster that clients reach at `bootstrap_servers`.

    `applications`: by lane, the functions that replace its clients. `client_configs`: further settings of all clients.
    `start_offsets`: the offset at which consumers begin, by lane and then by partition.
    `brokers`: the brokers' client addresses by id, if high watermarks are to be recorded. `controller` returns the
    controller's id, or None if nobody knows it. `patience`: by lane, for how many seconds at least the run waits for
    consumers that have not reached the end, so that a stall shows. `gaps`: by lane, the longest time between two
    acknowledgements in seconds, once the phase has settled. `seed` decides the random choices of the load.
    `uninjected_faults`: the kinds of faults that may occur besides those that the run injects.
    """

    phase: PhaseSpec
    admin: ClusterAdmin
    bootstrap_servers: str
    run_directory: Path
    events: EventBus
    cancelled: threading.Event
    _: KW_ONLY
    seed: int
    applications: Mapping[str, Application] = field(default_factory=dict)
    client_configs: Mapping[str, str] = field(default_factory=dict)
    start_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    brokers: Mapping[int, str] = field(default_factory=dict)
    controller: Callable[[], int | None] = lambda: None
    gaps: dict[str, float] = field(default_factory=dict)
    uninjected_faults: tuple[str, ...] = ()
    patience: Mapping[str, float] = field(default_factory=dict)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes' names."""
        return tuple(lane.lane for lane in self.phase.lanes)

    @contextmanager
    def under_load(self) -> Iterator[PhaseLoad]:
        """Put the lanes under load. The block begins after every lane's first acknowledgement."""
        load = PhaseLoad(
            self.phase.lanes,
            bootstrap_servers=self.bootstrap_servers,
            workload=self.phase.workload,
            run_directory=self.run_directory,
            on_notice=lambda text: self.events.emit(event_types.ClientNotice(text=text)),
            emit=self.events.emit,
            applications=self.applications,
            client_configs=self.client_configs,
            start_offsets=self.start_offsets,
            seed=self.seed,
            create=self._try_to_create,
        )
        high_watermarks = HighWatermarkRecorder(
            self.brokers, self.phase.lanes, self.events, configs=self.client_configs
        )
        monitor = Monitor(self.admin, self.lanes, self.events, lambda: load.counts, controller=self.controller)
        self.events.emit(event_types.PhaseStarted(phase=self.phase.phase, lanes=self.lanes))
        with load, monitor, high_watermarks, PauseWatch(self.events):
            if self.uninjected_faults:
                self.events.emit(event_types.OutsideFaults(kinds=self.uninjected_faults, lanes=self.lanes))
            load.await_first_acknowledgements(timeout=FIRST_RECORDS_TIMEOUT)
            yield load
            self._settle(load)
            if self.brokers:
                text = f"settled; the brokers reported {high_watermarks.reports:,} high watermarks"
                self.events.emit(event_types.Step(text=text))
            self.events.emit(event_types.PhaseEnded(phase=self.phase.phase, load=load.span_ns))

    def _try_to_create(self, lane: LaneSpec) -> bool:
        """Create a lane's topic, which may fail amid faults; returns whether it exists and, for acks=0, has leaders."""
        try:
            create_topic(self.admin, lane, brokers=len(self.brokers))
        except ClusterFailure as refused:
            self.events.emit(event_types.ClientNotice(text=str(refused)))
        partitions = self.admin.partitions(lane.lane)
        with suppress(UnsupportedMechanism):
            # Until a leader itself knows that it leads, it drops what comes: with acks=0, no client would learn that.
            if partitions and lane.acks == "0":
                return partitions_behind(self.admin, {self.admin.topic(lane.lane): [*partitions]}) == []
        return bool(partitions)

    def run_lockstep(self, injector: Injector, load: PhaseLoad, *, lag_time_max: float) -> bool:
        """Run the steps of a lock-step phase, each of which waits for a condition; returns whether all conditions held.

        `lag_time_max`: the brokers' `replica.lag.time.max.ms`, in seconds.
        """
        lockstep = self.phase.steps
        assert lockstep is not None
        # Like a fault, the phase as a whole needs a proof: its prediction holds only if its conditions were met.
        lockstep_id = f"{self.phase.phase}/lockstep"
        self.events.emit(
            event_types.FaultRequested(
                fault_id=lockstep_id,
                kind="lockstep",
                target=lockstep.target,
                resolved=(),
                lanes=self.lanes,
                parameters={"steps": list(lockstep.steps)},
            )
        )
        unmet = LockstepRun(
            target=Target.parse(lockstep.target),
            lanes=self.lanes,
            acks={lane.lane: lane.acks for lane in self.phase.lanes},
            step_seconds=lockstep.step_seconds,
            lag_time_max=lag_time_max,
            injector=injector,
            admin=self.admin,
            counts=lambda: load.counts,
            say=lambda text: self.events.emit(event_types.Step(text=text)),
            cancelled=self.cancelled,
        ).run(self.phase.lockstep_steps() or ())
        if unmet is None:
            self.events.emit(event_types.FaultProven(fault_id=lockstep_id, evidence={"steps": list(lockstep.steps)}))
        else:
            self.events.emit(event_types.FaultNotProven(fault_id=lockstep_id, reason=unmet))
        return unmet is None

    def _settle(self, load: PhaseLoad) -> None:
        """End the load. Wait until records have outcomes, and replicas and consumers have caught up."""
        self.events.emit(event_types.Step(text="waiting for the outcome of records in flight"))
        load.stop()
        timeout = self.phase.workload.settle_timeout
        self._await_full_isr(timeout)
        loops = [lane for lane in self.phase.lanes if lane.loop is not None]
        ends = self._ends([lane for lane in self.phase.lanes if lane.loop is None])
        if loops:
            self.events.emit(event_types.Step(text="waiting for the loops to process what their sources hold"))
            load.end_loops(ends, timeout=timeout)
            ends |= self._ends(loops)
        load.drain(ends, timeout=timeout, patience=self.patience)
        self.gaps = {name: lane.written.longest_gap_ns / 1e9 for name, lane in load.lanes.items()}

    def _await_full_isr(self, timeout: float) -> None:
        """Wait for every replica to be in sync. A late replica is only reported: `isr_not_restored` judges it."""
        try:
            self.admin.await_full_isr(self.lanes, timeout=timeout)
        except WaitTimeout as waited:
            states = [state for lane in self.lanes for state in self.admin.partitions(lane).values()]
            if not states or any(state.leader is None for state in states):
                raise
            self.events.emit(event_types.ClientNotice(text=str(waited)))

    def _ends(self, lanes: Sequence[LaneSpec]) -> dict[str, dict[int, int]]:
        """The lanes' end offsets by partition, once their transactions have ended and everything is replicated."""
        for lane in lanes:
            self._await_transactions(lane)
        # Consumers get only replicated records: others would look lost.
        try:
            await_replicated(self.admin, [lane.lane for lane in lanes], timeout=self.phase.workload.settle_timeout)
        except UnsupportedMechanism as unknown:
            text = f"{unknown}: what was not replicated yet when the load ended counts as lost"
            self.events.emit(event_types.ClientNotice(text=text))
        return {lane.lane: self.admin.end_offsets(lane.lane, self.admin.partition_numbers(lane.lane)) for lane in lanes}

    def _await_transactions(self, lane: LaneSpec) -> None:
        """Wait until every transaction of a lane has ended. A hanging transaction is reported, and the run goes on."""
        if lane.transactional is None:
            return
        self.events.emit(event_types.Step(text=f"waiting for the transactions of lane {lane.lane} to end"))
        timeout = lane.transactional.timeout_ms / 1000 + ABORT_DELAY
        try:
            self.admin.await_stable_end(lane.lane, self.admin.partition_numbers(lane.lane), timeout=timeout)
        except WaitTimeout as waited:
            self.events.emit(event_types.ClientNotice(text=str(waited)))


def create_topic(admin: ClusterAdmin, lane: LaneSpec, *, brokers: int) -> None:
    """Create a lane's topic, configured and with its replicas assigned as the lane asks, and that for dead letters."""
    assignment = lane.replica_assignment(brokers)
    admin.create_topic(lane.lane, replica_assignment=assignment, configs=lane.all_topic_configs)
    if lane.dead_letter_topic is not None:
        # As safe as the brokers' internal topics are.
        configs = {"errors.deadletterqueue.group.enable": True, "min.insync.replicas": min(2, lane.replication_factor)}
        admin.create_topic(lane.dead_letter_topic, replica_assignment=assignment, configs=configs)
