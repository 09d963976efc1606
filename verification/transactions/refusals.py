"""Errors for rows of transactions/, assignments/ and replicas/ that break the contract.

Guarantee: each error is a `RunDirectoryError` that names the file and what was expected. The file is searched for only
after an error was found.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.contract.transactions import ISOLATION_LEVELS, RECORD_KINDS, TRANSACTION_OUTCOMES
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.refusals import place_of, refuse_partition, refuse_stray_lane

_EXPECTED = {
    "transactions": ("outcome", TRANSACTION_OUTCOMES),
    "assignments": ("isolation", ISOLATION_LEVELS),
    "replicas": ("kind", RECORD_KINDS),
}


def refuse_stray_values(run: RunDirectory, frames: Frames) -> None:
    """Refuse unknown lanes, partitions, outcomes, isolation levels and kinds, and a transaction that is there twice."""
    tables = frames.tables()
    counts = [_counts(name, tables[name]) for name in _EXPECTED if name in tables and name != "replicas"]
    if frames.replica_sums is not None:
        counts.append(_of_replicas(frames.replica_sums))
    known = {lane.lane: lane.partitions for lane in run.lanes}
    for row in reduce(DataFrame.union, counts).collect():
        if row.lane not in known:
            refuse_stray_lane(run, frames, list(known))
        for partition in (row.lowest, row.highest):
            if partition is not None and not 0 <= partition < known[row.lane]:
                refuse_partition(run, frames, row.lane, partition)
        if row.bad:
            _refuse_value(run, row.name, tables[row.name])
        if row.again:
            _refuse_repeated(run, tables[row.name])


def _counts(name: str, table: DataFrame) -> DataFrame:
    """By lane: the range of partitions, values that are not expected, and transactions that are there again."""
    column, expected = _EXPECTED[name]
    values = ", ".join(f"'{value}'" for value in expected)
    has_partitions = "partition" in table.columns
    columns = {
        "name": f"'{name}'",
        "lowest": "min(partition)" if has_partitions else "cast(NULL AS int)",
        "highest": "max(partition)" if has_partitions else "cast(NULL AS int)",
        "bad": f"count_if({column} NOT IN ({values}))",
        "again": "count(1) - count(DISTINCT producer_id, transaction)" if name == "transactions" else "0L",
    }
    return table.groupBy("lane").agg(*(F.expr(f"{text} AS {column}") for column, text in columns.items()))


def _of_replicas(sums: DataFrame) -> DataFrame:
    """The same of replicas/, from what is known of it by blocks."""
    columns = {
        "name": "'replicas'",
        "lowest": "min(partition)",
        "highest": "max(partition)",
        "bad": "sum(bad)",
        "again": "0L",
    }
    return sums.groupBy("lane").agg(*(F.expr(f"{text} AS {column}") for column, text in columns.items()))


def _refuse_value(run: RunDirectory, name: str, table: DataFrame) -> None:
    column, expected = _EXPECTED[name]
    bad = ~F.col(column).isin(*expected)
    row = table.where(bad).select(column).limit(1).collect()[0]
    problem = f"{row[0]!r}, expected one of {', '.join(expected)}"
    raise RunDirectoryError(place_of(run, name, table, bad), problem, column=column)


def _refuse_repeated(run: RunDirectory, table: DataFrame) -> None:
    again = table.groupBy("lane", "producer_id", "transaction").count().where("count > 1")
    row = again.limit(1).collect()[0]
    problem = f"lane {row.lane!r}, producer_id {row.producer_id}, transaction {row.transaction} occurs twice"
    raise RunDirectoryError(run.place("transactions"), problem, column="transaction")
