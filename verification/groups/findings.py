"""Finds the anomalies of groups and loops in a run.

Guarantee: the cases have the columns of CASES, and rows stay in Spark. What members processed and what the log holds is
compared block by block; only blocks of which no single member, nor all of them together, processed just what they hold
are compared row by row.
"""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.verification.groups import anomalies, tables
from kafka_chaos.verification.groups.survey import Groups
from kafka_chaos.verification.groups.tables import GROUP, Visible
from kafka_chaos.verification.schemas import CASES, IDENTITY, POSITION
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.tables.blocks import hashed
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, keep

_BLOCKS = (*GROUP, "block")


def cases_of_groups(groups: Groups, known: DataFrame, sums: DataFrame | None, *, small: bool) -> DataFrame:
    """CASES of all lanes with groups.

    `known`: lane, producer_id, seq of what was produced. `sums`: what blocks of the log hold (`Scope.sums`), if that is
    known.
    """
    built = groups.tables
    moments = keep(tables.acknowledged_before(built, groups.ends), small=small)
    owned = built.assigned.join(built.spans, [*GROUP, "consumer"])
    found = [
        anomalies.commit_lost(moments, built.commits),
        anomalies.commit_regressed(moments),
        anomalies.owned_twice(owned),
    ]
    if (visible := groups.visible) is not None:
        missed = _missed(groups, visible, sums, small=small)
        if missed is not None:
            skipped = _produced(missed, known, small=small)
            found.append(anomalies.skipped_after_rebalance(keep(skipped, small=small)))
        if built.outputs is not None:
            inputs = keep(_inputs(groups, visible, built.outputs, small=small), small=small)
            named = inputs.withColumnRenamed("lane", "reads").withColumnRenamed("source", "lane")
            genuine = _produced(named, known, small=small).withColumnRenamed("lane", "source")
            found += [anomalies.processed_twice(genuine), anomalies.not_processed(genuine)]
    cases = reduce(DataFrame.unionByName, found).withColumn("units", F.lit(1).cast("bigint"))
    return cases.select(*CASES.names)


def _produced(rows: DataFrame, known: DataFrame, *, small: bool) -> DataFrame:
    """Those rows (of lane, producer_id, seq) whose record was produced."""
    if small:
        return rows.join(known, list(IDENTITY), "left_semi")
    kept = keep(rows)
    if kept.count() <= MOST_BROADCAST:
        # Without an exchange of all that was produced.
        known = known.join(F.broadcast(kept.select(*IDENTITY).distinct()), list(IDENTITY), "left_semi")
    return kept.join(known, list(IDENTITY), "left_semi")


def _missed(groups: Groups, visible: Visible, sums: DataFrame | None, *, small: bool) -> DataFrame | None:
    """The places that a group has committed past, and at which no member of it processed anything.

    GROUP, offset, producer_id, seq; None if there are none.
    """
    built = groups.tables
    if small:
        return _without_reads(_passed(visible.of(groups.lanes), groups.ends), built.reads)
    if sums is None or built.blocks is None:
        passed = _passed(visible.of(groups.lanes), groups.ends)
        doubtful = keep(_doubtful(passed, built.reads))
    else:
        doubtful = keep(visible.missed_blocks(sums, built.blocks, groups.ends))
        passed = None
    if doubtful.isEmpty():
        return None
    if passed is None:
        places = visible.within(doubtful.select("lane", "partition", "block").distinct())
        passed = _passed(places, groups.ends)
    return _without_reads(blocks.within(passed, doubtful, GROUP), blocks.within(built.reads, doubtful, GROUP))


def _passed(due: DataFrame, ends: DataFrame) -> DataFrame:
    """The places of the log between the first offset of a group and the one that it has committed.

    GROUP, offset, producer_id, seq.
    """
    bounds = F.broadcast(ends.where("first < past").select(*GROUP, "first", "past"))
    found = due.join(bounds, ["lane", "partition"]).where("offset >= first AND offset < past")
    return found.select(*GROUP, "offset", "producer_id", "seq")


def _doubtful(passed: DataFrame, reads: DataFrame) -> DataFrame:
    """GROUP and block of what no single member processed in full."""
    content = (F.expr("count(1) AS n"), F.expr(f"sum({hashed('offset')}) AS content"))
    whole = passed.selectExpr("*", blocks.block_of()).groupBy(*_BLOCKS).agg(*content)
    by_member = reads.selectExpr("*", blocks.block_of()).groupBy(*_BLOCKS, "consumer").agg(*content)
    same = by_member.select(*_BLOCKS, "n", "content").distinct()
    return whole.join(same, [*_BLOCKS, "n", "content"], "left_anti").select(*_BLOCKS)


def _without_reads(passed: DataFrame, reads: DataFrame) -> DataFrame:
    """Those of the places at which nothing was read."""
    return passed.join(reads.select(*GROUP, "offset"), [*GROUP, "offset"], "left_anti")


def _inputs(groups: Groups, visible: Visible, outputs: DataFrame, *, small: bool) -> DataFrame:
    """INPUTS: inputs that have no output, or several: judged, source, producer_id, seq, places, passed, outputs.

    `places`: at how many offsets the source holds it; `passed`: how many of these the group has committed past.
    """
    loops = F.broadcast(groups.loops)
    bounds = F.broadcast(groups.ends.select("judged", "lane", "partition", "first", "past"))
    key = ["judged", "producer_id", "seq"]
    passed = "cast(coalesce(offset >= first AND offset < past, false) AS bigint) AS passed"
    placed = visible.of(groups.sources).join(loops, "lane").join(bounds, ["judged", "lane", "partition"], "left")
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
