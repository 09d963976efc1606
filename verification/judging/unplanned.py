"""Elections that no fault of the run can have caused, and the findings that they may explain.

Guarantee: what the model permits only where brokers' sessions end, in a lane whose faults end none, is no violation if
leaders were elected all the same: on a machine with too much to do, a session may end by itself. The lane is then
unknown. What is forbidden even so stays a violation. Pure Python, no Spark.
"""

from collections.abc import Mapping
from dataclasses import replace

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.events import LeaderElected
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
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
    """The anomalies that these elections may explain, each with why."""
    from kafka_chaos.reference_model.predict.cache import predict_cached
    from kafka_chaos.reference_model.search import ScopeNotExhausted

    won = unplanned(run, lane)
    if not won:
        return {}
    sessions = min(MOST_SESSIONS, len({one.leader_epoch for one in won}))
    first = min(won, key=lambda one: one.ts_ns)
    elected = f"broker {first.broker} became leader of partition {first.partition} in leader epoch {first.leader_epoch}"
    why = f"{elected}, and no fault of the run had been requested that may cause it"
    try:
        found = predict_cached(replace(lane, faults=(*lane.faults, *(SESSION_EXPIRY,) * sessions)))
    except ScopeNotExhausted:
        return dict.fromkeys(lane.anomalies, why)
    parts = (found.anomalies, found.transactions, found.groups)
    answers = {str(one): answer for part in parts for one, answer in part.items()}
    return {one: why for one in lane.anomalies if one in answers and answers[one].status != Status.FORBIDDEN}
