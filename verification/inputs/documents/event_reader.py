"""Reads events.jsonl.

Guarantee: refuses, with its line, anything that is not an event, and events of these types with a missing, unknown or
ill-typed field. Contradictions are kept as a `problem` of a fault or a doubt of lanes: they prove nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from kafka_chaos.contract import events as contract
from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.contract.event_lines import event_of
from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import CALLS, reported_timeouts
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.events import Change, Events, Kept, Phase, Place
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.documents.reading import is_given, json_lines
from kafka_chaos.verification.inputs.storage import RunPath

_COLLECTED = ("log", "replicas")
_LONGEST = 1e9
"""Seconds, more than any run has."""
OfFault = contract.FaultRequested | contract.FaultProven | contract.FaultNotProven | contract.FaultHealed
OfPlace = Change | Kept | contract.HighWatermark | contract.LastStableOffset
OfRun = contract.RunStarted | contract.PhaseStarted | contract.PhaseEnded
OfClient = (
    contract.DefectPrecondition | contract.AcknowledgedWithoutOffset | contract.ClientFailed | contract.ClientStarted
)
Others = (
    contract.OutsideFaults
    | contract.ReaderStarted
    | contract.ReaderEnded
    | contract.ConfigurationUnread
    | contract.HarnessPaused
    | contract.BrokerSessionEnded
    | contract.CallNoted
    | contract.MemberChanged
)

READ = get_args(OfFault | OfPlace | OfRun | OfClient | Others)
"""The kinds of events that are read; others may say what they like."""


def read_events(path: RunPath, lanes: Sequence[Lane]) -> Events:
    """The content of an events.jsonl; raises `RunDirectoryError` (see the module)."""
    if not is_given(path):
        return Events()
    reader = _Reader({lane.lane: lane for lane in lanes}, Events(doubts={lane.lane: [] for lane in lanes}))
    for number, line in json_lines(path, torn=True):
        try:
            event = event_of(line, READ, exact=True)
            if event is not None:
                reader.take(event)
            if isinstance(line.get("ts_ns"), int):
                reader.told.last_ns = max(line["ts_ns"], reader.told.last_ns or 0)
        except ValueError as error:
            raise RunDirectoryError(path, str(error), column=f"line {number}") from error
    return reader.events()


@dataclass(slots=True)
class _Reader:
    """Takes events line by line. `lanes`: by name; `told`: what they say so far, apart from `faults` and `calls`."""

    lanes: Mapping[str, Lane]
    told: Events
    faults: dict[str, FaultRecord] = field(default_factory=dict)
    calls: dict[str, dict[tuple[str, str, int], contract.CallNoted]] = field(default_factory=dict)

    def events(self) -> Events:
        """The content of the lines that were taken."""
        calls = {lane: [*calls.values()] for lane, calls in self.calls.items()}
        return replace(self.told, faults=tuple(self.faults.values()), calls=calls)

    def take(self, event: contract.Event) -> None:
        """Note an event; raises `ValueError` for one that makes no sense."""
        match event:
            case _ if isinstance(event, OfFault):
                self._note(self.faults.setdefault(event.fault_id, FaultRecord(event.fault_id)), event)
            case contract.LeaderElected() | contract.IsrChanged() | contract.LogTruncated():
                self.told.changes.setdefault(self._place(event), []).append(event)
            case contract.PartitionChanged() | contract.PartitionOffline():
                self.told.kept.setdefault(self._place(event), []).append(event)
            case contract.HighWatermark():
                self.told.reports.setdefault(self._place(event), []).append(event)
            case contract.LastStableOffset():
                self.told.stable.setdefault(self._place(event), []).append(event)
            case _ if isinstance(event, OfRun):
                self._take_of_run(event)
            case _ if isinstance(event, OfClient):
                self._take_of_client(event, self._lane(event.lane))
            case contract.OutsideFaults():
                _require_known("kinds", event.kinds, FAULT_KINDS)
                for lane in self._concerned(event.lanes) or self.lanes:
                    self.told.outside[lane] = (*self.told.outside.get(lane, ()), *event.kinds)
            case contract.ReaderStarted():
                self.told.passing.setdefault(self._lane(event.lane), {})[event.consumer] = (event.ts_ns, None)
            case contract.ReaderEnded():
                began = self.told.passing.get(self._lane(event.lane), {}).get(event.consumer)
                if began is None:
                    raise ValueError(f"the consumer {quoted(event.consumer)} ended and never began to read")
                self.told.passing[event.lane][event.consumer] = (began[0], event.ts_ns)
            case contract.CallNoted():
                self._take_call(event)
            case contract.HarnessPaused():
                if not 0 <= event.seconds < _LONGEST:
                    raise ValueError(f"seconds is {event.seconds}, expected how long it was")
                pause = event.ts_ns - round(event.seconds * 1e9), event.ts_ns
                if self.told.begun_ns is not None and pause[0] < self.told.begun_ns:
                    raise ValueError(f"seconds is {event.seconds}, expected a pause within the run")
                self.told.pauses.append(pause)
            case contract.MemberChanged(change=contract.BEGINS):
                self.told.members.setdefault((event.group, event.member), event.ts_ns)
            case contract.BrokerSessionEnded():
                self.told.ended_sessions.append(event)
            case contract.ConfigurationUnread():
                for what, names in (
                    ("the run may not read the configuration", event.configurations),
                    ("the cluster does not tell", event.untold),
                ):
                    if names:
                        self._doubt_all(f"{what} {', '.join(names)}: the prediction may be that of another cluster")

    def _take_call(self, event: contract.CallNoted) -> None:
        _require_known("call", (event.call,), tuple(CALLS))
        if not event.began_ns <= (event.began_ns if event.ended_ns is None else event.ended_ns) <= event.ts_ns:
            raise ValueError("began_ns, ended_ns and ts_ns were expected in this order")
        calls = self.calls.setdefault(self._lane(event.lane), {})
        call = (event.client, event.call, event.began_ns)
        # The thread that looks for long calls may tell of one that ends meanwhile.
        if call not in calls or calls[call].ended_ns is None:
            calls[call] = event

    def _take_of_run(self, event: OfRun) -> None:
        match event:
            case contract.RunStarted():
                _require_known("collects", event.collects, _COLLECTED)
                self.told.collects, self.told.begun_ns = event.collects, event.ts_ns
                if event.lanes and set(event.lanes) != self.lanes.keys():
                    self._doubt_all("events.jsonl names other lanes of the run than lanes.json")
            case contract.PhaseStarted():
                if event.phase in self.told.phases:
                    self._doubt_all(f"phase {event.phase} began twice")
                self.told.phases[event.phase] = Phase(self._concerned(event.lanes), event.ts_ns)
            case contract.PhaseEnded():
                phase = self.told.phases.get(event.phase)
                if phase is None:
                    self._doubt_all(f"phase {event.phase} ended and never began: events.jsonl reports no start")
                    return
                if phase.ended_ns is not None:
                    self._doubt_all(f"phase {event.phase} ended twice")
                if event.load is not None and not event.load[0] <= event.load[1] <= event.ts_ns:
                    raise ValueError("load: its begin, its end and ts_ns were expected in this order")
                self.told.phases[event.phase] = replace(phase, ended_ns=event.ts_ns, load=event.load)

    def _take_of_client(self, event: OfClient, lane: str) -> None:
        match event:
            case contract.DefectPrecondition():
                from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS

                _require_known("defect", (event.defect,), tuple(MODELLED_DEFECTS))
                if not event.evidence:
                    raise ValueError("evidence is '', expected what shows it")
                self.told.preconditions.setdefault(lane, []).append(
                    event if event.occurred_ns is None else replace(event, ts_ns=event.occurred_ns)
                )
            case contract.AcknowledgedWithoutOffset():
                if event.messages < 1:
                    raise ValueError(f"messages is {event.messages}, expected at least 1")
                self.told.unplaced[lane] = self.told.unplaced.get(lane, 0) + event.messages
            case contract.ClientFailed():
                if not event.problem:
                    raise ValueError("problem is '', expected a text")
                self._doubt(lane, f"its {event.role} {event.problem}")
            case contract.ClientStarted():
                self.told.timeouts.setdefault(lane, []).append((event.role, reported_timeouts(event.timeouts)))
                if not _is_of(client := self.lanes[lane].client, event):
                    is_said = f"{event.client} {event.version}"
                    self._doubt(lane, f"its {event.role} says that it is {is_said}, lanes.json {client}")

    def _note(self, fault: FaultRecord, event: OfFault) -> None:
        match event:
            case contract.FaultRequested():
                _require_known("model_faults", event.model_faults, FAULT_KINDS)
                fault.kind, fault.target, fault.resolved = event.kind, event.target, event.resolved
                fault.lanes, fault.model_faults = self._concerned(event.lanes), event.model_faults
                fault.of_client = bool(event.parameters.get("client_id"))
                steps = event.parameters.get("steps")
                fault.steps = tuple(map(str, steps)) if isinstance(steps, list) else ()
                fault.requested.append(event.ts_ns)
            case contract.FaultProven():
                fault.proven.append(event.ts_ns)
                fault.applied.append(event.ts_ns if event.applied_ns is None else event.applied_ns)
                fault.shown += tuple(event.evidence)
            case contract.FaultNotProven():
                fault.denied = event.reason
            case contract.FaultHealed():
                fault.healed.append(event.ts_ns)

    def _doubt_all(self, doubt: str) -> None:
        for lane in self.lanes:
            self._doubt(lane, doubt)

    def _doubt(self, lane: str, doubt: str) -> None:
        if doubt not in self.told.doubts[lane]:
            self.told.doubts[lane].append(doubt)

    def _place(self, event: OfPlace) -> Place:
        lane = self._lane(event.lane)
        if not 0 <= event.partition < self.lanes[lane].partitions:
            raise ValueError(f"lane {lane!r} has no partition {event.partition}")
        return lane, event.partition

    def _lane(self, lane: str) -> str:
        if lane not in self.lanes:
            raise ValueError(f"lane: {quoted(lane)} is not in lanes.json")
        return lane

    def _concerned(self, concerned: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if concerned is None else tuple(map(self._lane, concerned))


def _is_of(client: str | None, started: contract.ClientStarted) -> bool:
    """Whether a process may be a lane's client by what it says of itself; a command of one's own may say anything."""
    from kafka_chaos.reference_model.clients.rules import CLIENTS

    kind, _, version = (client or "").partition(" ")
    if kind not in CLIENTS:
        return True
    return started.client == kind and version in ("", started.version)


def _require_known(key: str, names: Collection[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{key}: {quoted(name)}, expected one of {', '.join(known)}")
