"""The events of a run by phase, fault, lane and partition: who led, who was in sync, who truncated what.

Guarantee: pure functions of the events; an event with a missing or malformed key is left out, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_chaos.contract.fault_kinds import LOCKSTEP
from kafka_chaos.faults.registry import describe_evidence
from kafka_chaos.harness.report.inputs.evidence import Evidence
from kafka_chaos.verification.inputs.documents import leadership
from kafka_chaos.verification.inputs.documents.leadership import Election, IsrSeen, Place, Truncation

WHOLE_RUN = "run"
"""Name of the one phase of a run that recorded none."""


@dataclass(frozen=True)
class Phase:
    """Load on some lanes for a while. `end_ns` is None where no event says when it ended."""

    name: str
    lanes: tuple[str, ...]
    start_ns: int | None = None
    end_ns: int | None = None


@dataclass(frozen=True)
class FaultSpan:
    """A fault from its request until it was healed; `healed_ns` None: no event says that it was healed.

    `proof`: the evidence in words, or why there is none; `raw`: the evidence as recorded. `late`: seconds after the
    time that the schedule asked for; None if it had none.
    """

    fault_id: str
    kind: str
    target: str
    resolved: tuple[str, ...]
    lanes: tuple[str, ...] | None
    requested_ns: int
    healed_ns: int | None = None
    proven: bool = False
    proof: str = ""
    raw: str = ""
    late: float | None = None

    @property
    def name(self) -> str:
        """The kind as a reader sees it."""
        return "lock-step phase" if self.kind == LOCKSTEP else self.kind

    def concerns(self, lane: str) -> bool:
        """Whether the fault was aimed at the lane, or at all."""
        return self.lanes is None or lane in self.lanes


@dataclass(frozen=True)
class Change:
    """From `ts_ns` on, `value` holds: a leader, an election or an ISR in words; `short` fits where they do not."""

    ts_ns: int
    value: str
    short: str = ""


@dataclass(frozen=True)
class Offsets:
    """What a partition's leader reported last: its high watermark, and its last stable offset."""

    ts_ns: int
    high_watermark: int
    last_stable_offset: int

    @property
    def held_back(self) -> int:
        """The offsets that `read_committed` consumers may not read yet, since a transaction is open."""
        return self.high_watermark - self.last_stable_offset


@dataclass(frozen=True)
class MemberChange:
    """What became of a member of a group: `change` is a verb, `member` its name without the group's."""

    ts_ns: int
    member: str
    change: str


@dataclass(frozen=True)
class TimelineEvents:
    """Everything that the events show, by phase, lane and partition. `controllers`: brokers, as clients see them.

    `offsets`: of transactional lanes. `members`: by group.
    """

    phases: tuple[Phase, ...]
    faults: tuple[FaultSpan, ...] = ()
    leaders: Mapping[Place, Sequence[Change]] = field(default_factory=dict)
    isrs: Mapping[Place, Sequence[Change]] = field(default_factory=dict)
    elections: Mapping[Place, Sequence[Election]] = field(default_factory=dict)
    truncations: Mapping[Place, Sequence[Truncation]] = field(default_factory=dict)
    controllers: Sequence[Change] = ()
    offsets: Mapping[Place, Sequence[Offsets]] = field(default_factory=dict)
    members: Mapping[str, Sequence[MemberChange]] = field(default_factory=dict)
    notices: int = 0
    seconds: float | None = None

    def phase_of(self, lane: str) -> str:
        """The name of the phase that loaded a lane."""
        return next((phase.name for phase in self.phases if lane in phase.lanes), WHOLE_RUN)


def timeline_events_of(evidence: Evidence) -> TimelineEvents:
    """What a run's events show."""
    leaders: dict[Place, list[Change]] = {}
    isrs: dict[Place, list[Change]] = {}
    elections: dict[Place, list[Election]] = {}
    truncations: dict[Place, list[Truncation]] = {}
    controllers: list[Change] = []
    members: dict[str, list[MemberChange]] = {}
    notices, seconds = 0, None
    partitions = {name: lane.get("partitions", 1) for name, lane in evidence.lanes.items()}
    for event in evidence.events:
        ts_ns = event["ts_ns"]
        try:
            match event["type"]:
                case "leader_changed":
                    change = Change(ts_ns, _broker(event["leader"]))
                    leaders.setdefault(_place(event), []).append(change)
                case kind if kind in leadership.TYPES:
                    place, told = leadership.change_of(event, partitions)
                    match told:
                        case Election():
                            elections.setdefault(place, []).append(told)
                        case Truncation():
                            truncations.setdefault(place, []).append(told)
                        case IsrSeen():
                            isr = " ".join(map(str, sorted(told.isr)))
                            isrs.setdefault(place, []).append(Change(ts_ns, isr or "nobody"))
                case "controller_changed":
                    controllers.append(Change(ts_ns, _broker(event["controller"])))
                case "member_changed":
                    group, member = str(event["group"]), str(event["member"])
                    did = MemberChange(ts_ns, member.removeprefix(f"{group}-"), str(event["change"]))
                    members.setdefault(group, []).append(did)
                case "client_notice":
                    notices += 1
                case "run_ended":
                    seconds = float(event["seconds"])
        except (KeyError, TypeError, ValueError):
            continue
    return TimelineEvents(
        phases=_phases(evidence),
        faults=_faults(evidence.events),
        leaders=leaders,
        isrs=isrs,
        elections=elections,
        truncations=truncations,
        controllers=controllers,
        offsets=_offsets(evidence.events),
        members=members,
        notices=notices,
        seconds=seconds,
    )


def _offsets(events: Iterable[Mapping[str, Any]]) -> dict[Place, list[Offsets]]:
    """Per partition of a transactional lane what its leaders reported, from the first report of both offsets on.

    The two are asked for one after the other: a last stable offset that has overtaken a former high watermark counts
    as far as that.
    """
    marks: dict[Place, int] = {}
    stable: dict[Place, int] = {}
    found: dict[Place, list[Offsets]] = {}
    for event in events:
        kinds = {"high_watermark": marks, "last_stable_offset": stable}
        if event["type"] not in kinds:
            continue
        try:
            place = _place(event)
            kinds[event["type"]][place] = int(event[event["type"]])
        except (KeyError, TypeError, ValueError):
            continue
        if place in marks and place in stable:
            step = Offsets(event["ts_ns"], marks[place], min(marks[place], stable[place]))
            found.setdefault(place, []).append(step)
    return found


def _place(event: Mapping[str, Any]) -> Place:
    return str(event["lane"]), int(event["partition"])


def _broker(broker: object) -> str:
    return "nobody" if broker is None else str(int(str(broker)))


def _phases(evidence: Evidence) -> tuple[Phase, ...]:
    """The recorded phases; lanes that none of them names form another phase."""
    phases: dict[str, Phase] = {}
    for event in evidence.events:
        name = str(event.get("phase"))
        if event["type"] == "phase_started" and isinstance(event.get("lanes"), list):
            lanes = tuple(lane for lane in event["lanes"] if lane in evidence.lanes)
            phases[name] = Phase(name, lanes, start_ns=event["ts_ns"])
        elif event["type"] == "phase_ended" and name in phases:
            phases[name] = replace(phases[name], end_ns=event["ts_ns"])
    named = {lane for phase in phases.values() for lane in phase.lanes}
    others = tuple(lane for lane in evidence.lanes if lane not in named)
    rest = (Phase(WHOLE_RUN if not phases else "other lanes", others),) if others else ()
    return (*phases.values(), *rest)


def _faults(events: Iterable[Mapping[str, Any]]) -> tuple[FaultSpan, ...]:
    faults: dict[str, FaultSpan] = {}
    for event in events:
        fault_id = str(event.get("fault_id"))
        known = faults.get(fault_id)
        match event["type"]:
            case "fault_requested":
                lanes = event.get("lanes")
                faults[fault_id] = FaultSpan(
                    fault_id=fault_id,
                    kind=str(event.get("kind", "fault")),
                    target=str(event.get("target", "")),
                    resolved=tuple(str(name) for name in event.get("resolved") or ()),
                    lanes=tuple(str(lane) for lane in lanes) if isinstance(lanes, list) else None,
                    requested_ns=event["ts_ns"],
                    late=_seconds(event.get("late")),
                )
            case "fault_proven" if known:
                evidence = event.get("evidence")
                proof = describe_evidence(known.kind, evidence) if isinstance(evidence, dict) else ""
                raw = json.dumps(evidence, ensure_ascii=False)
                # A lock-step phase is proven when its last step has taken effect; nothing heals it.
                ended = event["ts_ns"] if known.kind == LOCKSTEP else None
                faults[fault_id] = replace(known, proven=True, proof=proof, raw=raw, healed_ns=ended)
            case "fault_not_proven" if known:
                faults[fault_id] = replace(known, proof=str(event.get("reason") or "no reason given"))
            case "fault_healed" if known:
                faults[fault_id] = replace(known, healed_ns=event["ts_ns"])
    return tuple(faults.values())


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
