"""From the tables of a run directory to the two tables that the anomalies are judged on.

Guarantee: `sightings` loses no place where a record was shown and `records` no identity that was produced;
both hold for any subset of identities, as long as all rows of each identity are in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructType

from kafka_chaos.verification.schemas import IDENTITY, OUTCOME_CODES, POSITION, RECORDS, SIGHTINGS

OK, FAIL, INFO = (OUTCOME_CODES[name] for name in ("ok", "fail", "info"))

UNDECODABLE = -1

_ARROW = {StringType: pa.string(), IntegerType: pa.int32(), LongType: pa.int64(), BooleanType: pa.bool_()}


def local_frame(spark: SparkSession, schema: StructType, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """A small table from the driver, as a local relation: no job, no Python worker."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.fields)
    arrays = [
        pa.array(list(column), type=_ARROW[type(field.dataType)])
        for field, column in zip(schema.fields, columns, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, names=[field.name for field in schema.fields])
    return spark.createDataFrame(table, schema=schema)


def is_decodable() -> Column:
    """Whether a row's identity could be decoded at all; what can't be is (−1, −1)."""
    return ~((F.col("producer_id") == UNDECODABLE) & (F.col("seq") == UNDECODABLE))


def outcome_code() -> Column:
    """The column `outcome` as its code; null for anything that is no outcome."""
    code = F.lit(None).cast("int")
    # Most are ok: what is asked last here is asked first of a row.
    for name, value in sorted(OUTCOME_CODES.items(), key=lambda item: -item[1]):
        code = F.when(F.col("outcome") == name, F.lit(value)).otherwise(code)
    return code


def sightings(produced: DataFrame, consumed: DataFrame, log: DataFrame | None, ends: DataFrame) -> DataFrame:
    """PRODUCED, CONSUMED, LOG and ENDS to SIGHTINGS: one exchange, by identity.

    What can't be decoded, (−1, −1), counts as never produced.
    """
    shown = [_produced_rows(produced), _rows(consumed, read=True, in_log=log is None)]
    if log is not None:
        shown.append(_rows(log, read=False, in_log=True))
    rows = shown[0]
    for more in shown[1:]:
        rows = rows.unionByName(more)
    if log is None:
        rows = rows.withColumn("in_log", F.col("in_log") | F.col("acknowledged"))
    identity = Window.partitionBy(*IDENTITY)
    placed = (
        rows.repartition(*IDENTITY)
        .groupBy(*IDENTITY, "partition", "offset")
        .agg(
            F.max("outcome").alias("outcome"),
            F.sum("copies").alias("copies"),
            *(F.max(flag).alias(flag) for flag in ("acknowledged", "claimed", "read", "in_log")),
        )
        .withColumn("outcome", F.when(is_decodable(), F.max("outcome").over(identity)))
        .withColumn("copies", F.sum("copies").over(identity))
        .withColumn("surfaced", F.max(F.col("read") | F.col("in_log")).over(identity))
    )
    known = F.broadcast(ends.select("lane", "partition", "read_end", "end_reached"))
    return (
        placed.join(known, ["lane", "partition"], "left")
        .withColumn("end_reached", F.coalesce("end_reached", F.lit(False)))
        .withColumn("passed", F.coalesce(F.col("offset") <= F.col("read_end"), F.lit(False)))
        .select(*SIGHTINGS.names)
    )


def _produced_rows(produced: DataFrame) -> DataFrame:
    code = outcome_code()
    placed = F.col("partition").isNotNull() & F.col("offset").isNotNull() & (code != FAIL)
    return produced.select(
        *IDENTITY,
        F.when(placed, F.col("partition")).alias("partition"),
        F.when(placed, F.col("offset")).alias("offset"),
        code.alias("outcome"),
        F.lit(1).alias("copies"),
        (placed & (code == OK)).alias("acknowledged"),
        (placed & (code == INFO)).alias("claimed"),
        F.lit(False).alias("read"),
        F.lit(False).alias("in_log"),
    )


def _rows(table: DataFrame, *, read: bool, in_log: bool) -> DataFrame:
    return table.select(
        *IDENTITY,
        "partition",
        "offset",
        F.lit(None).cast("int").alias("outcome"),
        F.lit(0).alias("copies"),
        F.lit(False).alias("acknowledged"),
        F.lit(False).alias("claimed"),
        F.lit(read).alias("read"),
        F.lit(in_log).alias("in_log"),
    )


def records(seen: DataFrame) -> DataFrame:
    """SIGHTINGS to RECORDS: one row per produced identity, without a further exchange."""
    place = F.struct("partition", "offset")
    in_log = F.when(F.col("in_log"), place)
    return (
        seen.where(F.col("outcome").isNotNull())
        .groupBy(*IDENTITY)
        .agg(
            F.max("outcome").alias("outcome"),
            F.max(F.when(F.col("acknowledged"), place)).alias("acknowledged_at"),
            F.max(F.col("acknowledged") & F.col("in_log")).alias("acknowledged_stored"),
            F.max(F.col("acknowledged") & F.col("passed")).alias("acknowledged_passed"),
            F.min(F.when(F.col("read"), place)).alias("first_read"),
            F.min(in_log).alias("first_in_log"),
            F.max(in_log).alias("last_in_log"),
            F.min(F.when(F.col("in_log") & F.col("end_reached"), place)).alias("due_at"),
        )
        .select(*RECORDS.names)
    )


def phantoms(seen: DataFrame) -> DataFrame:
    """The identities in SIGHTINGS that were never produced."""
    return seen.where(F.col("outcome").isNull()).select(*IDENTITY).distinct()


def genuine(table: DataFrame, unknown: DataFrame) -> DataFrame:
    """The rows of CONSUMED or LOG whose record was produced: a phantom is a case of nothing else."""
    return table.join(unknown, list(IDENTITY), "left_anti")


def places_in_log(seen: DataFrame) -> DataFrame:
    """SIGHTINGS to the places of produced records in the log."""
    return seen.where(F.col("outcome").isNotNull() & F.col("in_log")).select(*POSITION, "producer_id", "seq")


def is_shown() -> Column:
    """Whether a row of SIGHTINGS shows a produced record at its place.

    The place that an `info` names counts only once its record was read or is in the log.
    """
    counts = F.col("acknowledged") | F.col("read") | F.col("in_log") | (F.col("claimed") & F.col("surfaced"))
    return F.col("outcome").isNotNull() & F.col("offset").isNotNull() & counts


def places_shown(seen: DataFrame) -> DataFrame:
    """SIGHTINGS to the places of produced records in acknowledgements, reads and log (`is_shown`)."""
    return seen.where(is_shown()).select(*POSITION, "producer_id", "seq")


def single_runs(log: DataFrame) -> DataFrame:
    """LOG as runs of offsets, each of one: lane, partition, first, last."""
    return log.select("lane", "partition", F.col("offset").alias("first"), F.col("offset").alias("last"))
