"""One phase on its way: its lanes are loaded, something may happen to the cluster meanwhile, and all comes to rest.

Guarantee: whatever happens in the block, clients and their threads end with it, and every row that they had is written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.target import Target
from kafka_chaos.harness import events as happening
from kafka_chaos.harness.admin import ClusterAdmin
from kafka_chaos.harness.application import Application
from kafka_chaos.harness.course import CourseRun
from kafka_chaos.harness.events import EventBus
from kafka_chaos.harness.experiment import LaneModel, PhaseModel
from kafka_chaos.harness.load import PhaseLoad
from kafka_chaos.harness.monitor import Monitor

FIRST_RECORDS_TIMEOUT = 60.0


@dataclass
class PhaseRun:
    """A phase on a cluster that clients reach at `bootstrap_servers`.

    `client_configs`: further settings of all clients; `start_offsets`: where consumers begin, by lane and partition.
    `gaps`: once settled, the longest time between two acknowledgements, in seconds by lane.
    """

    phase: PhaseModel
    admin: ClusterAdmin
    bootstrap_servers: str
    run_directory: Path
    events: EventBus
    cancelled: threading.Event
    applications: Mapping[str, Application] = field(default_factory=dict)
    client_configs: Mapping[str, str] = field(default_factory=dict)
    start_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    gaps: dict[str, float] = field(default_factory=dict)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes' names."""
        return tuple(lane.lane for lane in self.phase.lanes)

    @contextmanager
    def loaded(self) -> Iterator[PhaseLoad]:
        """Load: the block begins when every lane has its first acknowledgement; after it, everything settles."""
        load = PhaseLoad(
            self.phase.lanes,
            bootstrap_servers=self.bootstrap_servers,
            workload=self.phase.workload,
            run_directory=self.run_directory,
            on_notice=lambda text: self.events.emit(happening.ClientNotice(text=text)),
            applications=self.applications,
            client_configs=self.client_configs,
            start_offsets=self.start_offsets,
        )
        with load, Monitor(self.admin, self.lanes, self.events, lambda: load.counts):
            self.events.emit(happening.PhaseStarted(phase=self.phase.phase, lanes=self.lanes))
            load.await_first_acknowledgements(timeout=FIRST_RECORDS_TIMEOUT)
            yield load
            self._settle(load)
            self.events.emit(happening.PhaseEnded(phase=self.phase.phase))

    def take_course(self, injector: Injector, load: PhaseLoad, *, lag_time_max: float) -> bool:
        """Lock-stepped faults under load: whether the course was kept. `lag_time_max`: the brokers', in seconds."""
        course = self.phase.course
        assert course is not None
        # The course as a whole has to prove itself too: its prediction holds only where its conditions were kept.
        course_id = f"{self.phase.phase}/course"
        self.events.emit(
            happening.FaultRequested(
                fault_id=course_id,
                kind="course",
                target=course.target,
                resolved=(),
                lanes=self.lanes,
                parameters={"steps": list(course.steps)},
            )
        )
        broken = CourseRun(
            target=Target.parse(course.target),
            topics=self.lanes,
            acks={lane.lane: lane.acks for lane in self.phase.lanes},
            step_seconds=course.step_seconds,
            lag_time_max=lag_time_max,
            injector=injector,
            admin=self.admin,
            counts=lambda: load.counts,
            say=lambda text: self.events.emit(happening.Step(text=text)),
            cancelled=self.cancelled,
        ).run(self.phase.course_steps() or ())
        if broken is None:
            self.events.emit(happening.FaultProven(fault_id=course_id, evidence={"steps": list(course.steps)}))
        else:
            self.events.emit(happening.FaultNotProven(fault_id=course_id, reason=broken))
        return broken is None

    def _settle(self, load: PhaseLoad) -> None:
        """End the load; every record gets an outcome, every replica catches up, every consumer reaches the end."""
        self.events.emit(happening.Step(text="letting everything in flight get an outcome"))
        load.stop()
        timeout = self.phase.workload.settle_timeout
        self.admin.await_full_isr(self.lanes, timeout=timeout)
        ends = {lane.lane: self.admin.end_offsets(lane.lane, range(lane.partitions)) for lane in self.phase.lanes}
        load.drain(ends, timeout=timeout)
        self.gaps = {name: lane.producer.longest_gap_ns / 1e9 for name, lane in load.lanes.items()}


def create_topic(admin: ClusterAdmin, lane: LaneModel, *, brokers: int) -> None:
    """A lane's topic, with its configuration and its replicas where the lane wants them."""
    configs: dict[str, object] = {
        "min.insync.replicas": lane.min_insync_replicas,
        "unclean.leader.election.enable": lane.unclean_leader_election,
        **lane.topic_configs,
    }
    if lane.cleanup_policy is not None:
        configs["cleanup.policy"] = lane.cleanup_policy
    admin.create_topic(lane.lane, replica_assignment=lane.replica_assignment(brokers), configs=configs)
