"""Gives every lost, moved, duplicated or overtaken record its cause, joined by partition, offset and time.

Guarantee: the cause begins with one of the names in `contract.families`. The events' side of the join is small and
broadcast; findings never leave Spark.
"""

import dataclasses
import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.families import REPEATED, Cause
from kafka_chaos.verification.judging.causes import PartitionCauses
from kafka_chaos.verification.schemas import CASES, IDENTITY, schema
from kafka_chaos.verification.tables.history import local_frame
from kafka_chaos.verification.tables.scope import keys

_KINDS = ("drops", "sends", "retries")
_TIMES = "since_ns: bigint, until_ns: bigint, within_ns: bigint"
_ENTRIES = f"array<struct<first: bigint, `end`: bigint, {_TIMES}, cause: string>>"
_ROWS = schema("of_lane string, of_partition int32, of_kind string, entries string")
_UNKNOWN_PARTITION = -1

_IS_DUPLICATE = f"anomaly = '{Anomaly.DUPLICATE}'"
_IS_REPEATED = f"anomaly IN ({', '.join(map(repr, map(str, REPEATED)))})"
_KIND = f"CASE WHEN {_IS_REPEATED} THEN 'retries' WHEN offset IS NULL THEN 'sends' ELSE 'drops' END"
# What a record was truncated or overtaken by came after its acknowledgement; after its sending, if there is none.
# Which of two records at one offset is the older one is not known: anything that dropped the offset may explain them.
_KNOWN_NS = f"IF(anomaly = '{Anomaly.INCONSISTENT_OFFSET}', 0, IF(outcome = 'ok', complete_ns, invoke_ns))"
_BEGUN_NS = f"CASE of_kind WHEN 'drops' THEN {_KNOWN_NS} ELSE invoke_ns END"
_ENDED_NS = f"CASE of_kind WHEN 'drops' THEN {_KNOWN_NS} WHEN 'sends' THEN invoke_ns ELSE complete_ns END"
_COVERS = " AND ".join(
    f"(x.{limit} IS NULL OR {holds})"
    for limit, holds in {
        "first": "offset >= x.first",
        "end": "offset < x.end",
        "until_ns": "begun_ns <= x.until_ns",
        "within_ns": "ended_ns - begun_ns < x.within_ns",
        # Only a retry may still have been under way at the end of the run.
        "since_ns": "coalesce(ended_ns >= x.since_ns, of_kind = 'retries')",
    }.items()
)


def explained(
    spark: SparkSession,
    cases: DataFrame,
    produced: DataFrame,
    causes: Sequence[PartitionCauses],
    *,
    replicas: DataFrame | None,
    few: bool,
    small: bool,
) -> DataFrame:
    """CASES of lost, moved, duplicated and overtaken records (`contract.families.CAUSED`), each with its cause.

    `replicas`: those of idempotent producers that show duplicates. `few`, `small`: see `scope.keys`.
    """
    found = cases.withColumns({"found": F.lit(None).cast("string"), "renewed": F.lit(None).cast("string")})
    if causes:
        found = _with_explanation(spark, cases, produced, causes, few=few, small=small)
    if replicas is not None:
        renewed = _renewed(replicas, cases.where(_IS_DUPLICATE), few=few, small=small)
        found = found.drop("renewed").join(keys(renewed, few=few, small=small), list(IDENTITY), "left")
    named = f"coalesce(IF({_IS_DUPLICATE}, renewed, NULL), found, '{Cause.UNOBSERVED}')"
    text = f"IF(cause IS NULL, {named}, concat({named}, IF(instr({named}, ':') > 0, '; ', ': '), cause)) AS cause"
    return found.selectExpr(*(text if name == "cause" else name for name in CASES.names))


def _with_explanation(
    spark: SparkSession,
    cases: DataFrame,
    produced: DataFrame,
    causes: Sequence[PartitionCauses],
    *,
    few: bool,
    small: bool,
) -> DataFrame:
    """CASES with `found`, the first explanation of its partition that covers it, and no `renewed`."""
    sent = produced.select(*IDENTITY, F.col("partition").alias("sent_to"), "invoke_ns", "complete_ns", "outcome")
    # No case is lost by this: each of these records was produced, once.
    placed = sent.join(keys(cases, few=few, small=small), list(IDENTITY)).selectExpr("*", f"{_KIND} AS kind")
    place = f"coalesce(partition, sent_to, {_UNKNOWN_PARTITION}) = of_partition"
    at = F.expr(f"lane = of_lane AND {place} AND kind = of_kind")
    timed = placed.join(F.broadcast(_frame(spark, causes)), at, "left").selectExpr(
        *CASES.names, "entries", "of_kind", f"{_BEGUN_NS} AS begun_ns", f"{_ENDED_NS} AS ended_ns"
    )
    found = f"get(filter(entries, x -> {_COVERS}), 0).cause AS found"
    return timed.selectExpr(*CASES.names, found, "cast(NULL AS string) AS renewed")


def _renewed(replicas: DataFrame, concerned: DataFrame, *, few: bool, small: bool) -> DataFrame:
    """The records whose copies carry different producer epochs: IDENTITY, renewed (the cause)."""
    wanted = keys(concerned.select(*IDENTITY), few=few, small=small)
    copies = replicas.where("producer_epoch >= 0").join(wanted, list(IDENTITY), "left_semi")
    epochs = copies.groupBy(*IDENTITY).agg(F.min("producer_epoch").alias("low"), F.max("producer_epoch").alias("high"))
    cause = f"format_string('{Cause.PRODUCER_EPOCH}: sent in producer epochs %d and %d', low, high) AS renewed"
    return epochs.where("low < high").selectExpr(*IDENTITY, cause)


def _frame(spark: SparkSession, causes: Sequence[PartitionCauses]) -> DataFrame:
    """The explanations as one row per partition and kind, as an array."""
    rows = [
        (
            one.lane,
            _UNKNOWN_PARTITION if one.partition is None else one.partition,
            kind,
            json.dumps([dataclasses.asdict(entry) for entry in getattr(one, kind)]),
        )
        for one in causes
        for kind in _KINDS
    ]
    entries = f"from_json(entries, '{_ENTRIES}') AS entries"
    return local_frame(spark, _ROWS, rows).selectExpr("of_lane", "of_partition", "of_kind", entries)
