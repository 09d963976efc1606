"""Evaluates the relations of a run of any size, over tables in Spark.

What is told of single records of log/ and replicas/ (`_of_stored`) is told of lanes with transactions, a group or a
loop, and what loops read. Of other lanes, the survey compares replicas with each other, and the log with reads. Reads
are compared with sends by blocks of records, and not by their leader epochs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import ABORT, COMMIT
from kafka_chaos.verification.closure.documents import documents, limits
from kafka_chaos.verification.closure.relations import VIEWS, asked
from kafka_chaos.verification.inputs.documents.groups import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.hashes import hashed
from kafka_chaos.verification.tables.history import local_frame

_TEXTS = {column.name for columns in TABLES.values() for column in columns if column.type == "string"}
_TEXTS |= {"fault", "judged", "place", "source"}
_OF_PARTITION = "lane, partition, limit"
_MARKED = f"coalesce(kind IN ('{COMMIT}', '{ABORT}'), false)"


_STORED = ("ends", "epochs", "markers", "repeated", "unlike", "written")
_BLOCK = "shiftright(seq, 10) AS block"


def rows_of_frames(run: RunDirectory, frames: Frames) -> list[tuple[int, str, int, str]]:
    """Of what does not resolve: number of the relation, lane, how many rows, a place."""
    session = frames.produced.sparkSession
    prefix = f"closure_{uuid.uuid4().hex}_"
    views = _views(run, frames)
    try:
        for name, view in views.items():
            view.createOrReplaceTempView(prefix + name)
        return [(row.relation, row.lane, row.n, row.place) for row in session.sql(asked(prefix)).collect()]
    finally:
        for name in views:
            session.catalog.dropTempView(prefix + name)


def _views(run: RunDirectory, frames: Frames) -> dict[str, DataFrame]:
    def local(name: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
        return local_frame(frames.produced.sparkSession, _schema(VIEWS[name]), rows)

    given = {name: local(name, map(tuple, rows)) for name, rows in documents(run).items()}
    for name in ("transactions", "assignments", "commits"):
        table = frames.tables().get(name)
        columns = VIEWS[name].split(", ")
        given[name] = local(name, []) if table is None else table.select(*columns)
    times = (F.min("invoke_ns").alias("first_ns"), F.max("invoke_ns").alias("last_ns"))
    counts = (
        F.count("source_seq").alias("sources"),
        F.expr("count_if(complete_ns < invoke_ns)").alias("backwards"),
        F.count(F.lit(1)).alias("n"),
    )
    given["sent"] = frames.produced.groupBy("lane", "producer_id", "transaction").agg(*counts, *times)
    polls = (F.count(F.lit(1)).alias("n"), F.min("poll_ns").alias("first_ns"), F.max("poll_ns").alias("last_ns"))
    given["taken"] = frames.consumed.groupBy("lane", "consumer", "partition").agg(*polls)
    given["orphans"] = _orphans(run, frames.produced)
    given["early"] = _early(frames)
    given["ahead"] = local("ahead", [])
    return given | {name: local(name, rows) for name, rows in _of_stored(run, frames).items()}


def _early(frames: Frames) -> DataFrame:
    """The first read of a block of records before the first of them was sent."""
    keys = ("lane", "producer_id", "block")
    sent = frames.produced.selectExpr("*", _BLOCK).groupBy(*keys).agg(F.min("invoke_ns").alias("sent_ns"))
    read = frames.consumed.selectExpr("*", _BLOCK).groupBy(*keys).agg(F.min("poll_ns").alias("read_ns"))
    early = read.join(sent, list(keys)).where("read_ns < sent_ns")
    place = "format_string('producer %d, a record from seq %d on', producer_id, block * 1024) AS place"
    return early.selectExpr("lane", place, "1L AS n")


def _concerned(lanes: Iterable[Lane]) -> list[str]:
    return sorted({name for lane in lanes if _is_special(lane) for name in (lane.lane, *groups_of_lane(lane).values())})


def _is_special(lane: Lane) -> bool:
    return lane.transactional is not None or bool(lane.group_anomalies)


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


def _of_stored(run: RunDirectory, frames: Frames) -> dict[str, list[tuple[Any, ...]]]:
    """The views on the log and on replicas: few rows leave Spark, one per partition, broker, producer and epoch."""
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _STORED}
    if not (lanes := _concerned(run.lanes)):
        return found

    def of(table: DataFrame) -> DataFrame:
        return table.where(F.col("lane").isin(lanes))

    log, replicas = frames.log, frames.replicas
    known: dict[tuple[str, int], int] = dict(limits(run))
    ends: dict[tuple[str, int], int] = {}
    if log is not None:
        for lane, partition, end in of(log).groupBy("lane", "partition").agg(F.max("offset")).collect():
            ends[lane, partition] = end
            known.setdefault((lane, partition), end + 1)
    rows = [(*place, limit) for place, limit in known.items()]
    bounds = F.broadcast(local_frame(frames.produced.sparkSession, _schema(_OF_PARTITION), rows))
    if replicas is not None:
        keys = ("broker", "producer_id", "leader_epoch", f"{_MARKED} AS marked")
        contents = _contents(of(replicas), bounds, *keys).collect()
        found["epochs"], found["repeated"] = _epochs(contents), _repeated(contents)
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


def _epochs(contents: Iterable[Row]) -> list[tuple[Any, ...]]:
    ends: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in contents:
        key = (row.lane, row.partition, row.broker, row.leader_epoch)
        first, last = ends.get(key, (row.lowest, row.highest))
        ends[key] = (min(first, row.lowest), max(last, row.highest))
    return [(*key, first, last) for key, (first, last) in ends.items()]


def _repeated(contents: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Replicas with as many rows as offsets, whose offsets are not those from the first to the last, or with more."""
    logs: dict[tuple[Any, ...], tuple[int, int, int, int]] = {}
    for row in contents:
        key = (row.lane, row.partition, row.broker)
        rows, offsets, first, last = logs.get(key, (0, 0, row.lowest, row.highest))
        logs[key] = (rows + row.rows, offsets + row.offsets, min(first, row.lowest), max(last, row.highest))
    return [
        (lane, f"partition {partition}, broker {broker}", 1)
        for (lane, partition, broker), (rows, offsets, first, last) in logs.items()
        if rows >= last - first + 1 and 2 * offsets != (first + last) * (last - first + 1)
    ]


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
        F.expr("sum(offset) AS offsets"),
    )


def _wrapped(number: int) -> int:
    """A sum of 64-bit numbers as Spark wraps it around."""
    return (number + 2**63) % 2**64 - 2**63
