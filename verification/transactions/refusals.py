"""Errors for rows of transactions/, assignments/ and replicas/ that break the contract.

Guarantee: each error is a `RunDirectoryError` that names the file and what was expected.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import functions as F

from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.contract.transactions import ISOLATION_LEVELS, RECORD_KINDS, TRANSACTION_OUTCOMES
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.refusals import place_of, refuse_partition, refuse_stray_lane

_EXPECTED = {
    ("transactions", "outcome"): TRANSACTION_OUTCOMES,
    ("assignments", "isolation"): ISOLATION_LEVELS,
    ("replicas", "kind"): RECORD_KINDS,
}


def refuse_stray_values(run: RunDirectory, frames: Frames) -> None:
    """Refuse unknown lanes, partitions, outcomes, isolation levels and kinds, and a transaction that is there twice."""
    known = {lane.lane: lane.partitions for lane in run.lanes}
    assert frames.transactions is not None
    assert frames.assignments is not None
    lanes = frames.transactions.select("lane").union(frames.assignments.select("lane")).distinct().collect()
    if any(row.lane not in known for row in lanes):
        refuse_stray_lane(run, frames, list(known))
    for row in frames.assignments.groupBy("lane").agg(F.min("partition"), F.max("partition")).collect():
        for partition in row[1:]:
            if not 0 <= partition < known[row.lane]:
                refuse_partition(run, frames, row.lane, partition)
    for (table, column), expected in _EXPECTED.items():
        _refuse_other_values(run, frames, table, column, expected)
    same = ("lane", "producer_id", "transaction")
    twice = frames.transactions.groupBy(*same).count().where("count > 1").limit(1).collect()
    if twice:
        row = twice[0]
        problem = f"lane {row.lane!r}, producer_id {row.producer_id}, transaction {row.transaction} occurs twice"
        raise RunDirectoryError(run.place("transactions"), problem, column="transaction")


def _refuse_other_values(run: RunDirectory, frames: Frames, table: str, column: str, expected: Collection[str]) -> None:
    rows = frames.tables().get(table)
    if rows is None:
        return
    bad = ~F.col(column).isin(*expected)
    for row in rows.where(bad).select(column).limit(1).collect():
        problem = f"{row[0]!r}, expected one of {', '.join(expected)}"
        raise RunDirectoryError(place_of(run, table, rows, bad), problem, column=column)
