"""Evaluates the relations of a run of any size, over tables in Spark."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.transactions import ABORT, COMMIT
from kafka_chaos.verification.closure.documents import documents, limits
from kafka_chaos.verification.closure.relations import VIEWS, asked
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.hashes import hashed
from kafka_chaos.verification.tables.history import local_frame

_TEXTS = {column.name for columns in TABLES.values() for column in columns if column.type == "string"}
_TEXTS |= {"judged", "place", "source"}
_OF_PARTITION = "lane, partition, limit"
_MARKED = f"coalesce(kind IN ('{COMMIT}', '{ABORT}'), false)"


def rows_of_frames(run: RunDirectory, lanes: Collection[str], frames: Frames) -> list[tuple[int, str, int, str]]:
    """Of what does not resolve: number of the relation, lane, how many rows, a place."""
    session = frames.produced.sparkSession
    prefix = f"closure_{uuid.uuid4().hex}_"
    views = _views(run, lanes, frames)
    try:
        for name, view in views.items():
            view.createOrReplaceTempView(prefix + name)
        return [(row.relation, row.lane, row.n, row.place) for row in session.sql(asked(prefix)).collect()]
    finally:
        for name in views:
            session.catalog.dropTempView(prefix + name)


def _views(run: RunDirectory, lanes: Collection[str], frames: Frames) -> dict[str, DataFrame]:
    def of(table: DataFrame) -> DataFrame:
        return table.where(F.col("lane").isin(list(lanes)))

    def local(name: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
        return local_frame(frames.produced.sparkSession, _schema(VIEWS[name]), rows)

    given = {name: local(name, map(tuple, rows)) for name, rows in documents(run).items()}
    for name in ("transactions", "assignments", "commits"):
        table = frames.tables().get(name)
        columns = VIEWS[name].split(", ")
        given[name] = local(name, []) if table is None else of(table).select(*columns)
    times = (F.min("invoke_ns").alias("first_ns"), F.max("invoke_ns").alias("last_ns"))
    counts = (
        F.count("source_seq").alias("sources"),
        F.expr("count_if(complete_ns < invoke_ns)").alias("backwards"),
        F.count(F.lit(1)).alias("n"),
    )
    given["sent"] = of(frames.produced).groupBy("lane", "producer_id", "transaction").agg(*counts, *times)
    polls = (F.count(F.lit(1)).alias("n"), F.min("poll_ns").alias("first_ns"), F.max("poll_ns").alias("last_ns"))
    given["taken"] = of(frames.consumed).groupBy("lane", "consumer", "partition").agg(*polls)
    given["orphans"] = _orphans(run, frames.produced)
    return given | {name: local(name, rows) for name, rows in _of_stored(run, frames, of).items()}


def _schema(columns: str) -> StructType:
    return schema(", ".join(f"{name} {'string' if name in _TEXTS else 'int64'}" for name in columns.split(", ")))


def _orphans(run: RunDirectory, produced: DataFrame) -> DataFrame:
    loops = [(lane.lane, lane.loop.source) for lane in run.lanes if lane.loop is not None]
    sources = local_frame(produced.sparkSession, _schema("lane, source"), loops)
    made = produced.where("source_seq IS NOT NULL AND source_producer_id IS NOT NULL").join(
        F.broadcast(sources), "lane"
    )
    made = made.selectExpr("lane AS judged", "source AS lane", "source_producer_id AS producer_id", "source_seq AS seq")
    lost = made.join(produced.select("lane", "producer_id", "seq"), ["lane", "producer_id", "seq"], "left_anti")
    first = lost.groupBy("judged", "lane").agg(F.expr("min(struct(producer_id, seq)) AS who"), F.expr("count(1) AS n"))
    place = "format_string('producer %d, seq %d of lane %s', who.producer_id, who.seq, lane) AS place"
    return first.selectExpr("judged AS lane", place, "n")


def _of_stored(run: RunDirectory, frames: Frames, of: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The views on the log and on replicas: a row per partition, broker and producer is all that leaves Spark."""
    log, replicas = frames.log, frames.replicas
    known: dict[tuple[str, int], int] = dict(limits(run))
    ends: dict[tuple[str, int], int] = {}
    if log is not None:
        for lane, partition, end in of(log).groupBy("lane", "partition").agg(F.max("offset")).collect():
            ends[lane, partition] = end
            known.setdefault((lane, partition), end + 1)
    rows = [(*place, limit) for place, limit in known.items()]
    bounds = F.broadcast(local_frame(frames.produced.sparkSession, _schema(_OF_PARTITION), rows))
    found: dict[str, list[tuple[Any, ...]]] = {"markers": [], "written": [], "unlike": []}
    if replicas is not None:
        contents = _contents(of(replicas), bounds, "broker", "producer_id", f"{_MARKED} AS marked").collect()
        first: dict[tuple[Any, ...], list[int]] = {}
        held: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
        for row in contents:
            place = (row.lane, row.partition)
            ends[place] = max(ends.get(place, -1), row.highest)
            n, lowest = first.setdefault((*place, row.producer_id, row.marked), [0, row.lowest])
            first[*place, row.producer_id, row.marked] = [n + row.rows, min(lowest, row.lowest)]
            if not row.marked:
                before = held.setdefault(place, {}).get(row.broker, (0, 0))
                held[place][row.broker] = (before[0] + row.n, _wrapped(before[1] + (row.content or 0)))
        found["markers"] = [(*key[:3], n, lowest) for key, (n, lowest) in first.items() if key[3]]
        found["written"] = [(*key[:3], lowest) for key, (_, lowest) in first.items() if not key[3]]
        if log is not None:
            logged = {
                (row.lane, row.partition): (row.n, row.content or 0) for row in _contents(of(log), bounds).collect()
            }
            found["unlike"] = [
                (place[0], f"partition {place[1]}, below offset {known.get(place)}", 1)
                for place, brokers in held.items()
                if logged.get(place, (0, 0)) not in brokers.values()
            ]
    return {**found, "ends": [(*place, end) for place, end in ends.items()]}


def _contents(table: DataFrame, bounds: DataFrame, *keys: str) -> DataFrame:
    """How many rows there are below the limit of a partition, and the sum of their hashes; all rows, and their ends."""
    rows = table.join(bounds, ["lane", "partition"], "left")
    names = [key.rpartition(" ")[2] for key in keys]
    content = f"{hashed('offset', 'producer_id', 'seq')} AS content"
    rows = rows.selectExpr("lane", "partition", "offset", "offset < limit AS below", content, *keys)
    return rows.groupBy("lane", "partition", *names).agg(
        F.expr("count_if(below) AS n"),
        F.expr("sum(IF(below, content, 0L)) AS content"),
        F.expr("count(1) AS rows"),
        F.expr("min(offset) AS lowest"),
        F.expr("max(offset) AS highest"),
    )


def _wrapped(number: int) -> int:
    """A sum of 64-bit numbers as Spark wraps it around."""
    return (number + 2**63) % 2**64 - 2**63
