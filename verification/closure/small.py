"""Evaluates the relations of a run that fits into memory, from its files, by SQLite and without Spark."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_chaos.contract.columns import TABLES, arrow_schema
from kafka_chaos.contract.transactions import ABORT, COMMIT
from kafka_chaos.verification.closure.documents import documents, limits
from kafka_chaos.verification.closure.relations import VIEWS, asked
from kafka_chaos.verification.inputs.parquet import batches_where
from kafka_chaos.verification.inputs.run_directory import RunDirectory

_PLACE = ["lane", "partition"]
_POSITION = [*_PLACE, "offset"]
_IDENTITY = ["lane", "producer_id", "seq"]
_WRITER = [*_PLACE, "producer_id"]
_SALT = np.uint64(secrets.randbits(64) | 1)
_Views = dict[str, Iterable[Sequence[Any]]]


def rows_of_relations(run: RunDirectory) -> list[tuple[int, str, int, str]]:
    """Of what does not resolve: number of the relation, lane, how many rows, a place."""
    with sqlite3.connect(":memory:") as database:
        for name, rows in _views(run).items():
            columns = [column.strip() for column in VIEWS[name].split(",")]
            database.execute(f"CREATE TABLE `{name}` ({', '.join(f'`{column}`' for column in columns)})")
            database.executemany(f"INSERT INTO `{name}` VALUES ({', '.join('?' * len(columns))})", rows)
        return list(database.execute(asked()))


def _views(run: RunDirectory) -> _Views:
    given = {name: _table(run, name) for name in TABLES}
    produced, log, replicas = (given[name] for name in ("produced", "log", "replicas"))
    is_marker = pc.is_in(replicas["kind"], pa.array([COMMIT, ABORT]))
    markers, data = replicas.filter(is_marker), replicas.filter(pc.invert(is_marker))
    held = pa.concat_tables([log.select([*_PLACE, "offset"]), replicas.select([*_PLACE, "offset"])])
    backwards = pc.fill_null(pc.less(produced["complete_ns"], produced["invoke_ns"]), False)
    produced = produced.append_column("backwards", backwards.cast(pa.int64()))
    times = [("invoke_ns", "min"), ("invoke_ns", "max")]
    polls = [("offset", "count"), ("poll_ns", "min"), ("poll_ns", "max")]
    return {
        **documents(run),
        **{
            name: _rows(given[name].select(VIEWS[name].split(", ")))
            for name in ("transactions", "assignments", "commits")
        },
        "sent": _grouped(
            produced,
            ["lane", "producer_id", "transaction"],
            [("source_seq", "count"), ("backwards", "sum"), ("seq", "count"), *times],
        ),
        "taken": _grouped(given["consumed"], ["lane", "consumer", "partition"], polls),
        "early": _early(given["consumed"], produced),
        "ahead": _ahead(given["consumed"], data),
        "epochs": _grouped(replicas, [*_PLACE, "broker", "leader_epoch"], [("offset", "min"), ("offset", "max")]),
        "repeated": _repeated(replicas),
        "ends": _grouped(held, _PLACE, [("offset", "max")]),
        "markers": _grouped(markers, _WRITER, [("offset", "count"), ("offset", "min")]),
        "written": _grouped(data, _WRITER, [("offset", "min")]),
        "orphans": _orphans(run, produced),
        "unlike": _unlike(run, log, data) if run.has_log and run.has("replicas") else (),
    }


def _table(run: RunDirectory, name: str) -> pa.Table:
    batches = batches_where(run.tables[name].files, TABLES[name], {"lane": [lane.lane for lane in run.lanes]})
    return pa.Table.from_batches(
        batches, schema=pa.schema([field.with_nullable(True) for field in arrow_schema(TABLES[name])])
    )


def _grouped(table: pa.Table, keys: list[str], columns: list[tuple[str, str]]) -> Iterable[Sequence[Any]]:
    found = table.group_by(keys).aggregate(columns)
    return _rows(found.select([*keys, *(f"{name}_{function}" for name, function in columns)]))


def _rows(table: pa.Table) -> Iterable[Sequence[Any]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _early(consumed: pa.Table, produced: pa.Table) -> Iterable[Sequence[Any]]:
    """`relations.VIEWS`: a row per lane that has such reads."""
    sent = produced.group_by(_IDENTITY).aggregate([("invoke_ns", "min")])
    reads = consumed.select([*_IDENTITY, *_POSITION[1:], "poll_ns"]).join(sent, _IDENTITY, join_type="inner")
    return _first_of_lanes(reads.filter(pc.less(reads["poll_ns"], reads["invoke_ns_min"])))


def _ahead(consumed: pa.Table, data: pa.Table) -> Iterable[Sequence[Any]]:
    """`relations.VIEWS`: a row per lane that has such reads."""
    keys = [*_POSITION, "producer_id", "seq"]
    held = data.group_by(keys).aggregate([("leader_epoch", "max")])
    reads = consumed.select([*keys, "leader_epoch"]).join(held, keys, join_type="inner")
    return _first_of_lanes(reads.filter(pc.greater(reads["leader_epoch"], reads["leader_epoch_max"])))


def _repeated(replicas: pa.Table) -> Iterable[Sequence[Any]]:
    """`relations.VIEWS`: a row per lane that has such replicas."""
    counts = replicas.group_by([*_POSITION, "broker"]).aggregate([("seq", "count")])
    return _first_of_lanes(counts.filter(pc.greater(counts["seq_count"], 1)))


def _first_of_lanes(rows: pa.Table) -> Iterable[Sequence[Any]]:
    """By lane, one of the places of these rows, and how many there are."""
    for lane, partition, offset, n in _grouped(
        rows, ["lane"], [("partition", "min"), ("offset", "min"), ("offset", "count")]
    ):
        yield lane, f"partition {partition}, offset {offset}", n


def _orphans(run: RunDirectory, produced: pa.Table) -> Iterable[Sequence[Any]]:
    """`relations.VIEWS`: a row per loop that has such outputs."""
    for lane in run.lanes:
        if lane.loop is None:
            continue
        made = produced.filter(pc.equal(produced["lane"], lane.lane))
        made = made.filter(pc.and_(pc.is_valid(made["source_producer_id"]), pc.is_valid(made["source_seq"])))
        known = produced.filter(pc.equal(produced["lane"], lane.loop.source)).select(["producer_id", "seq"])
        keys = ["source_producer_id", "source_seq"]
        lost = made.select(keys).join(known, keys, ["producer_id", "seq"], "left anti")
        if len(lost):
            producer, seq = min(map(tuple, _rows(lost)))
            yield lane.lane, f"producer {producer}, seq {seq} of lane {lane.loop.source}", len(lost)


def _unlike(run: RunDirectory, log: pa.Table, data: pa.Table) -> Iterable[Sequence[Any]]:
    """`relations.VIEWS`: a row per partition whose log no replica holds as it is."""
    bounds = {(lane, partition): end + 1 for lane, partition, end in _grouped(log, _PLACE, [("offset", "max")])}
    bounds |= limits(run)
    logged, held = _contents(log, _PLACE, bounds), _contents(data, [*_PLACE, "broker"], bounds)
    kept: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for lane, partition, broker in _grouped(data, [*_PLACE, "broker"], []):
        kept.setdefault((lane, partition), []).append(held.get((lane, partition, broker), (0, 0)))
    for place, contents in sorted(kept.items()):
        if logged.get(place, (0, 0)) not in contents:
            yield place[0], f"partition {place[1]}, below offset {bounds.get(place)}", 1


def _contents(table: pa.Table, keys: list[str], bounds: Mapping[tuple[str, int], int]) -> dict[Any, tuple[int, int]]:
    """By `keys`, how many rows there are below the bounds of their partitions, and the sum of their hashes."""
    rows = [(*place, bound) for place, bound in bounds.items()]
    schema = pa.schema([("lane", pa.string()), ("partition", pa.int32()), ("bound", pa.int64())])
    known = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    below = table.select(dict.fromkeys((*keys, "offset", "producer_id", "seq"))).join(known, _PLACE, join_type="inner")
    below = below.filter(pc.less(below["offset"], below["bound"]))
    mixed = np.full(len(below), _SALT)
    for name in ("offset", "producer_id", "seq"):
        mixed ^= pc.fill_null(below[name], -1).to_numpy().astype(np.int64).view(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    # Halves, so that no sum overflows.
    halves = {"low": mixed & np.uint64(2**32 - 1), "high": mixed >> np.uint64(32)}
    for name, half in halves.items():
        below = below.append_column(name, pa.array(half.astype(np.int64)))
    sums = _grouped(below, keys, [("seq", "count"), ("low", "sum"), ("high", "sum")])
    return {tuple(key): (n, low + (high << 32)) for *key, n, low, high in sums}
