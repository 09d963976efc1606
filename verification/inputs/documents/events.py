"""Reads from events.jsonl the faults, high watermarks, elections and truncations, and how far the run came.

Guarantee: refuses, with its line, anything that is not an event, and events of these types with a missing, unknown or
ill-typed field. Contradictions are kept as a `problem`: they prove nothing, but are no reason to refuse the file.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from kafka_chaos.contract import events as contract
from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.contract.event_lines import event_of
from kafka_chaos.contract.events import HighWatermark, IsrChanged, LastStableOffset, LeaderElected, LogTruncated
from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS, LOCKSTEP
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.reference_model.protocol.quorum import has_majority
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.documents.reading import is_given, json_lines
from kafka_chaos.verification.inputs.file_systems.storage import RunPath

Place = tuple[str, int]
"""Lane and partition."""

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


def place_of(event: Change | Kept | HighWatermark | LastStableOffset, partitions: Mapping[str, int]) -> Place:
    """The event's lane and partition; raises `ValueError` where lanes.json has none. `partitions`: by lane."""
    lane = lane_of(event.lane, partitions)
    if not 0 <= event.partition < partitions[lane]:
        raise ValueError(f"lane {lane!r} has no partition {event.partition}")
    return lane, event.partition


def lane_of(lane: str, lanes: Collection[str]) -> str:
    """The lane; raises `ValueError` where lanes.json does not have it."""
    if lane not in lanes:
        raise ValueError(f"lane: {quoted(lane)} is not in lanes.json")
    return lane


_COLLECTED = ("log", "replicas")
SESSION_EXPIRY = "session-expiry"
_LONGEST = 1e9
"""Seconds, more than any run has."""
_USUAL_VOTERS = 3
"""How many controllers there are taken to be, where the run does not know of its brokers."""
OfFault = contract.FaultRequested | contract.FaultProven | contract.FaultNotProven | contract.FaultHealed

READ = (
    *get_args(OfFault),
    contract.OutsideFaults,
    contract.RunStarted,
    contract.PhaseStarted,
    contract.PhaseEnded,
    contract.HighWatermark,
    contract.DefectPrecondition,
    contract.ClientFailed,
    contract.ClientStarted,
    contract.ReaderStarted,
    contract.ConfigurationUnread,
    contract.LastStableOffset,
    contract.HarnessPaused,
    *get_args(Change),
    *get_args(Kept),
)
"""The kinds of events that are read; others may say what they like."""


@dataclass(frozen=True, slots=True)
class Phase:
    """When the load of a phase began and ended (None: it did not), and its lanes (None: all)."""

    lanes: tuple[str, ...] | None
    started_ns: int
    ended_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """`faults` None: there is no events.jsonl. `outside`: by lane the kinds of faults that others may have injected.

    `collects`: the tables that the run announced. `phases`: by name. `changes`: by lane and partition, who led it and
    what its replicas dropped. `reports`: by lane and partition those of its high watermark. `preconditions`: by lane
    those of known defects, each with the time at which it occurred. `doubts`: by lane why it can't conform. `stable`:
    by lane and partition the last stable offsets, with the moments they were reported at. `pauses`: from when to when
    the harness did not run. `kept`: by lane and partition what the cluster kept of it. `passing`: by lane the names of
    consumers that come and go.
    """

    faults: tuple[FaultRecord, ...] | None = None
    reports: Mapping[Place, Sequence[contract.HighWatermark]] = field(default_factory=dict)
    outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    collects: tuple[str, ...] = ()
    phases: Mapping[str, Phase] = field(default_factory=dict)
    changes: Mapping[Place, Sequence[Change]] = field(default_factory=dict)
    preconditions: Mapping[str, Sequence[contract.DefectPrecondition]] = field(default_factory=dict)
    doubts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    stable: Mapping[Place, Sequence[tuple[int, int]]] = field(default_factory=dict)
    pauses: tuple[tuple[int, int], ...] = ()
    kept: Mapping[Place, Sequence[Kept]] = field(default_factory=dict)
    passing: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def concerning(self, lane: str) -> list[FaultRecord]:
        """The faults that concerned the lane."""
        return [fault for fault in self.faults or () if fault.concerns(lane)]

    def steps(self, lane: str) -> tuple[str, ...]:
        """The steps of the lock-step phase that the lane went through; empty if it went through none, or not so."""
        phases = (fault for fault in self.concerning(lane) if fault.kind == LOCKSTEP and fault.problem is None)
        return next((fault.steps for fault in phases), ())

    def unfinished(self, lane: str) -> list[str]:
        """The phases whose load of this lane began and never ended."""
        return [
            name
            for name, phase in self.phases.items()
            if phase.ended_ns is None and (phase.lanes is None or lane in phase.lanes)
        ]

    def unreported(self, lane: Lane, brokers: int) -> list[str]:
        """The kinds of faults that lanes.json declares for the lane, but that no event reports. `brokers`: how many the
        cluster has, as far as the run knows.

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
        voters = brokers or _USUAL_VOTERS
        if hits_others or (lane.metadata_mode == KRAFT and not has_majority(max(0, voters - hit), voters)):
            del missing[SESSION_EXPIRY]
        return sorted(missing.elements())

    def undeclared(self, lane: Lane) -> list[str]:
        """The kinds of faults that events report for the lane more often than lanes.json declares them for it."""
        faults = (fault for fault in self.concerning(lane.lane) if fault.kind != LOCKSTEP)
        reported = Counter(kind for fault in faults for kind in fault.counts_as)
        return sorted((reported - Counter(lane.faults)).elements())


def read_events(path: RunPath, lanes: Sequence[Lane]) -> Events:
    """The faults and reports of an events.jsonl; raises `RunDirectoryError` (see the module)."""
    if not is_given(path):
        return Events()
    partitions = {lane.lane: lane.partitions for lane in lanes}
    faults: dict[str, FaultRecord] = {}
    reports: dict[Place, list[contract.HighWatermark]] = {}
    outside: dict[str, tuple[str, ...]] = {}
    collects: tuple[str, ...] = ()
    phases: dict[str, Phase] = {}
    changes: dict[Place, list[Change]] = {}
    preconditions: dict[str, list[contract.DefectPrecondition]] = {}
    stable: dict[Place, list[tuple[int, int]]] = {}
    pauses: list[tuple[int, int]] = []
    kept: dict[Place, list[Kept]] = {}
    passing: dict[str, list[str]] = {}
    doubts: dict[str, list[str]] = {name: [] for name in partitions}
    clients = {lane.lane: lane.client for lane in lanes}
    begun_ns: int | None = None
    for number, line in json_lines(path):
        try:
            match event := event_of(line, READ, exact=True):
                case contract.HighWatermark():
                    reports.setdefault(place_of(event, partitions), []).append(event)
                case contract.OutsideFaults():
                    for lane in _concerned(event.lanes, partitions) or partitions:
                        outside[lane] = (*outside.get(lane, ()), *event.kinds)
                case contract.RunStarted():
                    collects, begun_ns = _known("collects", event.collects, _COLLECTED), event.ts_ns
                    if event.lanes and set(event.lanes) != partitions.keys():
                        _doubt_all(doubts, "events.jsonl names other lanes of the run than lanes.json")
                case contract.PhaseStarted():
                    if event.phase in phases:
                        _doubt_all(doubts, f"phase {event.phase} began twice")
                    phases[event.phase] = Phase(_concerned(event.lanes, partitions), event.ts_ns)
                case contract.PhaseEnded():
                    if (phase := phases.get(event.phase)) is not None:
                        if phase.ended_ns is not None:
                            _doubt_all(doubts, f"phase {event.phase} ended twice")
                        phases[event.phase] = replace(phase, ended_ns=event.ts_ns)
                    else:
                        _doubt_all(doubts, f"phase {event.phase} ended and never began: events.jsonl reports no start")
                case contract.DefectPrecondition():
                    lane = lane_of(event.lane, partitions)
                    preconditions.setdefault(lane, []).append(_precondition(event))
                case contract.ClientFailed():
                    lane = lane_of(event.lane, partitions)
                    if not event.problem:
                        raise ValueError("problem is '', expected a text")
                    doubts[lane].append(f"its {event.role} {event.problem}")
                case contract.ClientStarted():
                    lane = lane_of(event.lane, partitions)
                    if not _is_of(clients[lane], event):
                        is_said = f"{event.client} {event.version}"
                        doubts[lane].append(f"its {event.role} says that it is {is_said}, lanes.json {clients[lane]}")
                case contract.ReaderStarted():
                    passing.setdefault(lane_of(event.lane, partitions), []).append(event.consumer)
                case contract.LastStableOffset():
                    stable.setdefault(place_of(event, partitions), []).append((event.ts_ns, event.last_stable_offset))
                case contract.HarnessPaused():
                    if not 0 <= event.seconds < _LONGEST:
                        raise ValueError(f"seconds is {event.seconds}, expected how long it was")
                    pause = event.ts_ns - round(event.seconds * 1e9), event.ts_ns
                    if begun_ns is not None and pause[0] < begun_ns:
                        raise ValueError(f"seconds is {event.seconds}, expected a pause within the run")
                    pauses.append(pause)
                case contract.ConfigurationUnread():
                    unread = f"the run may not read the configuration {', '.join(event.configurations)}"
                    _doubt_all(doubts, f"{unread}: the prediction may be that of another cluster")
                case contract.LeaderElected() | contract.IsrChanged() | contract.LogTruncated():
                    changes.setdefault(place_of(event, partitions), []).append(event)
                case contract.PartitionChanged() | contract.PartitionOffline():
                    kept.setdefault(place_of(event, partitions), []).append(event)
                case _ if isinstance(event, OfFault):
                    _note(faults.setdefault(event.fault_id, FaultRecord(event.fault_id)), event, partitions)
        except ValueError as error:
            raise RunDirectoryError(path, str(error), column=f"line {number}") from error
    told = (tuple(faults.values()), reports, outside, collects, phases, changes, preconditions, doubts)
    return Events(*told, stable, tuple(pauses), kept, passing)


def _is_of(client: str | None, started: contract.ClientStarted) -> bool:
    """Whether a process may be a lane's client by what it says of itself; a command of one's own may say anything."""
    from kafka_chaos.reference_model.clients.rules import CLIENTS

    kind, _, version = (client or "").partition(" ")
    if kind not in CLIENTS:
        return True
    return started.client == kind and version in ("", started.version)


def _doubt_all(doubts: Mapping[str, list[str]], doubt: str) -> None:
    for of_lane in doubts.values():
        of_lane.append(doubt)


def _precondition(event: contract.DefectPrecondition) -> contract.DefectPrecondition:
    from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS

    _known("defect", (event.defect,), tuple(KNOWN_DEFECTS))
    if not event.evidence:
        raise ValueError("evidence is '', expected what shows it")
    return event if event.occurred_ns is None else replace(event, ts_ns=event.occurred_ns)


def _note(fault: FaultRecord, event: OfFault, lanes: Mapping[str, int]) -> None:
    match event:
        case contract.FaultRequested():
            fault.kind, fault.target, fault.resolved = event.kind, event.target, event.resolved
            fault.lanes = _concerned(event.lanes, lanes)
            fault.model_faults = _known("model_faults", event.model_faults, FAULT_KINDS)
            fault.steps = tuple(map(str, event.parameters.get("steps") or ()))
            fault.requested.append(event.ts_ns)
        case contract.FaultProven():
            fault.proven.append(event.ts_ns)
            fault.shown += tuple(event.evidence)
        case contract.FaultNotProven():
            fault.denied = event.reason
        case contract.FaultHealed():
            fault.healed.append(event.ts_ns)


def _known(field: str, names: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in known:
            raise ValueError(f"{field}: {quoted(name)}, expected one of {', '.join(known)}")
    return names


def _concerned(concerned: tuple[str, ...] | None, lanes: Mapping[str, int]) -> tuple[str, ...] | None:
    return None if concerned is None else tuple(lane_of(name, lanes) for name in concerned)
