"""Planted tables of transactions and groups, and their series, for the report's tests."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import FINDINGS, TABLES, arrow_schema
from kafka_chaos.harness.report.inputs.groups import GroupOverTime, Holding, SimilarCommits
from kafka_chaos.harness.report.inputs.transactions import Bar, Incarnation, TransactionalId

S = 1_000_000_000


def table(path: Path, name: str, rows: Sequence[dict[str, Any]], *, without: Sequence[str] = ()) -> Path:
    """One more Parquet file of a table; columns that a row lacks are null, those in `without` are missing."""
    folder = path / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{len(list(folder.iterdir())):05}.parquet"
    schema = arrow_schema({**TABLES, "findings": FINDINGS}[name], without=without)
    filled = [{column: row.get(column) for column in schema.names} for row in rows]
    pq.write_table(pa.Table.from_pylist(filled, schema=schema), file)
    return file


def transaction(
    number: int, begin: float, end: float | None, outcome: str = "committed", **values: Any
) -> dict[str, Any]:
    """A row of transactions/ of the lane `orders`; times in seconds."""
    return {
        "lane": "orders", "producer_id": 0, "transaction": number, "transactional_id": "orders-0",
        "begin_ns": round(begin * S), "end_ns": None if end is None else round(end * S), "outcome": outcome, **values,
    }  # fmt: skip


def held(number: str, partition: int, start: float, end: float | None, **values: Any) -> dict[str, Any]:
    """A row of assignments/ of the group `orders-group`."""
    return {
        "lane": "orders", "group": "orders-group", "consumer": f"orders-group-{number}-1",
        "member": f"rdkafka-{number}", "generation": 1, "partition": partition, "isolation": "read_committed",
        "start_ns": round(start * S), "end_ns": None if end is None else round(end * S), **values,
    }  # fmt: skip


def commit(partition: int, offset: int, at: float, outcome: str = "ok", **values: Any) -> dict[str, Any]:
    """A row of commits/ of the group `orders-group`."""
    return {
        "lane": "orders", "group": "orders-group", "consumer": "orders-group-0-1", "partition": partition,
        "offset": offset, "invoke_ns": round(at * S), "complete_ns": round(at * S) + 1000, "outcome": outcome, **values,
    }  # fmt: skip


def transactional_id(name: str) -> TransactionalId:
    """Transactions from second 1 to 11, some of them aborted, one in doubt since its producer was fenced."""
    step = S // 2
    made = [
        Bar(S + index * step, S + index * step + step // 2, "aborted" if index % 5 == 4 else "committed",
            count=1 + index % 2)
        for index in range(20)
    ]  # fmt: skip
    fenced = Bar(4 * S, 6 * S, "info", "_FENCED")
    left = Bar(7 * S, None, "aborted")
    return TransactionalId(name, sorted([*made, fenced, left], key=lambda bar: bar.begin_ns),
                           [Incarnation(S, 0), Incarnation(8 * S, 1)])  # fmt: skip


def group_over_time(lane: str, group: str) -> GroupOverTime:
    """Two members; the first one never gives back what it had, and the second one takes it over."""
    partitions = range(6)
    holdings = [
        one
        for partition in partitions
        for one in (
            Holding(partition, "0", 2 * S, None if partition % 2 else 6 * S, (1, 2)),
            Holding(partition, "1", 5 * S if partition == 0 else 7 * S, 11 * S, (3, 3)),
        )
    ]
    done = [
        SimilarCommits(partition, 2 * S + index * 9 * S // 40, "ok", None, index)
        for partition, index in itertools.product(partitions, range(40))
    ]
    refused = [
        SimilarCommits(0, 8 * S, "fail", "ILLEGAL_GENERATION", 7),
        SimilarCommits(1, 8 * S + 1000, "fail", "ILLEGAL_GENERATION", 9),
        SimilarCommits(1, 9 * S, "info", "REQUEST_TIMED_OUT", 9),
    ]
    return GroupOverTime(
        group=group,
        lane=lane,
        holdings=sorted(holdings, key=lambda one: one.start_ns),
        commits=sorted([*done, *refused], key=lambda one: one.at_ns),
        members=["0", "1"],
        generations=[(2 * S, 1), (7 * S, 3)],
    )
