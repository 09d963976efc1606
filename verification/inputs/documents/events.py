"""What events.jsonl reports: faults, high watermarks, elections and truncations, and how far the run came."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka_chaos.contract import events as contract
from kafka_chaos.contract.events import IsrChanged, LeaderElected, LogTruncated
from kafka_chaos.contract.lane.fault_kinds import LOCKSTEP
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.reference_model.protocol.quorum import has_majority
from kafka_chaos.verification.inputs.documents.faults import MISTIMED, FaultRecord

Place = tuple[str, int]
"""Lane and partition."""
LOG_TIME_NS = 1_000_000
"""Brokers log whole milliseconds: what a line reports happened before the next one."""

Change = LeaderElected | IsrChanged | LogTruncated
Kept = contract.PartitionChanged | contract.PartitionOffline
"""Events about the cluster's state of a partition."""


def is_unclean(won: LeaderElected, changes: Iterable[Change]) -> bool:
    """Whether the new leader was not in the ISR seen last before it was elected.

    An unclean election leaves the new leader alone in the ISR.
    """
    before = [
        change.isr for change in changes if isinstance(change, LeaderElected | IsrChanged) and change.ts_ns < won.ts_ns
    ]
    return bool(before) and won.isr == (won.broker,) and won.broker not in before[-1]


SESSION_EXPIRY = "session-expiry"


@dataclass(frozen=True, slots=True)
class Phase:
    """When a phase began and ended (None: not at all), its lanes (None: all), when it loaded them (None: unknown)."""

    lanes: tuple[str, ...] | None
    started_ns: int
    ended_ns: int | None = None
    load: tuple[int, int] | None = None


@dataclass(slots=True)
class Events:
    """What events.jsonl reports. `faults` None: there is no such file.

    By lane: `outside`, the kinds of faults that others may have injected; `preconditions` of known defects, each with
    the time at which it occurred; `unplaced`, how many acknowledgements named no offset, as producers' logs say;
    `doubts`, why the lane can't conform; `passing`, the consumers that come and go, with when each began and ended to
    read (None: nobody says); `calls` of clients that took a second or more; `timeouts`, role and report of each client.

    By lane and partition: `changes`, who led it and what its replicas dropped; `kept`, what the cluster kept of it;
    `reports` of its high watermark, `stable` those of its last stable offset.

    `begun_ns`: when the run began, None if no event says so; `last_ns`: when the last event of any kind occurred.
    `collects`: the tables that the run announced. `phases`: by name. `pauses`: from when to when the harness did not
    run. `ended_sessions`: those of brokers, by a fault or not. `members`: when they began, by share group and member.
    """

    faults: tuple[FaultRecord, ...] | None = None
    reports: dict[Place, list[contract.HighWatermark]] = field(default_factory=dict)
    outside: dict[str, tuple[str, ...]] = field(default_factory=dict)
    collects: tuple[str, ...] = ()
    phases: dict[str, Phase] = field(default_factory=dict)
    changes: dict[Place, list[Change]] = field(default_factory=dict)
    preconditions: dict[str, list[contract.DefectPrecondition]] = field(default_factory=dict)
    unplaced: dict[str, int] = field(default_factory=dict)
    doubts: dict[str, list[str]] = field(default_factory=dict)
    stable: dict[Place, list[contract.LastStableOffset]] = field(default_factory=dict)
    pauses: list[tuple[int, int]] = field(default_factory=list)
    kept: dict[Place, list[Kept]] = field(default_factory=dict)
    passing: dict[str, dict[str, tuple[int, int | None]]] = field(default_factory=dict)
    calls: dict[str, list[contract.CallNoted]] = field(default_factory=dict)
    timeouts: dict[str, list[tuple[str, Mapping[str, int]]]] = field(default_factory=dict)
    ended_sessions: list[contract.BrokerSessionEnded] = field(default_factory=list)
    members: dict[tuple[str, str], int] = field(default_factory=dict)
    begun_ns: int | None = None
    last_ns: int | None = None

    def concerning(self, lane: str) -> list[FaultRecord]:
        """The faults that concerned the lane."""
        return [fault for fault in self.faults or () if fault.concerns(lane)]

    def knows_times(self, lane: str) -> bool:
        """Whether anybody knows when brokers logged the lane's elections: no fault moved their clocks."""
        return not any(fault.kind in MISTIMED for fault in self.concerning(lane))

    def elected(self, lane: str, partition: int) -> list[LeaderElected]:
        """The elections of a partition."""
        return [one for one in self.changes.get((lane, partition), ()) if isinstance(one, LeaderElected)]

    def unplanned_ends(self, lane: str, session_ns: int) -> list[contract.BrokerSessionEnded]:
        """The ends of brokers' sessions, of `session_ns`, that came in the lane's phases and that no fault explains.

        None where others may have broken things at any time, or where nobody knows when controllers logged them.
        """
        phases, faults = self.phases_of(lane).values(), self.faults or ()
        if self.outside.get(lane) or self.steps(lane) or any(fault.kind in MISTIMED for fault in faults):
            return []
        return [
            end
            for end in self.ended_sessions
            if any(phase.started_ns <= end.ts_ns <= (phase.ended_ns or end.ts_ns) for phase in phases)
            and not any(fault.may_end_session(f"broker-{end.broker}", end.ts_ns, session_ns) for fault in faults)
        ]

    def steps(self, lane: str) -> tuple[str, ...]:
        """The steps of the lock-step phase that the lane went through; empty if it went through none, or not so."""
        phases = (fault for fault in self.concerning(lane) if fault.kind == LOCKSTEP and fault.problem is None)
        return next((fault.steps for fault in phases), ())

    def phases_of(self, lane: str) -> dict[str, Phase]:
        """The phases in which the lane was under load, by name."""
        return {name: phase for name, phase in self.phases.items() if phase.lanes is None or lane in phase.lanes}

    def unfinished(self, lane: str) -> list[str]:
        """The phases whose load of this lane began and never ended."""
        return [name for name, phase in self.phases_of(lane).items() if phase.ended_ns is None]

    def unreported(self, lane: Lane, brokers: int) -> list[str]:
        """The kinds of faults that lanes.json declares for the lane, but that no event reports. `brokers`: how many the
        cluster has, as far as the run knows; if it does not, as many as the lane has replicas are taken.

        A fault of any kind counts as one of the model's kinds (`COUNTS_AS`), once for each broker that it hit. The end
        of a session has no event: it may follow from a fault of ZooKeeper or of controllers, and in KRaft mode from
        faults of so many brokers that no majority of them is left, since they may be the controllers.
        """
        if self.faults is None:
            return []
        concerning = self.concerning(lane.lane)
        reported = Counter(self.outside.get(lane.lane, ()))
        for fault in concerning:
            reported.update(fault.counts_as)
        missing = Counter(lane.faults) - reported
        hit = sum(len(fault.brokers) for fault in concerning)
        hits_others = any(len(fault.brokers) < len(set(fault.resolved)) for fault in concerning)
        voters = min(3, brokers or lane.replication_factor)
        if hits_others or (lane.metadata_mode == KRAFT and not has_majority(max(0, voters - hit), voters)):
            del missing[SESSION_EXPIRY]
        return sorted(missing.elements())

    def undeclared(self, lane: Lane) -> list[str]:
        """The kinds of faults that events report for the lane more often than lanes.json declares them for it.

        A fault hits a partition as often as it has replicas, at most.
        """
        timed = (fault for fault in self.concerning(lane.lane) if fault.kind != LOCKSTEP)
        reported = Counter(kind for fault in timed for kind in fault.counts_as[: lane.replication_factor])
        return sorted((reported - Counter(lane.faults)).elements())
