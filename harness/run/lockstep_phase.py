"""Runs a lock-step phase: a sequence of faults at one leader, in which each step waits for its own condition.

The prediction of a lock-step phase holds under two conditions: the ISR is full when the followers are cut off from the
leader, and the leader is killed or paused before `replica.lag.time.max.ms` could shrink the ISR. If a condition is not
met, the phase reports it, and its lanes get another prediction, which does not need the conditions.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.injector import Injector, Occurrence
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.process.ended import Kill, Pause
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.workload.lane_load import Counts
from kafka_chaos.reference_model import LockstepStep

RECORDS_PER_APPEND = 100
_STEP_TIMEOUT = 40.0  # seconds


@dataclass
class LockstepRun:
    """Executes the steps of a lock-step phase under load.

    `acks`: the setting of each lane. `lag_time_max`: the shortest `replica.lag.time.max.ms` of the brokers, in seconds.
    `counts`: the load's counts so far, by lane.
    """

    target: Target
    lanes: Sequence[str]
    acks: Mapping[str, str]
    step_seconds: float
    lag_time_max: float
    injector: Injector
    admin: ClusterAdmin
    counts: Callable[[], Mapping[str, Counts]]
    say: Callable[[str], None]
    cancelled: threading.Event

    def __post_init__(self) -> None:
        self._leader: int | None = None
        self._occurrences: dict[str, Occurrence] = {}

    def run(self, steps: Sequence[LockstepStep]) -> str | None:
        """Execute the steps in order. Returns in words the last condition that was not met; None if all were met."""
        actions: Mapping[LockstepStep, Callable[[], str | None]] = {
            LockstepStep.CUT_REPLICATION: lambda: self._inject(
                Partition(target=self._leader_target(), direction="in", port="replication", action="reject")
            ),
            LockstepStep.HEAL_REPLICATION: lambda: self._heal("partition"),
            LockstepStep.APPEND: self._append,
            LockstepStep.KILL_LEADER: lambda: self._end_leadership(Kill(target=self._leader_target())),
            LockstepStep.PAUSE_LEADER: lambda: self._end_leadership(Pause(target=self._leader_target())),
            LockstepStep.EXPIRE_SESSION: self._await_other_leader,  # a paused leader loses its session by itself
            LockstepStep.THAW: lambda: self._heal("pause"),
            LockstepStep.ELECT: self._await_other_leader,
            LockstepStep.RESTART: lambda: self._heal("kill"),
        }
        self._leader = self.admin.await_leader(self.lanes[0], self.target.partition)
        unmet = self._unmet_condition()
        for step in steps:
            self.say(f"executing step {step}")
            unmet = actions[step]() or unmet
        return unmet

    def _append(self) -> None:
        """Wait until every lane has sent `RECORDS_PER_APPEND` more records, and for at least `step_seconds`."""
        before = self.counts()
        until = time.monotonic() + self.step_seconds

        def behind() -> list[str]:
            now = self.counts()
            # With acks=1, a leader that is cut off still acknowledges, and acknowledged records count. With other acks,
            # sent records count.
            appended = {
                lane: now[lane].acknowledged - before[lane].acknowledged
                if self.acks[lane] == "1"
                else now[lane].sent - before[lane].sent
                for lane in self.lanes
            }
            return [lane for lane, records in appended.items() if records < RECORDS_PER_APPEND]

        wait_until(
            lambda: time.monotonic() >= until and not behind(),
            f"every lane to send {RECORDS_PER_APPEND} records",
            timeout=_STEP_TIMEOUT,
            cancelled=self.cancelled,
            seen=lambda: f"still behind: {', '.join(behind())}",
        )

    def _end_leadership(self, fault: Kill | Pause) -> str | None:
        unmet = self._unmet_condition()
        self._inject(fault)
        cut = self._occurrences.get("partition")
        if cut is not None and cut.injected_at is not None:
            lasted = time.monotonic() - cut.injected_at
            if lasted >= self.lag_time_max:
                unmet = f"the cut lasted {lasted:.1f} s, longer than replica.lag.time.max.ms"
        return unmet

    def _await_other_leader(self) -> None:
        for lane in self.lanes:
            self.admin.await_leader(lane, self.target.partition, other_than=self._leader, timeout=_STEP_TIMEOUT)

    def _unmet_condition(self) -> str | None:
        """In words, the first partition whose ISR is not full, or which another broker leads; None if there is none."""
        for lane in self.lanes:
            for number, state in self.admin.await_partitions(lane).items():
                if set(state.isr) != set(state.replicas):
                    return f"the ISR of {lane}-{number} was {list(state.isr)} of {list(state.replicas)}"
                if state.leader != self._leader:
                    return f"{lane}-{number} was led by broker {state.leader} instead of {self._leader}"
        return None

    def _leader_target(self) -> Target:
        """The broker that led when the phase began, as a target."""
        if self._leader is None:
            raise ClusterFailure(f"{self.target.text}: nobody holds this role at the moment")
        return Target(self.target.text, "broker", numbers=(self._leader,))

    def _inject(self, fault: Fault) -> None:
        self._occurrences[fault.kind] = self.injector.inject(fault)

    def _heal(self, kind: str) -> None:
        self.injector.heal(self._occurrences[kind])
