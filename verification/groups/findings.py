"""Finds the anomalies of groups and loops in a run.

Guarantee: the cases have the columns of CASES, and rows stay in Spark. What members processed and what the log holds is
compared block by block; only blocks that no single member processed in full are compared row by row.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.verification.groups import anomalies, tables
from kafka_chaos.verification.groups.survey import Groups
from kafka_chaos.verification.groups.tables import GROUP
from kafka_chaos.verification.schemas import CASES, IDENTITY, POSITION
from kafka_chaos.verification.tables.scope import keep

BLOCK_BITS = 10
"""A block is 1,024 neighbouring offsets of a partition."""
_BLOCKS = (*GROUP, "block")


def cases_of_groups(groups: Groups, known: DataFrame, *, small: bool) -> DataFrame:
    """CASES of all lanes with groups. `known`: lane, producer_id, seq of what was produced."""
    built = groups.tables
    moments = keep(tables.acknowledged_before(built, groups.ends), small=small)
    owned = built.assigned.join(built.spans, [*GROUP, "consumer"])
    found = [
        anomalies.commit_lost(moments, built.commits),
        anomalies.commit_regressed(moments),
        anomalies.owned_twice(owned),
    ]
    if groups.due is not None:
        passed = _passed(groups.due, groups.ends)
        missed = _missed(passed, built.reads, small=small)
        skipped = missed.join(known, list(IDENTITY), "left_semi")
        found.append(anomalies.skipped_after_rebalance(keep(skipped, small=small)))
        if built.outputs is not None:
            inputs = keep(_inputs(groups, groups.due, built.outputs, small=small), small=small)
            genuine = inputs.join(
                known.withColumnRenamed("lane", "source"), ["source", "producer_id", "seq"], "left_semi"
            )
            found += [anomalies.processed_twice(genuine), anomalies.not_processed(genuine)]
    cases = reduce(DataFrame.unionByName, found).withColumn("units", F.lit(1).cast("bigint"))
    return cases.select(*CASES.names)


def _passed(due: DataFrame, ends: DataFrame) -> DataFrame:
    """The places of the log between the first offset of a group and the one that it has committed.

    GROUP, offset, producer_id, seq.
    """
    bounds = F.broadcast(ends.where("first < past").select(*GROUP, "first", "past"))
    found = due.join(bounds, ["lane", "partition"]).where("offset >= first AND offset < past")
    return found.select(*GROUP, "offset", "producer_id", "seq")


def _missed(passed: DataFrame, reads: DataFrame, *, small: bool) -> DataFrame:
    """Those of them at which no member of the group processed anything."""
    if not small:
        content = (F.expr("count(1) AS n"), F.expr("sum(xxhash64(offset)) AS content"))
        whole = passed.selectExpr("*", _block()).groupBy(*_BLOCKS).agg(*content)
        by_member = reads.selectExpr("*", _block()).groupBy(*_BLOCKS, "consumer").agg(*content)
        same = by_member.select(*_BLOCKS, "n", "content").distinct()
        doubtful = keep(whole.join(same, [*_BLOCKS, "n", "content"], "left_anti").select(*_BLOCKS))
        passed, reads = _within(passed, doubtful), _within(reads, doubtful)
    return passed.join(reads.select(*GROUP, "offset"), [*GROUP, "offset"], "left_anti")


def _block() -> str:
    return f"shiftright(offset, {BLOCK_BITS}) AS block"


def _within(rows: DataFrame, blocks: DataFrame) -> DataFrame:
    return rows.selectExpr("*", _block()).join(F.broadcast(blocks), list(_BLOCKS), "left_semi").drop("block")


def _inputs(groups: Groups, due: DataFrame, outputs: DataFrame, *, small: bool) -> DataFrame:
    """INPUTS: inputs that have no output, or several: judged, source, producer_id, seq, places, passed, outputs.

    `places`: at how many offsets the source holds it; `passed`: how many of these the group has committed past.
    """
    loops = F.broadcast(groups.loops)
    bounds = F.broadcast(groups.ends.select("judged", "lane", "partition", "first", "past"))
    key = ["judged", "producer_id", "seq"]
    passed = "cast(coalesce(offset >= first AND offset < past, false) AS bigint) AS passed"
    placed = due.join(loops, "lane").join(bounds, ["judged", "lane", "partition"], "left")
    placed = placed.selectExpr("judged", *POSITION, "producer_id", "seq", passed)
    rows = placed.selectExpr(*key, "1L AS places", "passed", "0L AS outputs")
    rows = rows.union(outputs.selectExpr("judged", "source_producer_id", "source_seq", "0L", "0L", "1L"))
    sums = rows.groupBy(*key).agg(*(F.expr(f"sum({name}) AS {name}") for name in ("places", "passed", "outputs")))
    found = keep(sums.where("outputs > greatest(places, 1) OR (outputs = 0 AND passed > 0)"), small=small)
    # At an offset of the source that was used again, the group has processed what it was given there.
    lacking = F.broadcast(found.where("outputs = 0").select(*key))
    at = keep(placed.where("passed > 0").join(lacking, key, "left_semi").drop("passed"), small=small)
    place = ["judged", *POSITION]
    given = groups.tables.reads.selectExpr(*place, "producer_id AS given_id", "seq AS given_seq")
    same = F.expr("count_if(given_id = producer_id AND given_seq = seq) AS same")
    reused = given.join(F.broadcast(at), place).groupBy(*place, "producer_id", "seq").agg(same).where("same = 0")
    left = at.join(reused.select(*place, "producer_id", "seq"), [*place, "producer_id", "seq"], "left_anti")
    lacking_still = found.where("outputs = 0").join(left.select(*key), key, "left_semi")
    kept = found.where("outputs > 0").union(lacking_still)
    return kept.join(loops.withColumnRenamed("lane", "source"), "judged")
