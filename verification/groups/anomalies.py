"""Every anomaly of groups and loops as a pure function from tables to its cases; the docstring is the specification.

Guarantee: each function returns NAMED: lane (the one that is judged), anomaly, partition, offset, producer_id, seq,
cause: one row per counted unit. No function knows what was predicted. The tables are those of `tables.py`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.verification.groups.tables import AT_COMMIT, AT_END, GROUP

NOBODY = ("cast(NULL AS int) AS producer_id", "cast(NULL AS bigint) AS seq")
NO_PLACE = ("cast(NULL AS int) AS partition", "cast(NULL AS bigint) AS offset")


def _named(rows: DataFrame, anomaly: GroupAnomaly, *columns: str) -> DataFrame:
    order = ("lane", "anomaly", "partition", "offset", "producer_id", "seq", "cause")
    return rows.selectExpr("judged AS lane", f"'{anomaly}' AS anomaly", *columns).select(*order)


def processed_twice(inputs: DataFrame) -> DataFrame:
    """In the output of a loop, two or more records that readers are given are of one input.

    An input that the source itself holds at several offsets has as many outputs. Records of aborted transactions do not
    count. `inputs`: INPUTS. Counted in identities of inputs; the row names the input, the cause its source.
    """
    found = inputs.where("outputs > greatest(places, 1)")
    cause = "format_string('input of lane %s, with %d outputs', source, outputs) AS cause"
    return _named(found, GroupAnomaly.PROCESSED_TWICE, *NO_PLACE, "producer_id", "seq", cause)


def not_processed(inputs: DataFrame) -> DataFrame:
    """An input of a loop has no output that readers are given, although the group's committed offset is past it.

    `inputs`: INPUTS. Inputs before the first offset that the group processed or committed in their partition do not
    count, nor do those at whose offset the group was given another record. Counted in identities of inputs; the row
    names the input, the cause its source.
    """
    found = inputs.where("outputs = 0 AND passed > 0")
    cause = "format_string('input of lane %s', source) AS cause"
    return _named(found, GroupAnomaly.NOT_PROCESSED, *NO_PLACE, "producer_id", "seq", cause)


def commit_lost(moments: DataFrame, commits: DataFrame) -> DataFrame:
    """A group went on behind an acknowledged commit.

    Of the last commit acknowledged before an assignment began, that assignment processed a lower offset; or the group's
    committed offset in the end lies below the last acknowledged commit. Not if another commit at or below what was seen
    may have taken effect later: one that was sent before, and was neither refused nor complete before the lost one was
    sent. Nor does an assignment count whose generation is older than that of the commit: its member is not in the group
    any more, and sets itself back. `moments`: as of `acknowledged_before`. Counted in commits; the row names the
    committed offset.
    """
    is_present = "NOT coalesce(generation < known_generation, false)"
    behind = moments.where(f"kind != {AT_COMMIT} AND offset < known_offset AND {is_present}").fillna("", ["consumer"])
    moment = (*GROUP, "kind", "offset", "consumer", "known_offset", "known_invoke_ns")
    others = commits.where("outcome != 'fail'").selectExpr(
        *GROUP, "offset AS other", "invoke_ns AS other_invoke_ns", "IF(outcome = 'ok', complete_ns, NULL) AS other_ns"
    )
    explained = (
        others.join(F.broadcast(behind), list(GROUP))
        .where(
            "other <= offset AND other_invoke_ns < at_ns AND (other_ns IS NULL OR other_ns > known_invoke_ns)"
            " AND NOT (other = known_offset AND other_invoke_ns = known_invoke_ns)"
        )
        .select(*moment)
        .distinct()
    )
    lost = behind.join(F.broadcast(explained), list(moment), "left_anti")
    seen = f"""CASE kind WHEN {AT_END} THEN format_string('in the end, %d is committed', offset)
        ELSE format_string('%s began at %d', consumer, offset) END"""
    commit = (*GROUP, "known_offset", "known_invoke_ns", "known_consumer")
    first = lost.selectExpr(*commit, f"{seen} AS seen").groupBy(*commit).agg(F.expr("min(seen) AS seen"))
    cause = "format_string('committed by %s; %s', known_consumer, seen) AS cause"
    return _named(first, GroupAnomaly.COMMIT_LOST, "partition", "known_offset AS offset", *NOBODY, cause)


def commit_regressed(moments: DataFrame) -> DataFrame:
    """A commit was acknowledged whose offset is lower than that of the last one acknowledged before it was sent.

    `moments`: as of `acknowledged_before`. Counted in commits; the row names the lower offset.
    """
    found = moments.where(f"kind = {AT_COMMIT} AND offset < known_offset")
    cause = "format_string('%s committed behind %d, by %s', consumer, known_offset, known_consumer) AS cause"
    return _named(found, GroupAnomaly.COMMIT_REGRESSED, "partition", "offset", *NOBODY, cause)


def skipped_after_rebalance(skipped: DataFrame) -> DataFrame:
    """A record of the log that no member of the group processed, although the group's committed offset is past it.

    The committed offset is the last one; without groups.json, the highest that was acknowledged. Records before the
    first offset that the group processed or committed in their partition do not count, nor do those at whose offset a
    member was given another record. `skipped`: the places of such records: judged, group, partition, offset,
    producer_id, seq. Counted in identities; the row names the lowest place.
    """
    first = skipped.groupBy("judged", "producer_id", "seq").agg(F.expr("min(struct(partition, offset, group)) AS at"))
    place = ("at.partition AS partition", "at.offset AS offset", "producer_id", "seq")
    cause = "format_string('group %s', at.group) AS cause"
    return _named(first, GroupAnomaly.SKIPPED_AFTER_REBALANCE, *place, cause)


def owned_twice(owned: DataFrame) -> DataFrame:
    """Two members of one generation processed records of one partition side by side: neither began after the other had
    processed its last.

    `owned`: `assigned` with the spans of what was processed. Counted in pairs of assignments; the row names the first
    offset of the one that began later.
    """
    columns = ("consumer", "member", "start_ns", "lowest", "first_ns", "last_ns")
    known = owned.where("generation IS NOT NULL").select(*GROUP, "generation", *columns)
    other = known.selectExpr(*GROUP, "generation", *(f"{name} AS other_{name}" for name in columns))
    pairs = known.join(other, [*GROUP, "generation"]).where(
        "member != other_member AND struct(start_ns, consumer) < struct(other_start_ns, other_consumer)"
        " AND first_ns <= other_last_ns AND other_first_ns <= last_ns"
    )
    cause = "format_string('%s and %s in generation %d', consumer, other_consumer, generation) AS cause"
    return _named(pairs, GroupAnomaly.OWNED_TWICE, "partition", "other_lowest AS offset", *NOBODY, cause)
