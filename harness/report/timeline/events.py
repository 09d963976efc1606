"""The events of a run by phase, fault, lane and partition."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

from kafka_chaos.contract import events as contract
from kafka_chaos.contract.events import LeaderElected
from kafka_chaos.contract.lane.fault_kinds import LOCKSTEP
from kafka_chaos.faults.registry import describe_evidence
from kafka_chaos.harness.report.inputs.evidence import Evidence
from kafka_chaos.harness.report.inputs.series import Phase
from kafka_chaos.verification.inputs.documents.events import Place

_PartitionChange = contract.LeaderChanged | contract.LeaderElected | contract.IsrChanged | contract.LogTruncated
_PartitionEvent = _PartitionChange | contract.HighWatermark | contract.LastStableOffset
T = TypeVar("T")
E = TypeVar("E")
P = TypeVar("P", bound=_PartitionEvent)
ByPartition = Mapping[str, Mapping[int, Sequence[T]]]
"""Entries in order of time, by lane and partition."""
WHOLE_RUN = "run"  # the name of the phase that stands for a run whose events name no phase


@dataclass(frozen=True)
class FaultSpan:
    """A fault from its request until it was healed; `healed_ns` None: no event says that it was healed.

    `proof`: the evidence in words, or why there is none; `raw`: the evidence as recorded.
    """

    request: contract.FaultRequested
    healed_ns: int | None = None
    proven: bool = False
    proof: str = ""
    raw: str = ""

    @property
    def name(self) -> str:
        """The name of the fault's kind in the report."""
        return "lock-step phase" if self.request.kind == LOCKSTEP else self.request.kind

    def concerns(self, lane: str) -> bool:
        """Whether the fault was aimed at this lane, or at all lanes."""
        return self.request.lanes is None or lane in self.request.lanes


@dataclass(frozen=True)
class Change:
    """From `ts_ns` on, `value` is in force: leader, controller, election or ISR in words. `short`: for small spaces."""

    ts_ns: int
    value: str
    short: str = ""


@dataclass(frozen=True)
class Offsets:
    """What a partition's leader reported last: its high watermark and its last stable offset."""

    ts_ns: int
    high_watermark: int
    last_stable_offset: int

    @property
    def held_back(self) -> int:
        """How many offsets `read_committed` consumers may not read yet, since a transaction is open."""
        return self.high_watermark - self.last_stable_offset


@dataclass(frozen=True)
class MemberChange:
    """A change of a group's member: `change` is a verb, `member` the member's name without the group's name."""

    ts_ns: int
    member: str
    change: str


@dataclass(frozen=True)
class Timeline:
    """Everything that the events of a run show.

    `leaders`, `isrs` and `controllers` as clients saw them, `elections` and `truncations` as brokers logged them.
    `offsets`: of transactional lanes. `members`: by group. `notices`: how many ClientNotices. `seconds`: of the run.
    """

    phases: tuple[Phase, ...]
    faults: tuple[FaultSpan, ...] = ()
    leaders: ByPartition[Change] = field(default_factory=dict)
    isrs: ByPartition[Change] = field(default_factory=dict)
    elections: ByPartition[LeaderElected] = field(default_factory=dict)
    truncations: ByPartition[contract.LogTruncated] = field(default_factory=dict)
    controllers: Sequence[Change] = ()
    offsets: ByPartition[Offsets] = field(default_factory=dict)
    members: Mapping[str, Sequence[MemberChange]] = field(default_factory=dict)
    notices: int = 0
    seconds: float | None = None

    def phase_of(self, lane: str) -> Phase | None:
        """The phase that loaded a lane; None if neither an event nor lanes.json names the lane."""
        return next((phase for phase in self.phases if lane in phase.lanes), None)


def timeline_of(evidence: Evidence) -> Timeline:
    """The timeline of a run."""
    events = evidence.events
    members: defaultdict[str, list[MemberChange]] = defaultdict(list)
    for event in _of_type(events, contract.MemberChanged):
        members[event.group].append(
            MemberChange(event.ts_ns, event.member.removeprefix(f"{event.group}-"), event.change)
        )
    return Timeline(
        phases=_phases(evidence),
        faults=_faults(events),
        leaders=_by_partition(
            events, contract.LeaderChanged, lambda event: Change(event.ts_ns, _brokers(event.leader))
        ),
        isrs=_by_partition(events, contract.IsrChanged, lambda event: Change(event.ts_ns, _brokers(*event.isr))),
        elections=_by_partition(events, LeaderElected, lambda event: event),
        truncations=_by_partition(events, contract.LogTruncated, lambda event: event),
        controllers=[
            Change(event.ts_ns, _brokers(event.controller)) for event in _of_type(events, contract.ControllerChanged)
        ],
        offsets=_offsets(events),
        members=members,
        notices=len(_of_type(events, contract.ClientNotice)),
        seconds=next((event.seconds for event in reversed(_of_type(events, contract.RunEnded))), None),
    )


def _of_type(events: Iterable[contract.Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def _by_partition(
    events: Iterable[contract.Event], kind: type[P], entry: Callable[[P], T]
) -> dict[str, dict[int, list[T]]]:
    by_lane: dict[str, dict[int, list[T]]] = {}
    for event in _of_type(events, kind):
        by_lane.setdefault(event.lane, {}).setdefault(event.partition, []).append(entry(event))
    return by_lane


def _offsets(events: Iterable[contract.Event]) -> ByPartition[Offsets]:
    """The offsets that the leaders of transactional lanes reported, from the first report of both offsets on.

    The two offsets are requested one after the other. A last stable offset that is above the high watermark, since it
    is newer, is capped to it.
    """
    watermarks: dict[Place, int] = {}
    stable: dict[Place, int] = {}
    by_lane: dict[str, dict[int, list[Offsets]]] = {}
    for event in events:
        match event:
            case contract.HighWatermark():
                watermarks[event.lane, event.partition] = event.high_watermark
            case contract.LastStableOffset():
                stable[event.lane, event.partition] = event.last_stable_offset
            case _:
                continue
        partition = event.lane, event.partition
        if partition in watermarks and partition in stable:
            reported = Offsets(event.ts_ns, watermarks[partition], min(watermarks[partition], stable[partition]))
            by_lane.setdefault(event.lane, {}).setdefault(event.partition, []).append(reported)
    return by_lane


def _brokers(*brokers: int | None) -> str:
    return " ".join(map(str, sorted(broker for broker in brokers if broker is not None))) or "nobody"


def _phases(evidence: Evidence) -> tuple[Phase, ...]:
    """The recorded phases, and another phase of the lanes that no recorded phase names, if there are any."""
    phases: dict[str, Phase] = {}
    for event in evidence.events:
        if isinstance(event, contract.PhaseStarted) and event.lanes is not None:
            lanes = tuple(lane for lane in event.lanes if lane in evidence.lanes)
            phases[event.phase] = Phase(event.phase, lanes, start_ns=event.ts_ns)
        elif isinstance(event, contract.PhaseEnded) and event.phase in phases:
            phases[event.phase] = replace(phases[event.phase], end_ns=event.ts_ns)
    named = {lane for phase in phases.values() for lane in phase.lanes}
    others = tuple(lane for lane in evidence.lanes if lane not in named)
    rest = (Phase(WHOLE_RUN if not phases else "other lanes", others),) if others else ()
    return (*phases.values(), *rest)


def _faults(events: Iterable[contract.Event]) -> tuple[FaultSpan, ...]:
    faults: dict[str, FaultSpan] = {}
    for event in events:
        fault = faults.get(getattr(event, "fault_id", ""))
        match event:
            case contract.FaultRequested():
                faults[event.fault_id] = FaultSpan(event)
            case contract.FaultProven() if fault:
                proof = describe_evidence(fault.request.kind, event.evidence)
                raw = json.dumps(event.evidence, ensure_ascii=False)
                # A lock-step phase is proven when its last step has taken effect; nothing heals it.
                ended = event.ts_ns if fault.request.kind == LOCKSTEP else None
                faults[event.fault_id] = replace(fault, proven=True, proof=proof, raw=raw, healed_ns=ended)
            case contract.FaultNotProven() if fault:
                faults[event.fault_id] = replace(fault, proof=event.reason)
            case contract.FaultHealed() if fault:
                faults[event.fault_id] = replace(fault, healed_ns=event.ts_ns)
    return tuple(faults.values())


def election_states(elections: Sequence[LeaderElected]) -> list[Change]:
    """A change for each election of a partition, in order of time: the leader epoch and the leader."""
    ordered = sorted(elections, key=lambda election: (election.ts_ns, election.leader_epoch))
    # If no broker logged the epochs between two elections, the later one names the epoch of the earlier one.
    before_gap = {after: before for before, after in pairwise(ordered) if after.leader_epoch > before.leader_epoch + 1}
    return [
        Change(
            election.ts_ns,
            f"epoch {election.leader_epoch}"
            + (f" (after {before_gap[election].leader_epoch})" if election in before_gap else "")
            + f" · broker {election.broker}",
            str(election.leader_epoch),
        )
        for election in ordered
    ]
