"""Gathers with Spark what recovery is judged by: one row per second, lane and partition, and every assignment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import functions as F

from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.recovery.outages import ACKNOWLEDGED, GIVEN_UP, READ, SENT
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import LaneFacts, Owned, Pulse

_SECOND_NS = 1_000_000_000


def with_pulses(run: RunDirectory, frames: Frames, facts: Mapping[str, LaneFacts]) -> dict[str, LaneFacts]:
    """The facts of lanes whose bounds are known, with when what happened. `frames`: as they were read."""
    if not run.timings:
        return dict(facts)
    wanted = F.col("lane").isin(list(run.timings))
    produced, place = frames.produced.where(wanted), ("lane", "'' AS reader", "partition")
    ended = f"IF(outcome = 'ok', '{ACKNOWLEDGED}', '{GIVEN_UP}') AS what"
    rows = produced.selectExpr(*place, f"'{SENT}' AS what", "invoke_ns AS ns")
    rows = rows.union(produced.where("complete_ns IS NOT NULL").selectExpr(*place, ended, "complete_ns"))
    read, owned = frames.consumed.where(wanted), defaultdict(list)
    if frames.assignments is None:
        read = read.withColumn("group", F.lit(""))
    else:
        members = frames.assignments.where("group IS NOT NULL").select("lane", "consumer", "group").distinct()
        read = read.join(F.broadcast(members), ["lane", "consumer"], "left")
        for row in frames.assignments.where("group IS NOT NULL").collect():
            owned[row.group].append(Owned(row.group, row.partition, row.start_ns, row.end_ns))
    reads = read.selectExpr("lane", "coalesce(group, '')", "partition", f"'{READ}'", "poll_ns")
    keys = ["lane", "what", "reader", "partition"]
    counted = rows.union(reads).groupBy(*keys, F.expr(f"ns div {_SECOND_NS}L")).agg(F.min("ns"), F.max("ns"))
    found = defaultdict(list)
    for lane, what, reader, partition, _, first_ns, last_ns in counted.collect():
        found[lane].append(Pulse(what, reader, partition, first_ns, last_ns))
    groups = {lane.lane: groups_of_lane(lane) for lane in run.lanes if lane.lane in run.timings}
    return {
        **facts,
        **{
            lane: replace(
                facts.get(lane, LaneFacts()),
                pulses=tuple(sorted(found[lane], key=str)),
                owned=tuple(sorted((one for group in of for one in owned[group]), key=str)),
            )
            for lane, of in groups.items()
        },
    }
