"""Turns the tables of a run directory into the two tables that anomalies are judged on.

Guarantee: `occurrences` has every place where a record was sent, read or stored, and `records` every identity that was
produced. Both hold for any subset of identities, if it has all rows of each identity.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructType

from kafka_chaos.verification.schemas import IDENTITY, OCCURRENCES, OUTCOME_CODES, POSITION, RECORDS

OK, FAIL, INFO = (OUTCOME_CODES[name] for name in ("ok", "fail", "info"))

SENT, READ, STORED = range(3)
"""Where a row comes from: produced/, consumed/, the log."""

UNDECODABLE = -1

# Many columns are SQL text: building them one by one from Python took longer than the jobs of a small run.
_CODES = " ".join(f"WHEN '{name}' THEN {code}" for name, code in OUTCOME_CODES.items())
OUTCOME_CODE = f"CASE outcome {_CODES} END"
"""The column `outcome` as its code; null for anything else."""

_ARROW = {StringType: pa.string(), IntegerType: pa.int32(), LongType: pa.int64(), BooleanType: pa.bool_()}


def local_frame(spark: SparkSession, schema: StructType, rows: Iterable[Sequence[Any]]) -> DataFrame:
    """A small table from the driver, as a local relation: no job, no Python worker."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.fields)
    arrays = [
        pa.array(list(column), type=_ARROW[type(field.dataType)])
        for field, column in zip(schema.fields, columns, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, names=[field.name for field in schema.fields])
    if int(spark.version.partition(".")[0]) >= 4:
        return spark.createDataFrame(table, schema=schema)
    # Spark 3.5 takes no Arrow table.
    content = F.lit(json.dumps(table.to_pylist()))
    return spark.range(1).select(F.inline(F.from_json(content, ArrayType(schema))))


def numbers(table: DataFrame, *columns: str) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Columns of whole numbers without nulls, brought to the driver."""
    wanted = table.selectExpr(*(f"cast({column} AS bigint) AS {column}" for column in columns))
    if int(table.sparkSession.version.partition(".")[0]) >= 4:
        arrow = wanted.toArrow()
        return [arrow[column].to_numpy() for column in columns]
    # Spark 3.5 gives no Arrow table.
    rows = np.array(wanted.collect(), dtype=np.int64).reshape(-1, len(columns))
    return list(rows.T)


def gathered(table: DataFrame, *, small: bool) -> DataFrame:
    """`table`; for a small run in one partition, so that later steps need no exchange and only one task."""
    return table.coalesce(1) if small else table


def occurrences(
    produced: DataFrame, consumed: DataFrame, log: DataFrame | None, ends: DataFrame, *, small: bool = False
) -> DataFrame:
    """PRODUCED, CONSUMED, LOG and ENDS to OCCURRENCES: one exchange, by identity; none in a `small` run (`gathered`).

    A record that can't be decoded, (−1, −1), counts as never produced.
    """
    place = (*IDENTITY, "partition", "offset")
    rows = produced.selectExpr(*place, f"{OUTCOME_CODE} AS outcome", f"{SENT} AS source")
    rows = rows.union(consumed.selectExpr(*place, "cast(NULL AS int)", f"{READ}"))
    if log is not None:
        rows = rows.union(log.selectExpr(*place, "cast(NULL AS int)", f"{STORED}"))
    return marked_occurrences(rows, ends, final_log=log is not None, small=small)


def marked_occurrences(
    rows: DataFrame, ends: DataFrame, *, final_log: bool, small: bool = False, together: Sequence[str] = ()
) -> DataFrame:
    """The same from one table of all rows: IDENTITY, partition, offset, outcome (a code), source.

    `small`: gathered in one partition instead of exchanged by identity. `together`: other columns of `rows` by which
    they are partitioned already, so that all rows of an identity are in one partition; the result keeps them.
    """
    sent, has_place = f"source = {SENT}", "partition IS NOT NULL AND offset IS NOT NULL"
    counts = f"({sent} AND outcome != {FAIL} AND {has_place})"
    shown = f"(source != {SENT} OR {counts})"
    in_log = f"source = {STORED}" if final_log else f"source = {READ} OR ({counts} AND outcome = {OK})"
    flags = {
        "acknowledged": f"{counts} AND outcome = {OK}",
        "claimed": f"{counts} AND outcome = {INFO}",
        "read": f"source = {READ}",
        "in_log": in_log,
    }
    keys = (*together, *IDENTITY)
    flagged = rows.selectExpr(
        *keys,
        f"IF({shown}, partition, NULL) AS partition",
        f"IF({shown}, offset, NULL) AS offset",
        "outcome",
        f"IF({sent}, 1, 0) AS copies",
        f"IF(source = {STORED}, 1, 0) AS stored_copies",
        *(f"coalesce({condition}, false) AS {name}" for name, condition in flags.items()),
    )
    if not together:
        flagged = gathered(flagged, small=True) if small else flagged.repartition(*IDENTITY)
    placed = flagged.groupBy(*keys, "partition", "offset").agg(
        F.expr("max(outcome) AS outcome"),
        F.expr("sum(copies) AS copies"),
        F.expr("sum(stored_copies) AS stored_copies"),
        *(F.expr(f"max({flag}) AS {flag}") for flag in flags),
    )
    identity = f"OVER (PARTITION BY {', '.join(keys)})"
    is_decodable = f"NOT (producer_id = {UNDECODABLE} AND seq = {UNDECODABLE})"
    whole = placed.selectExpr(
        *keys,
        "partition",
        "offset",
        "stored_copies",
        *flags,
        f"IF({is_decodable}, max(outcome) {identity}, NULL) AS outcome",
        f"sum(copies) {identity} AS copies",
        f"max(read OR in_log) {identity} AS surfaced",
    )
    known = F.broadcast(ends.select("lane", "partition", "read_end", "end_reached"))
    joined = whole.join(known, ["lane", "partition"], "left")
    late = {"end_reached": "coalesce(end_reached, false)", "passed": "coalesce(offset <= read_end, false)"}
    return joined.selectExpr(*together, *(f"{late.get(name, name)} AS {name}" for name in OCCURRENCES.names))


def records(seen: DataFrame, *, together: Sequence[str] = ()) -> DataFrame:
    """OCCURRENCES to RECORDS: one row per produced identity, without a further exchange.

    `together`: as for `marked_occurrences`.
    """

    def place(best: str, condition: str) -> str:
        return f"{best}(IF({condition}, struct(partition, offset), NULL))"

    columns = {
        "outcome": "max(outcome)",
        "acknowledged_at": place("max", "acknowledged"),
        "acknowledged_stored": "max(acknowledged AND in_log)",
        "acknowledged_passed": "max(acknowledged AND passed)",
        "first_read": place("min", "read"),
        "first_in_log": place("min", "in_log"),
        "last_in_log": place("max", "in_log"),
        "due_at": place("min", "in_log AND end_reached"),
    }
    produced = seen.where("outcome IS NOT NULL").groupBy(*together, *IDENTITY)
    return produced.agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items())).select(*RECORDS.names)


def phantoms(seen: DataFrame) -> DataFrame:
    """The identities in OCCURRENCES that were never produced."""
    return seen.where("outcome IS NULL").select(*IDENTITY).distinct()


def genuine(table: DataFrame, unknown: DataFrame) -> DataFrame:
    """The rows of CONSUMED or LOG whose record was produced: a phantom counts as no other anomaly."""
    return table.join(unknown, list(IDENTITY), "left_anti")


def places_in_log(seen: DataFrame) -> DataFrame:
    """OCCURRENCES to the places of produced records in the log."""
    return seen.where("outcome IS NOT NULL AND in_log").select(*POSITION, "producer_id", "seq")


SHOWN = "(outcome IS NOT NULL AND offset IS NOT NULL AND (acknowledged OR read OR in_log OR (claimed AND surfaced)))"
"""Whether a row of OCCURRENCES shows a produced record at its place.

The place that an `info` names counts only once its record was read or is in the log.
"""


def places_shown(seen: DataFrame) -> DataFrame:
    """OCCURRENCES to the places of produced records in acknowledgements, reads and log (`SHOWN`)."""
    return seen.where(SHOWN).select(*POSITION, "producer_id", "seq")


def single_runs(log: DataFrame) -> DataFrame:
    """LOG as ranges of a single offset: lane, partition, first, last."""
    return log.selectExpr("lane", "partition", "offset AS first", "offset AS last")


def joined_runs(runs: DataFrame, words: DataFrame | None = None, *, all_single: bool = False) -> DataFrame:
    """Ranges of offsets, in which those of a single offset are joined if they fill what they span of 64 neighbours.

    `words`: more offsets, by 64 neighbours: lane, partition, first and last offset, bits. `all_single`: all `runs` are
    of a single offset.
    """
    columns = ("lane", "partition", "first", "last")
    single = runs.where("first = last").selectExpr(*columns, "shiftleft(1L, cast(first & 63 AS int)) AS bits")
    if words is not None:
        single = single.union(words.select(*columns, "bits"))
    held = single.groupBy("lane", "partition", F.expr("shiftright(first, 6) AS block"))
    blocks = held.agg(F.expr("min(first) AS first"), F.expr("max(last) AS last"), F.expr("bit_or(bits) AS bits"))
    whole = "bit_count(bits) = last - first + 1"
    each = blocks.where(f"NOT ({whole})").selectExpr("*", "explode(sequence(0, 63)) AS at")
    alone = each.where("(shiftright(bits, at) & 1) = 1").selectExpr(
        "lane", "partition", "shiftleft(block, 6) + at AS first", "shiftleft(block, 6) + at AS last"
    )
    joined = blocks.where(whole).select(*columns).union(alone)
    return joined if all_single else joined.union(runs.where("first != last").select(*columns))
