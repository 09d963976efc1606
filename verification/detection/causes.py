"""Gives every lost or duplicated record its cause, joined by partition, offset and time.

Guarantee: the cause begins with one of the names in `contract.causes`. The events' side of the join is small and
broadcast; findings never leave Spark.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.causes import CAUSED, LOST, Cause
from kafka_chaos.verification.judging.causes import PartitionCauses
from kafka_chaos.verification.schemas import CASES, IDENTITY
from kafka_chaos.verification.tables.history import local_frame

_DROPS = "array<struct<first: bigint, `end`: bigint, at_ns: bigint, cause: string>>"
_SPANS = "array<struct<since_ns: bigint, until_ns: bigint, cause: string>>"
_LISTS = {"drops": _DROPS, "sends": _SPANS, "retries": _SPANS, "owners": _DROPS}
_ROWS = StructType(
    [
        StructField("of_lane", StringType()),
        StructField("of_partition", IntegerType()),
        *(StructField(name, StringType()) for name in _LISTS),
    ]
)
_UNKNOWN_PARTITION = -1
_FOREVER = f"{2**63 - 1}L"

_OF_LOST = ", ".join(f"'{anomaly.value}'" for anomaly in LOST)
_OF_CAUSED = ", ".join(f"'{anomaly.value}'" for anomaly in CAUSED)
_IN_DROP = "offset >= x.first AND (x.end IS NULL OR offset < x.end)"
_CAUSES = {
    # What a record was truncated or overtaken by came after its acknowledgement; after its sending, if there is none.
    "dropped": f"get(filter(drops, x -> {_IN_DROP} AND known_ns <= x.at_ns), 0).cause",
    "sent": f"get(filter(sends, x -> invoke_ns BETWEEN x.since_ns AND coalesce(x.until_ns, {_FOREVER})), 0).cause",
    "again": "get(filter(retries, x -> "
    f"invoke_ns <= coalesce(x.until_ns, {_FOREVER}) AND coalesce(complete_ns, {_FOREVER}) >= x.since_ns), 0).cause",
    "owner": f"get(filter(owners, x -> {_IN_DROP}), 0).cause",
}


def unexplained(cases: DataFrame) -> DataFrame:
    """CASES without anything that could explain them."""
    return _with_cause(cases, f"'{Cause.UNEXPLAINED}'", "NULL")


def explained(
    spark: SparkSession,
    cases: DataFrame,
    produced: DataFrame,
    causes: Sequence[PartitionCauses],
    *,
    few: bool,
    replicas: DataFrame | None = None,
) -> DataFrame:
    """CASES in which every lost or duplicated record has its cause.

    `few`: the records concerned can be broadcast; then `produced` is not exchanged. `replicas`: those of idempotent
    producers that show duplicates.
    """
    concerned = cases.where(f"anomaly IN ({_OF_CAUSED})").select(*IDENTITY)
    sent = produced.join(F.broadcast(concerned) if few else concerned, list(IDENTITY), "left_semi").selectExpr(
        *IDENTITY,
        "partition AS sent_to",
        "invoke_ns",
        "complete_ns",
        "outcome",
        "IF(outcome = 'ok', complete_ns, invoke_ns) AS known_ns",
    )
    placed = cases.join(F.broadcast(sent) if few else sent, list(IDENTITY), "left")
    at = f"lane = of_lane AND coalesce(partition, sent_to, {_UNKNOWN_PARTITION}) = of_partition"
    joined = placed.join(F.broadcast(_frame(spark, causes)), F.expr(at), "left")
    epochs = "NULL AS renewed"
    if replicas is not None:
        renewed = _renewed(replicas, concerned, few=few)
        joined = joined.join(F.broadcast(renewed) if few else renewed, list(IDENTITY), "left")
        epochs = "renewed"
    found = joined.selectExpr(*CASES.names, *(f"{text} AS {name}" for name, text in _CAUSES.items()), epochs)
    shown = f"IF(anomaly IN ({_OF_LOST}), IF(offset IS NULL, sent, dropped), coalesce(renewed, again))"
    return _with_cause(found, f"coalesce({shown}, '{Cause.UNEXPLAINED}')", "IF(dropped IS NULL, owner, NULL)")


def _renewed(replicas: DataFrame, concerned: DataFrame, *, few: bool) -> DataFrame:
    """The records whose copies carry different producer epochs: IDENTITY, renewed (the cause)."""
    copies = replicas.where("producer_epoch >= 0").join(
        F.broadcast(concerned) if few else concerned, list(IDENTITY), "left_semi"
    )
    epochs = copies.groupBy(*IDENTITY).agg(F.min("producer_epoch").alias("low"), F.max("producer_epoch").alias("high"))
    cause = f"format_string('{Cause.PRODUCER_EPOCH}: sent in producer epochs %d and %d', low, high) AS renewed"
    return epochs.where("low < high").selectExpr(*IDENTITY, cause)


def counts(caused: DataFrame) -> dict[tuple[str, Anomaly], dict[str, int]]:
    """By lane and anomaly: how many cases have which of the named causes."""
    named = F.substring_index("cause", ":", 1).alias("named")
    rows = caused.where(f"anomaly IN ({_OF_CAUSED})").groupBy("lane", "anomaly", named).agg(F.sum("units").alias("n"))
    found: dict[tuple[str, Anomaly], dict[str, int]] = {}
    for row in rows.collect():
        found.setdefault((row.lane, Anomaly(row.anomaly)), {})[row.named] = row.n
    return found


def _with_cause(cases: DataFrame, cause: str, lost_detail: str) -> DataFrame:
    """CASES with this cause, where there is one to give; the anomaly's own remarks, or `lost_detail`, follow it."""
    detail = f"coalesce(cause, IF(anomaly IN ({_OF_LOST}), {lost_detail}, NULL))"
    text = f"concat_ws(IF(instr({cause}, ':') > 0, '; ', ': '), {cause}, {detail})"
    caused = f"IF(anomaly IN ({_OF_CAUSED}), {text}, cause) AS cause"
    return cases.selectExpr(*(caused if name == "cause" else name for name in CASES.names))


def _frame(spark: SparkSession, causes: Sequence[PartitionCauses]) -> DataFrame:
    """The explanations as one row per partition, each list as an array."""

    def text(found: Sequence[object]) -> str:
        return json.dumps([dataclasses.asdict(one) for one in found])  # type: ignore[call-overload]

    rows = [
        (
            one.lane,
            _UNKNOWN_PARTITION if one.partition is None else one.partition,
            *(text(getattr(one, name)) for name in _LISTS),
        )
        for one in causes
    ]
    arrays = (f"from_json({name}, '{kind}') AS {name}" for name, kind in _LISTS.items())
    return local_frame(spark, _ROWS, rows).selectExpr("of_lane", "of_partition", *arrays)
