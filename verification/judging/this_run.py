"""A run's observations of a lane's ISRs, and the lane's prediction given these.

Guarantee: an anomaly's status in this run is its status for these faults, or forbidden. It is forbidden only if no
broker left an ISR of the lane for being slow, and if the model can't show it without such a follower; or, where an
axiom excludes it, if no broker lost its log's end within the ISR. The observations have to prove that.

What they prove: the states of a partition, which the cluster numbers, were seen without a gap; up to the end of the
load, each broker that left the ISR was hit by a fault at that moment, once for each time that it left; and each broker
that a fault ended did leave it. One that came back before anybody took notice could have lost what it had acknowledged
and be elected, which the model does not know. Pure Python, no Spark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.events import IsrChanged, LeaderElected, PartitionChanged
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.fault_kinds import COUNTS_AS
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import release
from kafka_chaos.contract.ledger import ObservationsLedger, ObservedLedger
from kafka_chaos.verification.inputs.documents.events import LOG_TIME_NS, Place
from kafka_chaos.verification.inputs.documents.faults import MISTIMED, FaultRecord
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory

FIRST_RELEASE = (2, 8)
"""Since then controllers change ISRs, followers join from their leader's epoch on, and logs name all numbers."""
ENDING = frozenset({"kill", "stop", "power-loss"})
"""The model's faults that end a broker."""
LOSSES = (Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ)
"""The losses of a lane's partitions that its transactions and groups depend on."""
MOST_STATES = 100_000
"""Of a search for a verdict: some ten seconds."""
_BROKER = re.compile(r"broker-(\d+)")


@dataclass(frozen=True, slots=True)
class State:
    """An ISR, from `since_ns` on."""

    since_ns: int
    isr: frozenset[int]


@dataclass(frozen=True, slots=True)
class ThisRun:
    """`prediction`: what the lane is judged by. `ruled_out`: its statuses that differ from those for these faults.
    `ledger`: what they rest on, None with a lock-step phase and without events.jsonl."""

    prediction: LanePrediction
    ledger: ObservationsLedger | None = None
    ruled_out: Mapping[AnyAnomaly, Status] = field(default_factory=dict)


def in_this_run(run: RunDirectory, lane: Lane, prediction: LanePrediction, counts: Mapping[AnyAnomaly, int]) -> ThisRun:
    """The statuses in this run of the permitted anomalies that were found."""
    from kafka_chaos.reference_model.lane.anomalies import CHECKS
    from kafka_chaos.reference_model.lane.state import Scope
    from kafka_chaos.reference_model.predict.defects import beyond_search, defect_traces, plain_lane
    from kafka_chaos.reference_model.predict.prediction import predict, still_shown
    from kafka_chaos.reference_model.protocol.axioms import AXIOMS
    from kafka_chaos.reference_model.protocol.rules import as_obeyed
    from kafka_chaos.reference_model.search import Budget, ScopeNotExhausted

    if prediction.steps or run.events.faults is None:
        return ThisRun(prediction)
    seen = observed(run, lane)
    reason = next((partition.reason for partition in seen if partition.reason is not None), None)
    found = frozenset(
        anomaly for anomaly, status in prediction.statuses.items() if status == Status.PERMITTED and counts.get(anomaly)
    )
    permitted = frozenset(anomaly for anomaly in CHECKS if anomaly in found)
    beyond = found - permitted
    if reason is None and not found:
        reason = "nothing was found that is permitted"
    if reason is not None:
        return ThisRun(prediction, ObservationsLedger(searched=False, reason=reason, partitions=seen))
    plain = as_obeyed(plain_lane(lane))
    losses = {anomaly for anomaly in LOSSES if beyond and prediction.statuses.get(anomaly) == Status.PERMITTED}
    searched = permitted - dict(beyond_search(plain, ())).keys()
    try:
        shown = still_shown(searched | losses, [plain], Scope(kept_isr=True), Budget(MOST_STATES))
    except ScopeNotExhausted as error:
        return ThisRun(prediction, ObservationsLedger(searched=False, reason=str(error), partitions=seen))
    ruled_out: dict[AnyAnomaly, Status] = {one: Status.FORBIDDEN for one in CHECKS if one in searched - shown}
    axiomatic = [one for one in AXIOMS if one in found]
    if axiomatic and not _ended_alone(run, lane):
        # An axiom fails where a broker loses its log's end and stays in the ISR: each was seen to leave it.
        ruled_out |= dict.fromkeys(axiomatic, Status.FORBIDDEN)
    defects = dict(prediction.known_defects)
    if ruled_out:
        defects |= {anomaly: tuple(trace.ids for trace in traces) for anomaly, traces in defect_traces(plain).items()}
    if losses - shown:
        # Transactions and groups lose what their partitions lose. Kafka's internal topics are not observed: they may
        # lose in this run what they may for these faults. A search that takes too long rules out nothing.
        with suppress(ScopeNotExhausted):
            whole = predict(lane, scope=Scope(kept_isr=True), budget=Budget(MOST_STATES))
            for anomaly, answer in whole.anomalies.items():
                if anomaly in beyond.difference(axiomatic) and answer.status is Status.FORBIDDEN:
                    ruled_out[anomaly] = Status.FORBIDDEN
                    defects[anomaly] = tuple(trace.ids for trace in answer.known_defects)
    narrowed = replace(prediction, statuses={**prediction.statuses, **ruled_out}, known_defects=defects)
    return ThisRun(narrowed, ObservationsLedger(searched=True, reason=None, partitions=seen), ruled_out)


def observed(run: RunDirectory, lane: Lane) -> tuple[ObservedLedger, ...]:
    """The observations of the ISRs of each partition of a lane."""
    whole = unobservable(run, lane)
    return tuple(_of_partition(run, lane, partition, whole) for partition in range(lane.partitions))


def unobservable(run: RunDirectory, lane: Lane) -> str | None:
    """Why nothing of a lane can be ruled out, whatever its partitions show."""
    if release(lane.version) < FIRST_RELEASE:
        return "brokers before 2.8 don't number what they change"
    if run.events.outside.get(lane.lane):
        return "others may have injected faults at any time"
    if load_of(run, lane) is None:
        return "events.jsonl does not say when the load began and ended"
    for fault in run.events.concerning(lane.lane):
        if fault.kind not in COUNTS_AS or fault.kind == "reassignment":
            return f"fault {fault.fault_id} ({fault.kind}) may change an ISR in ways that the model does not know"
        if fault.problem is not None:
            return f"fault {fault.fault_id}: {fault.problem}"
        if fault.kind in MISTIMED:
            return f"fault {fault.fault_id} ({fault.kind}) moves the clocks by which logs are timed"
        if ENDING.intersection(fault.counts_as) and None in _hit(fault):
            return f"fault {fault.fault_id} ({fault.kind}) does not say which brokers it ended"
    return None


def load_of(run: RunDirectory, lane: Lane) -> tuple[int, int] | None:
    """When the lane's load began, and when it had ended, and everything was replicated."""
    phases = run.events.phases_of(lane.lane).values()
    ends = [phase.ended_ns for phase in phases if phase.ended_ns is not None]
    return (min(phase.started_ns for phase in phases), max(ends)) if ends and len(ends) == len(phases) else None


def _hit(fault: FaultRecord) -> set[int | None]:
    """The brokers that a fault hit; None stands for a broker that nobody can name."""
    matches = [_BROKER.fullmatch(name) for name in fault.brokers] if fault.resolved else [None]
    return {None if match is None else int(match[1]) for match in matches}


def _of_partition(run: RunDirectory, lane: Lane, partition: int, whole: str | None) -> ObservedLedger:
    kept = run.events.kept.get((lane.lane, partition), ())
    numbers = len({change.partition_epoch for change in kept if isinstance(change, PartitionChanged)})
    load = load_of(run, lane)
    try:
        states = states_of(run, (lane.lane, partition))
        # Clients and new leaders may have seen an ISR that is none of these.
        changes = run.events.changes.get((lane.lane, partition), ())
        seen = (change.isr for change in changes if isinstance(change, IsrChanged | LeaderElected) and change.isr)
        unknown = (isr for isr in seen if frozenset(isr) not in {state.isr for state in states})
        gaps = (f"no log names the state in which the ISR was {', '.join(map(str, sorted(isr)))}" for isr in unknown)
        gap = next(gaps, None)
    except ValueError as error:
        states, gap = [], str(error)
    reason = whole or gap
    if reason is None and load is not None:
        reason = next(_unasked(states, load, run.events.concerning(lane.lane), lane), None)
    return ObservedLedger(partition=partition, states=numbers, complete=gap is None, reason=reason)


def states_of(run: RunDirectory, place: Place) -> list[State]:
    """The states of a partition, in order; `ValueError` where they are not all known (`numbered`)."""
    return numbered([change for change in run.events.kept.get(place, ()) if isinstance(change, PartitionChanged)])


def numbered(changes: Sequence[PartitionChanged]) -> list[State]:
    """The states of a partition in the order of their numbers; `ValueError` where they are not all there and clear."""
    if not changes:
        raise ValueError("no log names the partition's states")
    ordered = sorted(changes, key=lambda change: (change.partition_epoch, change.isr is None, change.ts_ns))
    states: list[State] = []
    number = ordered[0].partition_epoch - 1
    for change in ordered:
        isr = states[-1].isr if change.isr is None and states else frozenset(change.isr or ())
        if change.partition_epoch == number:
            if change.isr is not None and isr != states[-1].isr:
                raise ValueError(f"the logs name two ISRs of the partition's state {number}")
            states[-1] = State(min(states[-1].since_ns, change.ts_ns), states[-1].isr)
            continue
        if change.partition_epoch != number + 1 or (change.isr is None and not states):
            raise ValueError(f"no log names what became of the partition's state {number}")
        if states and change.ts_ns + LOG_TIME_NS < states[-1].since_ns:
            raise ValueError(f"the partition's state {number} was logged after the next one")
        states.append(State(change.ts_ns, isr))
        number += 1
    if {change.newest for change in changes} != {number}:
        raise ValueError(f"the partition's state {number} is not known to be its last one")
    return states


def _unasked(
    states: Sequence[State], load: tuple[int, int], faults: Sequence[FaultRecord], lane: Lane
) -> Iterator[str]:
    """Why brokers may have left the ISR without a fault before the load had ended, or stayed in it in spite of one."""
    began, load_end = load
    for moment, when in ((began, "when the load began"), (load_end, "when the load had ended")):
        if len(_isr_at(states, moment)) != lane.replication_factor:
            yield f"the ISR was not seen whole {when}"
    used: set[tuple[str, int]] = set()
    for before, after in pairwise(states):
        if after.since_ns > load_end:
            continue
        for broker in sorted(before.isr - after.isr):
            holding = [
                fault.fault_id
                for fault in faults
                if fault.moves_leaders and broker in _hit(fault) and (fault.fault_id, broker) not in used
                if fault.requested[0] <= after.since_ns + LOG_TIME_NS and after.since_ns <= fault.healed[-1]
            ]
            if not holding:
                yield f"broker {broker} left the ISR, and no fault held it"
            used.update((fault_id, broker) for fault_id in holding[:1])
    replicas = frozenset[int]().union(*(state.isr for state in states))
    for fault, broker in _ended(faults):
        begun, ended = _isr_at(states, fault.requested[0]), fault.healed[-1]
        isrs = [begun, *(state.isr for state in states if fault.requested[0] <= state.since_ns <= ended)]
        if broker in replicas and begun != {broker} and all(broker in isr for isr in isrs):
            yield f"fault {fault.fault_id} ended broker {broker}, which was not seen to leave the ISR"


def _ended(faults: Sequence[FaultRecord]) -> Iterator[tuple[FaultRecord, int]]:
    """The brokers that faults ended, each with the fault."""
    for fault in faults:
        if ENDING.intersection(fault.counts_as):
            yield from ((fault, broker) for broker in sorted(broker for broker in _hit(fault) if broker is not None))


def _ended_alone(run: RunDirectory, lane: Lane) -> bool:
    """Whether a fault ended a broker that was alone in the ISR of a partition, and so stayed in it."""
    partitions = [states_of(run, (lane.lane, number)) for number in range(lane.partitions)]
    return any(
        _isr_at(states, fault.requested[0]) == {broker}
        for fault, broker in _ended(run.events.concerning(lane.lane))
        for states in partitions
    )


def _isr_at(states: Sequence[State], moment: int) -> frozenset[int]:
    """The ISR at a moment; empty before the first state."""
    return next((state.isr for state in reversed(states) if state.since_ns <= moment), frozenset())
