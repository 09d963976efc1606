"""Evaluates the relations of a run of any size, over tables in Spark.

What is told of single records of log/ and replicas/ (`_of_stored`) is told of lanes with transactions, a group or a
loop, and what loops read. Of other lanes, the survey compares replicas with each other, and the log with reads. Reads
are compared with sends by blocks of records, and not by their leader epochs; what else is asked of single records of
produced/ and consumed/ (`ONLY_SMALL`) is asked of smaller runs.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import ABORT, COMMIT
from kafka_chaos.verification.closure import stored
from kafka_chaos.verification.closure.documents import bounds, documents, limits
from kafka_chaos.verification.closure.relations import VIEWS
from kafka_chaos.verification.closure.small import evaluated
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables.blocks import hashed
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.history import local_frame
from kafka_chaos.verification.tables.scope import Related

_TYPES = {"lane": pa.string(), "marked": pa.bool_()}
_OF_PARTITION = schema("lane string, partition int32, limit int64")
_MARKED = f"coalesce(kind IN ('{COMMIT}', '{ABORT}'), false) AS marked"
_EARLY = "producer %d, a record from seq %d on"
_EPOCHS = {"first_epoch": "min(producer_epoch)", "last_epoch": "max(producer_epoch)"}
_BLOCK = "shiftright(seq, 10) AS block"
_FLAGS = {
    "sources": "source_producer_id IS NOT NULL OR source_seq IS NOT NULL",
    "backwards": "complete_ns < invoke_ns",
    "timed": "outcome = 'ok' AND complete_ns IS NOT NULL",
    "untimed": "outcome = 'ok' AND complete_ns IS NULL",
    "refuted": "outcome = 'fail' AND offset IS NOT NULL",
}
"""The counts of produced/ in the view `sent`."""

ONLY_SMALL = ("ahead", "answered", "blamed", "fenced", "numbers", "tied", "uncommitted", "unread")
_SPECIAL = ("transactions", "assignments", "commits")
MOST_AT_ONCE = 5_000_000
"""The rows of transactions/, assignments/ and commits/ that fit into the memory of Spark's driver."""


def _views_of(related: Related) -> dict[str, Iterable[stored.Row]]:
    """The views on produced/ and consumed/."""
    sent: list[stored.Row] = []
    for row in related.sent:
        key, times = (row["lane"], row["producer_id"]), (row["first_ns"], row["last_ns"])
        inside = row["in_transactions"]
        sent.append((*key, None, *(row[name] for name in _FLAGS), row["n"] - inside, *times))
        if inside:
            sent.append((*key, 0, *(0 for _ in _FLAGS), inside, *times))
    return {"sent": sent, "early": [(lane, _EARLY % (producer, seq), n) for lane, producer, seq, n in related.early]}


def rows_of_frames(
    run: RunDirectory, frames: Frames, related: Related | None = None
) -> list[tuple[int, str, int, str]]:
    """Of what does not resolve: number of the relation, lane, how many rows, a place.

    Spark only adds up: it takes longer to plan all relations than SQLite to evaluate them. `related`: what a prefilter
    has added up already, of plain tables (`Frames.is_plain`).
    """
    if related is not None:
        return evaluated({**documents(run), **_views_of(related)})
    sent, taken = _sent(frames.produced).persist(), _taken(frames.consumed).persist()
    are_few = sum(run.tables[name].rows for name in _SPECIAL) <= MOST_AT_ONCE
    try:
        views = {name: _rows(view, are_few) for name, view in _views(run, frames, sent, taken).items()}
        return evaluated({**documents(run), **views, **_of_stored(run, frames)})
    finally:
        sent.unpersist()
        taken.unpersist()


def _rows(frame: DataFrame, are_few: bool) -> Iterable[stored.Row]:
    """The rows, at once if they are few; one by one, they take longer and no memory."""
    if are_few and int(frame.sparkSession.version.partition(".")[0]) >= 4:
        return stored.rows_of(frame.toArrow())
    return map(tuple, frame.collect() if are_few else frame.toLocalIterator())


def _sent(produced: DataFrame) -> DataFrame:
    """The view `sent` by blocks of records, for one pass over produced/."""
    return (
        produced.selectExpr("*", _BLOCK)
        .groupBy("lane", "producer_id", "transaction", "block")
        .agg(
            *(F.expr(f"count_if({flag})").alias(name) for name, flag in _FLAGS.items()),
            F.count(F.lit(1)).alias("n"),
            F.min("invoke_ns").alias("first_ns"),
            F.max("invoke_ns").alias("last_ns"),
        )
    )


def _taken(consumed: DataFrame) -> DataFrame:
    """The view `taken` by blocks of records, for one pass over consumed/."""
    return (
        consumed.selectExpr("*", _BLOCK)
        .groupBy("lane", "consumer", "partition", "producer_id", "block")
        .agg(
            F.max("offset").alias("last"),
            F.count(F.lit(1)).alias("n"),
            F.min("poll_ns").alias("first_ns"),
            F.max("poll_ns").alias("last_ns"),
        )
    )


def _views(run: RunDirectory, frames: Frames, sent: DataFrame, taken: DataFrame) -> dict[str, DataFrame]:
    times = (F.min("first_ns").alias("first_ns"), F.max("last_ns").alias("last_ns"))
    counts = (F.sum(name).alias(name) for name in (*_FLAGS, "n"))
    tables = frames.tables()
    given = {name: tables[name].select(*VIEWS[name].split(", ")) for name in _SPECIAL if name in tables}
    given["sent"] = sent.groupBy("lane", "producer_id", "transaction").agg(*counts, *times)
    given["taken"] = taken.groupBy("lane", "consumer", "partition").agg(
        F.max("last").alias("last"), F.sum("n").alias("n"), *times
    )
    given["early"] = _early(sent, taken)
    return given | ({"orphans": _orphans(run, frames.produced)} if any(lane.loop for lane in run.lanes) else {})


def _early(sent: DataFrame, taken: DataFrame) -> DataFrame:
    """The first read of a block of records before the first of them was sent."""
    keys = ["lane", "producer_id", "block"]
    first_sent = sent.groupBy(*keys).agg(F.min("first_ns").alias("sent_ns"))
    first_read = taken.groupBy(*keys).agg(F.min("first_ns").alias("read_ns"))
    place = f"format_string('{_EARLY}', producer_id, block * 1024) AS place"
    return first_read.join(first_sent, keys).where("read_ns < sent_ns").selectExpr("lane", place, "1L AS n")


def _concerned(lanes: Iterable[Lane]) -> list[str]:
    special = [lane for lane in lanes if lane.transactional is not None or lane.group_anomalies]
    return sorted({name for lane in special for name in (lane.lane, *groups_of_lane(lane).values())})


def _orphans(run: RunDirectory, produced: DataFrame) -> DataFrame:
    loops = [(lane.lane, lane.loop.source) for lane in run.lanes if lane.loop is not None]
    sources = local_frame(produced.sparkSession, schema("lane string, source string"), loops)
    made = produced.where("source_seq IS NOT NULL AND source_producer_id IS NOT NULL").join(
        F.broadcast(sources), "lane"
    )
    keys = ["lane", "producer_id", "seq"]
    of_source = ("source AS lane", "source_producer_id AS producer_id", "source_seq AS seq")
    made = made.selectExpr("lane AS judged", *of_source, "invoke_ns AS made_ns")
    lost = made.join(produced.select(*keys, "invoke_ns"), keys, "left").where("coalesce(made_ns < invoke_ns, true)")
    first = lost.groupBy("judged", "lane").agg(F.expr("min(struct(producer_id, seq)) AS who"), F.expr("count(1) AS n"))
    place = "format_string('producer %d, seq %d of lane %s', who.producer_id, who.seq, lane) AS place"
    return first.selectExpr("judged AS lane", place, "n")


def _of_stored(run: RunDirectory, frames: Frames) -> dict[str, Iterable[stored.Row]]:
    """The views on the log and on replicas: few rows leave Spark, one per partition, broker, producer and epoch."""
    if not (lanes := _concerned(run.lanes)):
        return {}
    log, replicas = (
        None if table is None else table.where(F.col("lane").isin(lanes)) for table in (frames.log, frames.replicas)
    )
    below = limits(run)
    if any((lane, number) not in below for lane in lanes for number in range(run.lane(lane).partitions)):
        last = F.max("offset")
        ends = [] if log is None else log.groupBy(*stored.PLACE).agg(last).collect()
        held_to = [] if replicas is None else replicas.groupBy(*stored.PLACE, "broker").agg(last).collect()
        below = bounds(run, ends, [(lane, partition, end) for lane, partition, _, end in held_to])
    rows = [(*place, limit) for place, limit in below.items()]
    limited = F.broadcast(local_frame(frames.produced.sparkSession, _OF_PARTITION, rows))
    logged = None if log is None else _contents(log, limited, stored.PLACE)
    if replicas is None:
        return stored.views_of(logged, None, below)
    held = _contents(replicas.selectExpr("*", _MARKED), limited, stored.KEYS_OF_REPLICAS, _EPOCHS)
    return {"repeated": _repeated(held), **stored.views_of(logged, held, below)}


def _repeated(held: pa.Table) -> Iterable[stored.Row]:
    """Replicas with as many rows as offsets, whose offsets are not those from the first to the last, or with more."""
    sums = [("rows", "sum"), ("offsets", "sum"), ("lowest", "min"), ("highest", "max")]
    for lane, partition, broker, rows, offsets, first, last in stored.grouped(held, [*stored.PLACE, "broker"], sums):
        if rows >= last - first + 1 and 2 * offsets != (first + last) * (last - first + 1):
            yield lane, f"partition {partition}, broker {broker}", 1


def _contents(table: DataFrame, bounds: DataFrame, keys: list[str], more: Mapping[str, str] | None = None) -> pa.Table:
    """A table of `stored.views_of`, with the sum of all offsets. `more`: further sums."""
    rows = table.join(bounds, stored.PLACE, "left")
    content = f"IF(offset < limit, {hashed('offset', 'producer_id', 'seq')}, 0L) AS content"
    sums = {
        "rows": "count(1)",
        "lowest": "min(offset)",
        "highest": "max(offset)",
        "offsets": "sum(offset)",
        "below": "count_if(offset < limit)",
        "low": "sum(content & 4294967295L)",
        "high": "sum(shiftright(content, 32))",
        **(more or {}),
    }
    kept = [name for name in table.columns if name == "producer_epoch"]
    rows = rows.selectExpr(*keys, *kept, "offset", "limit", content)
    found = rows.groupBy(*keys).agg(*(F.expr(sql).alias(name) for name, sql in sums.items())).collect()
    types = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in (*keys, *sums)])
    return pa.table({name: [row[name] for row in found] for name in types.names}, types)
