"""Gathers with Spark what recovery is judged by: one row per second, lane and partition, and every assignment."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import functions as F

from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.recovery.outages import ACKNOWLEDGED, GIVEN_UP, READ, SENT, UNANSWERED
from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import Awaited, LaneFacts, Owned, Pulse
from kafka_chaos.verification.tables.history import local_frame

_SECOND_NS = 1_000_000_000
_READERS = schema("lane string, consumer string, reader string")


def with_pulses(run: RunDirectory, frames: Frames, facts: Mapping[str, LaneFacts]) -> dict[str, LaneFacts]:
    """The facts of lanes whose bounds are known, with when what happened. `frames`: as they were read."""
    if not run.timings:
        return dict(facts)
    wanted = F.col("lane").isin(list(run.timings))
    produced, place = frames.produced.where(wanted), ("lane", "'' AS reader", "partition")
    ended = f"IF(complete_ns IS NULL, '{UNANSWERED}', IF(outcome = 'ok', '{ACKNOWLEDGED}', '{GIVEN_UP}')) AS what"
    offset = "IF(complete_ns IS NOT NULL AND outcome = 'ok', offset, NULL)"
    rows = produced.selectExpr(*place, f"'{SENT}' AS what", "invoke_ns AS ns", "-1L AS offset", "invoke_ns AS asked_ns")
    rows = rows.union(
        produced.selectExpr(*place, ended, "coalesce(complete_ns, invoke_ns)", f"coalesce({offset}, -1L)", "invoke_ns")
    )
    # A consumer that comes and goes is a reader of its own, whose reads tell nothing of the lane's.
    passing = [(lane, name, name) for lane, names in run.events.passing.items() for name in names]
    others = local_frame(produced.sparkSession, _READERS, passing)
    owned = defaultdict(list)
    if frames.assignments is not None:
        members = frames.assignments.where("group IS NOT NULL")
        others = others.union(members.select("lane", "consumer", "group").distinct())
        for row in members.collect():
            owned[row.group].append(Owned(row.group, row.partition, row.start_ns, row.end_ns))
    read = frames.consumed.where(wanted).join(F.broadcast(others), ["lane", "consumer"], "left")
    reader = "coalesce(reader, '')"
    reads = read.selectExpr("lane", reader, "partition", f"'{READ}'", "poll_ns", "offset", "CAST(NULL AS BIGINT)")
    keys = ["lane", "what", "reader", "partition"]
    moment = F.struct("ns", "offset")
    counted = (
        rows.union(reads)
        .groupBy(*keys, F.expr(f"ns div {_SECOND_NS}L"))
        .agg(F.min(moment).alias("first"), F.max(moment).alias("last"), F.min("asked_ns"))
    )
    found = defaultdict(list)
    for lane, what, reader, partition, _, first, last, asked_ns in counted.collect():
        offsets = (moment.offset if moment.offset >= 0 else None for moment in (first, last))
        found[lane].append(Pulse(what, reader, partition, first.ns, last.ns, asked_ns, *offsets))
    awaited = defaultdict(list)
    if frames.transactions is not None:
        unanswered = f"IF(end_ns IS NULL, error IS NOT NULL, end_ns - begin_ns >= {_SECOND_NS}L)"
        transactions = frames.transactions.where(wanted).where(unanswered)
        for lane, *values in transactions.select("lane", *Awaited._fields).collect():
            awaited[lane].append(Awaited(*values))
    groups = {lane.lane: groups_of_lane(lane) for lane in run.lanes if lane.lane in run.timings}
    return {
        **facts,
        **{
            lane: replace(
                facts.get(lane, LaneFacts()),
                pulses=tuple(sorted(found[lane], key=str)),
                awaited=tuple(sorted(awaited[lane], key=str)),
                owned=tuple(sorted((one for group in of for one in owned[group]), key=str)),
            )
            for lane, of in groups.items()
        },
    }
