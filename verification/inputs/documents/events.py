"""Reads from events.jsonl the faults, high watermarks, elections and truncations, and how far the run came.

Guarantee: refuses, with its line, anything that is not an event, and events of these types with a missing, unknown or
ill-typed field. Contradictions are kept as a `problem`: they prove nothing, but are no reason to refuse the file.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kafka_chaos.contract import events as contract
from kafka_chaos.contract.errors import quoted
from kafka_chaos.contract.fault_kinds import FAULT_KINDS, LOCKSTEP
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents import leadership
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.documents.leadership import Change, Place, place_of, whole
from kafka_chaos.verification.inputs.documents.reading import is_given, is_whole, json_lines
from kafka_chaos.verification.inputs.file_systems.storage import RunPath

_COLLECTED = ("log", "replicas")
SESSION_EXPIRY = "session-expiry"

_FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    contract.type_name(event): (
        frozenset(("ts_ns", "type", *required)),
        frozenset(("type", *(field.name for field in fields(event)))),
    )
    for event, required in (
        (contract.FaultRequested, ("fault_id",)),
        (contract.FaultProven, ("fault_id",)),
        (contract.FaultNotProven, ("fault_id",)),
        (contract.FaultHealed, ("fault_id",)),
        (contract.OutsideFaults, ("kinds", "lanes")),
        (contract.RunStarted, ()),
        (contract.PhaseStarted, ("phase",)),
        (contract.PhaseEnded, ("phase",)),
        (contract.HighWatermark, ("lane", "partition", "leader_epoch", "high_watermark")),
        (contract.DefectPrecondition, ("defect", "lane", "evidence")),
        (contract.ClientFailed, ("lane", "role", "problem")),
        (contract.ConfigurationUnread, ("configurations",)),
        *leadership.REQUIRED.items(),
    )
}
"""By type, the fields that an event must have, and those that it may have."""


@dataclass(frozen=True, slots=True)
class Report:
    """A high watermark, as a partition's leader reported it."""

    ts_ns: int
    lane: str
    partition: int
    leader_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Precondition:
    """What a known defect needs occurred in a producer at `occurred_ns`. `transactional_id`, `commits`: of the EndTxn
    request that came late. `partition`, `messages`: how many of the producer's first records to it were acknowledged
    implicitly. What the event does not say is None.
    """

    defect: str
    occurred_ns: int
    producer_id: int | None = None
    transactional_id: str | None = None
    commits: bool | None = None
    partition: int | None = None
    messages: int | None = None


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
    what its replicas dropped. `preconditions`: by lane those of known defects. `doubts`: by lane why it can't
    conform.
    """

    faults: tuple[FaultRecord, ...] | None = None
    reports: tuple[Report, ...] = ()
    outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    collects: tuple[str, ...] = ()
    phases: Mapping[str, Phase] = field(default_factory=dict)
    changes: Mapping[Place, Sequence[Change]] = field(default_factory=dict)
    preconditions: Mapping[str, Sequence[Precondition]] = field(default_factory=dict)
    doubts: Mapping[str, Sequence[str]] = field(default_factory=dict)

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

    def unreported(self, lane: Lane) -> list[str]:
        """The kinds of faults that lanes.json declares for the lane, but that no event reports.

        A fault of any kind counts as one of the model's kinds (`COUNTS_AS`), once for each broker that it hit. The end
        of a session has no event: it may follow from a fault of ZooKeeper or of controllers, and in KRaft mode from
        faults of several brokers, which may be most of the controllers.
        """
        if self.faults is None:
            return []
        concerning = self.concerning(lane.lane)
        reported = Counter(self.outside.get(lane.lane, ()))
        for fault in concerning:
            reported.update(fault.counts_as)
        missing = Counter(lane.faults) - reported
        brokers = sum(len(fault.brokers) for fault in concerning)
        hits_others = any(len(fault.brokers) < len(set(fault.resolved)) for fault in concerning)
        if hits_others or (lane.metadata_mode == KRAFT and brokers > 1):
            del missing[SESSION_EXPIRY]
        return sorted(missing.elements())

    def undeclared(self, lane: Lane) -> list[str]:
        """The kinds of faults that events report for the lane, but that lanes.json does not declare for it."""
        faults = (fault for fault in self.concerning(lane.lane) if fault.kind != LOCKSTEP)
        return sorted({kind for fault in faults for kind in fault.counts_as} - set(lane.faults))


def read_events(path: RunPath, lanes: Sequence[Lane]) -> Events:
    """The faults and reports of an events.jsonl; raises `RunDirectoryError` (see the module)."""
    if not is_given(path):
        return Events()
    partitions = {lane.lane: lane.partitions for lane in lanes}
    faults: dict[str, FaultRecord] = {}
    reports: list[Report] = []
    outside: dict[str, tuple[str, ...]] = {}
    collects: tuple[str, ...] = ()
    phases: dict[str, Phase] = {}
    changes: dict[Place, list[Change]] = {}
    preconditions: dict[str, list[Precondition]] = {}
    doubts: dict[str, list[str]] = {name: [] for name in partitions}
    for number, event in json_lines(path):
        try:
            _check(event)
            match event["type"]:
                case "high_watermark":
                    reports.append(_report(event, partitions))
                case "outside_faults":
                    for lane in _concerned(event["lanes"], partitions) or partitions:
                        outside[lane] = (*outside.get(lane, ()), *_names(event, "kinds"))
                case "run_started":
                    collects = _names(event, "collects", _COLLECTED)
                case "phase_started":
                    lanes_of_phase = _concerned(event.get("lanes"), partitions)
                    phases[str(event["phase"])] = Phase(lanes_of_phase, event["ts_ns"])
                case "phase_ended":
                    if (phase := phases.get(str(event["phase"]))) is not None:
                        phases[str(event["phase"])] = replace(phase, ended_ns=event["ts_ns"])
                case "defect_precondition":
                    lane = leadership.lane_of(event, partitions)
                    preconditions.setdefault(lane, []).append(_precondition(event))
                case "client_failed":
                    lane = leadership.lane_of(event, partitions)
                    doubts[lane].append(f"its {_text(event, 'role')} {_text(event, 'problem')}")
                case "configuration_unread":
                    unread = f"the run may not read the configuration {', '.join(_names(event, 'configurations'))}"
                    for of_lane in doubts.values():
                        of_lane.append(f"{unread}: the prediction may be that of another cluster")
                case kind if kind in leadership.TYPES:
                    place, change = leadership.change_of(event, partitions)
                    changes.setdefault(place, []).append(change)
                case kind if kind in _FIELDS:
                    _note(faults, event, partitions)
        except ValueError as error:
            raise RunDirectoryError(path, str(error), column=f"line {number}") from error
    return Events(tuple(faults.values()), tuple(reports), outside, collects, phases, changes, preconditions, doubts)


def _check(event: Mapping[str, Any]) -> None:
    if not isinstance(event.get("type"), str):
        raise ValueError("expected a type")
    stamp = event.get("ts_ns")
    if not is_whole(stamp):
        raise ValueError(f"ts_ns is {quoted(stamp)}, expected whole nanoseconds")
    kind = event["type"]
    if kind in _FIELDS:
        required, known = _FIELDS[kind]
        for name in sorted(event.keys() - known):
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{kind} has no field {name!r} ({', '.join(sorted(known))}){hint}")
        for name in sorted(required - event.keys()):
            raise ValueError(f"{kind} without a {name}")


def _report(event: Mapping[str, Any], partitions: Mapping[str, int]) -> Report:
    marks = [whole(event, name) for name in ("leader_epoch", "high_watermark")]
    return Report(event["ts_ns"], *place_of(event, partitions), *marks)


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event[name]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is {quoted(value)}, expected a text")
    return value


def _precondition(event: Mapping[str, Any]) -> Precondition:
    from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS

    defect, evidence = event["defect"], event["evidence"]
    if defect not in tuple(KNOWN_DEFECTS):
        raise ValueError(f"defect is {quoted(defect)}, expected one of {', '.join(KNOWN_DEFECTS)}")
    if not isinstance(evidence, str) or not evidence:
        raise ValueError(f"evidence is {quoted(evidence)}, expected what shows it")
    occurred, producer, partition, messages = (
        None if event.get(name) is None else whole(event, name)
        for name in ("occurred_ns", "producer_id", "partition", "messages")
    )
    writer, commits = event.get("transactional_id"), event.get("commits")
    if not isinstance(writer, str | None) or not isinstance(commits, bool | None):
        raise ValueError("transactional_id or commits: expected a name, and true or false")
    occurred = event["ts_ns"] if occurred is None else occurred
    return Precondition(defect, occurred, producer, writer, commits, partition, messages)


def _note(faults: dict[str, FaultRecord], event: Mapping[str, Any], lanes: Mapping[str, int]) -> None:
    fault_id = event["fault_id"]
    if not isinstance(fault_id, str):
        raise ValueError(f"fault_id is {quoted(fault_id)}, expected a name")
    fault = faults.setdefault(fault_id, FaultRecord(fault_id))
    match event["type"]:
        case "fault_requested":
            fault.kind, fault.target = str(event.get("kind", "?")), str(event.get("target", ""))
            fault.lanes = _concerned(event.get("lanes"), lanes)
            parameters = event.get("parameters")
            steps = parameters.get("steps") if isinstance(parameters, dict) else None
            fault.resolved = _names(event, "resolved")
            fault.model_faults = _names(event, "model_faults", FAULT_KINDS)
            fault.steps = tuple(map(str, steps)) if isinstance(steps, list) else ()
            fault.requested.append(event["ts_ns"])
        case "fault_proven":
            fault.proven.append(event["ts_ns"])
            evidence = event.get("evidence")
            fault.shown += tuple(map(str, evidence)) if isinstance(evidence, dict) else ()
        case "fault_not_proven":
            fault.denied = str(event.get("reason") or "no reason given")
        case "fault_healed":
            fault.healed.append(event["ts_ns"])


def _names(event: Mapping[str, Any], key: str, known: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names in the event's list of that key; none if it has no such list."""
    names = event.get(key)
    if names is None:
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) and name in (known or (name,)) for name in names):
        raise ValueError(f"{key} is {quoted(names)}, expected a list of {', '.join(known or ('names',))}")
    return tuple(names)


def _concerned(concerned: object, lanes: Mapping[str, int]) -> tuple[str, ...] | None:
    if concerned is None:
        return None
    if not isinstance(concerned, list):
        raise ValueError("lanes: expected a list of lane names")
    for name in concerned:
        if name not in tuple(lanes):
            raise ValueError(f"lanes: {quoted(name)} is not in lanes.json")
    return tuple(concerned)
