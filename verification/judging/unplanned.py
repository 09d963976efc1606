"""Elections and ends of sessions that no fault of the run can have caused, and the findings that they may explain.

Guarantee: what the model permits only where brokers' sessions end, in a lane whose faults end none, is no violation if
leaders were elected or sessions ended all the same: on a machine with too much to do, a session may end by itself. The
lane is then unknown. What is forbidden even so stays a violation. Pure Python, no Spark.
"""

from collections.abc import Mapping
from dataclasses import replace

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.events import LeaderElected
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import USUAL_TIMINGS
from kafka_chaos.verification.inputs.documents.events import SESSION_EXPIRY
from kafka_chaos.verification.inputs.documents.faults import MISTIMED
from kafka_chaos.verification.inputs.run_directory import RunDirectory

MOST_SESSIONS = 2
"""How many ends of sessions are searched for, at most."""


def unplanned(run: RunDirectory, lane: Lane) -> list[LeaderElected]:
    """The elections under load of leaders after the first ones, before any fault that the model knows was requested."""
    phases = run.events.phases_of(lane.lane).values()
    if not phases or run.events.outside.get(lane.lane) or run.events.steps(lane.lane):
        return []
    faults = run.events.concerning(lane.lane)
    knows_times = not any(fault.kind in MISTIMED for fault in faults)
    started_ns = min(phase.started_ns for phase in phases)
    first_ns = min((ns for fault in faults if fault.counts_as for ns in fault.requested), default=None)

    def is_unplanned(won: LeaderElected) -> bool:
        before_faults = first_ns is None or (knows_times and won.ts_ns < first_ns)
        return won.leader_epoch > 0 and before_faults and not (knows_times and won.ts_ns < started_ns)

    elections = (won for partition in range(lane.partitions) for won in run.events.elected(lane.lane, partition))
    return [won for won in elections if is_unplanned(won)]


def permitted_by_them(run: RunDirectory, lane: Lane) -> Mapping[AnyAnomaly, str]:
    """The anomalies that these elections, or sessions that no fault ended, may explain, each with why."""
    from kafka_chaos.reference_model.predict.cache import predict_cached
    from kafka_chaos.reference_model.search import ScopeNotExhausted

    won = unplanned(run, lane)
    session_ns = run.timings.get(lane.lane, USUAL_TIMINGS).session_ms * 1_000_000
    ends = run.events.unplanned_ends(lane.lane, session_ns)
    if ends:
        why = f"the session of broker {ends[0].broker} ended, and no fault of the run explains it"
    elif won:
        first = min(won, key=lambda election: election.ts_ns)
        where = f"partition {first.partition} in leader epoch {first.leader_epoch}"
        elected = f"broker {first.broker} became leader of {where}"
        why = f"{elected}, and no fault of the run had been requested that may cause it"
    else:
        return {}
    sessions = min(MOST_SESSIONS, max(len(ends), len({election.leader_epoch for election in won})))
    try:
        prediction = predict_cached(replace(lane, faults=(*lane.faults, *(SESSION_EXPIRY,) * sessions)))
    except ScopeNotExhausted:
        return dict.fromkeys(lane.anomalies, why)
    answers = prediction.anomalies
    return {name: why for name in lane.anomalies if name in answers and answers[name].status != Status.FORBIDDEN}
