"""Evaluates the relations of a run that fits into memory, from its files, by SQLite and without Spark."""

import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_chaos.contract.columns import TABLES, arrow_schema
from kafka_chaos.contract.lane.groups import Loop, loop_group_of
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import ABORT, COMMIT, READ_COMMITTED
from kafka_chaos.verification.closure.documents import bounds, documents, is_lossless
from kafka_chaos.verification.closure.relations import VIEWS, asked
from kafka_chaos.verification.closure.stored import (
    CONTENT,
    KEYS_OF_REPLICAS,
    PLACE,
    Bounds,
    Row,
    grouped,
    rows_of,
    views_of,
)
from kafka_chaos.verification.inputs.parquet import batches_where
from kafka_chaos.verification.inputs.run_directory import RunDirectory

_POSITION = [*PLACE, "offset"]
_IDENTITY = ["lane", "producer_id", "seq"]
_SOURCE = ("source_producer_id", "source_seq")
_EPOCHS = (("producer_epoch", "min", "first_epoch"), ("producer_epoch", "max", "last_epoch"))
_SALT = np.uint64(secrets.randbits(64) | 1)


def rows_of_relations(run: RunDirectory) -> list[tuple[int, str, int, str]]:
    """Of what does not resolve: number of the relation, lane, how many rows, a place."""
    return evaluated(_views(run))


def evaluated(views: Mapping[str, Iterable[Row]]) -> list[tuple[int, str, int, str]]:
    """Of what does not resolve: number of the relation, lane, how many rows, a place.

    `views`: the rows of `relations.VIEWS`; one that is missing has none.
    """
    with sqlite3.connect(":memory:") as database:
        for name, text in VIEWS.items():
            columns = text.split(", ")
            database.execute(f"CREATE TABLE `{name}` ({', '.join(f'`{column}`' for column in columns)})")
            database.executemany(f"INSERT INTO `{name}` VALUES ({', '.join('?' * len(columns))})", views.get(name, ()))
        return list(database.execute(asked()))


def _views(run: RunDirectory) -> dict[str, Iterable[Row]]:
    given = {name: _table(run, name) for name in TABLES}
    produced, log, replicas = (given[name] for name in ("produced", "log", "replicas"))
    replicas = replicas.append_column("marked", pc.is_in(replicas["kind"], pa.array([COMMIT, ABORT])))
    held_to = grouped(replicas, [*PLACE, "broker"], [("offset", "max")])
    below = bounds(run, [*grouped(log, PLACE, [("offset", "max")])], [(*row[:2], row[3]) for row in held_to])
    logged = _contents(log, PLACE, below) if run.has_log else None
    held = _contents(replicas, KEYS_OF_REPLICAS, below, _EPOCHS) if run.has("replicas") else None
    is_ok, is_timed = pc.equal(produced["outcome"], "ok"), pc.is_valid(produced["complete_ns"])
    flags = {
        "sources": pc.or_(pc.is_valid(produced["source_producer_id"]), pc.is_valid(produced["source_seq"])),
        "backwards": pc.fill_null(pc.less(produced["complete_ns"], produced["invoke_ns"]), False),
        "timed": pc.and_(is_ok, is_timed),
        "untimed": pc.and_(is_ok, pc.invert(is_timed)),
        "refuted": pc.and_(pc.equal(produced["outcome"], "fail"), pc.is_valid(produced["offset"])),
    }
    flagged = produced
    for name, flag in flags.items():
        flagged = flagged.append_column(name, flag.cast(pa.int64()))
    times = [("invoke_ns", "min"), ("invoke_ns", "max")]
    polls = [("offset", "max"), ("offset", "count"), ("poll_ns", "min"), ("poll_ns", "max")]
    return {
        **documents(run),
        **{
            name: rows_of(given[name].select(VIEWS[name].split(", ")))
            for name in ("transactions", "assignments", "commits")
        },
        "sent": grouped(
            flagged,
            ["lane", "producer_id", "transaction"],
            [*((name, "sum") for name in flags), ("seq", "count"), *times],
        ),
        "taken": grouped(given["consumed"], ["lane", "consumer", "partition"], polls),
        "early": _early(given["consumed"], produced),
        "ahead": _ahead(run, given["consumed"], replicas.filter(pc.invert(replicas["marked"]))),
        "answered": grouped(produced, ["lane"], [("complete_ns", "max")]),
        "blamed": _blamed(produced),
        "fenced": _fenced(replicas),
        "numbers": grouped(produced, _IDENTITY[:2], [("seq", "count"), ("seq", "min"), ("seq", "max")]),
        "tied": _tied(given["consumed"]),
        "uncommitted": _uncommitted(given["consumed"], produced, given["assignments"]),
        "unread": _unread(run, given["consumed"], produced, given["assignments"]),
        "repeated": _repeated(replicas),
        "orphans": _orphans(run, produced),
        **views_of(logged, held, below),
    }


def _table(run: RunDirectory, name: str) -> pa.Table:
    batches = batches_where(run.tables[name].files, TABLES[name], {"lane": [lane.lane for lane in run.lanes]})
    return pa.Table.from_batches(
        batches, schema=pa.schema([field.with_nullable(True) for field in arrow_schema(TABLES[name])])
    )


def _early(consumed: pa.Table, produced: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per lane that has such reads."""
    sent = produced.group_by(_IDENTITY).aggregate([("invoke_ns", "min")])
    reads = consumed.select([*_IDENTITY, *_POSITION[1:], "poll_ns"]).join(sent, _IDENTITY, join_type="inner")
    return _first_of_lanes(reads.filter(pc.less(reads["poll_ns"], reads["invoke_ns_min"])))


def _ahead(run: RunDirectory, consumed: pa.Table, data: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per lane that has such reads."""
    keys = [*_POSITION, "producer_id", "seq"]
    held = data.group_by(keys).aggregate([("leader_epoch", "min"), ("leader_epoch", "max")])
    reads = consumed.select([*keys, "leader_epoch"]).join(held, keys, join_type="inner")
    lossless = pa.array([lane.lane for lane in run.lanes if is_lossless(run, lane)], pa.string())
    behind = pc.less(reads["leader_epoch"], reads["leader_epoch_min"])
    ahead = pc.greater(reads["leader_epoch"], reads["leader_epoch_max"])
    return _first_of_lanes(reads.filter(pc.or_(ahead, pc.and_(behind, pc.is_in(reads["lane"], lossless)))))


def _blamed(produced: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per producer that has such records."""
    blamed = produced.filter(pc.and_(pc.equal(produced["outcome"], "ok"), pc.is_valid(produced["error"])))
    for lane, producer, seq, n in grouped(blamed, _IDENTITY[:2], [("seq", "min"), ("seq", "count")]):
        yield lane, f"producer {producer}, seq {seq}", n


def _fenced(replicas: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per lane that has such replicas."""
    writer = ["lane", "partition", "broker", "producer_id"]
    rows = replicas.filter(pc.greater_equal(replicas["producer_id"], 0)).select([*writer, "offset", "producer_epoch"])
    rows = rows.sort_by([(name, "ascending") for name in (*writer, "offset")])
    epochs = pc.fill_null(rows["producer_epoch"], -1).to_numpy()
    same = np.ones(max(len(rows) - 1, 0), dtype=bool)
    for name in writer:
        column = rows[name].combine_chunks()
        column = column.dictionary_encode().indices if name == "lane" else column
        same &= np.diff(column.to_numpy()) == 0
    falls = np.concatenate([[False], same & (np.diff(epochs) < 0)])
    yield from _first_of_lanes(rows.filter(pa.array(falls[: len(rows)])))
    known = rows.group_by(PLACE).aggregate([("producer_epoch", "count"), ("offset", "count"), ("offset", "min")])
    some = pc.and_(
        pc.greater(known["producer_epoch_count"], 0), pc.less(known["producer_epoch_count"], known["offset_count"])
    )
    yield from _first_of_lanes(known.filter(some).select([*PLACE, "offset_min"]).rename_columns([*PLACE, "offset"]))
    each = rows.group_by([*writer[:2], "producer_id", "offset"]).aggregate(
        [("producer_epoch", "min"), ("producer_epoch", "max")]
    )
    yield from _first_of_lanes(each.filter(pc.less(each["producer_epoch_min"], each["producer_epoch_max"])))


def _tied(consumed: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per lane that has such reads."""
    counts = consumed.group_by(["lane", "consumer", "partition", "poll_ns"]).aggregate(
        [("offset", "count"), ("offset", "min")]
    )
    tied = counts.filter(pc.greater(counts["offset_count"], 1))
    return _first_of_lanes(tied.rename_columns({"offset_min": "offset"}))


def _uncommitted(consumed: pa.Table, produced: pa.Table, assignments: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per lane that has such reads."""
    whole = ["lane", "producer_id", "transaction"]
    inside = produced.filter(pc.is_valid(produced["transaction"])).select([*whole, "seq", "invoke_ns"])
    ended = inside.group_by(whole).aggregate([("invoke_ns", "max")])
    records = inside.join(ended, whole).select([*_IDENTITY, "invoke_ns_max"])
    committed = assignments.filter(pc.equal(assignments["isolation"], READ_COMMITTED))
    readers = committed.group_by(["lane", "consumer"]).aggregate([])
    reads = consumed.join(readers, ["lane", "consumer"], join_type="inner").join(records, _IDENTITY, join_type="inner")
    return _first_of_lanes(reads.filter(pc.less(reads["poll_ns"], reads["invoke_ns_max"])))


def _outputs(run: RunDirectory, produced: pa.Table) -> Iterator[tuple[Lane, Loop, pa.Table]]:
    """The records of each loop that name an input."""
    for lane in run.lanes:
        if lane.loop is not None:
            made = produced.filter(pc.equal(produced["lane"], lane.lane)).select([*_SOURCE, "invoke_ns"])
            yield lane, lane.loop, made.filter(pc.and_(*(pc.is_valid(made[name]) for name in _SOURCE)))


def _made_before(lane: Lane, loop: Loop, made: pa.Table, inputs: pa.Table, at: str) -> Iterator[Row]:
    """The outputs that were sent before the time `at` of their input, or have none: a row, if there are some."""
    both = made.join(inputs, [*_SOURCE], _IDENTITY[1:])
    early = both.filter(pc.fill_null(pc.less(both["invoke_ns"], both[at]), True))
    if len(early):
        producer, seq = min(map(tuple, rows_of(early.select([*_SOURCE]))))
        yield lane.lane, f"producer {producer}, seq {seq} of lane {loop.source}", len(early)


def _unread(run: RunDirectory, consumed: pa.Table, produced: pa.Table, assignments: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per loop that has such outputs."""
    for lane, loop, made in _outputs(run, produced):
        own = assignments.filter(pc.equal(assignments["group"], loop_group_of(lane.lane)))
        reads = consumed.filter(pc.equal(consumed["lane"], loop.source))
        reads = reads.filter(pc.is_in(reads["consumer"], own["consumer"].combine_chunks()))
        first = reads.group_by(_IDENTITY[1:]).aggregate([("poll_ns", "min")])
        yield from _made_before(lane, loop, made, first, "poll_ns_min")


def _repeated(replicas: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per lane that has such replicas."""
    counts = replicas.group_by([*_POSITION, "broker"]).aggregate([("seq", "count")])
    return _first_of_lanes(counts.filter(pc.greater(counts["seq_count"], 1)))


def _first_of_lanes(rows: pa.Table) -> Iterable[Row]:
    """By lane, one of the places of these rows, and how many there are."""
    for lane, partition, offset, n in grouped(
        rows, ["lane"], [("partition", "min"), ("offset", "min"), ("offset", "count")]
    ):
        yield lane, f"partition {partition}, offset {offset}", n


def _orphans(run: RunDirectory, produced: pa.Table) -> Iterable[Row]:
    """`relations.VIEWS`: a row per loop that has such outputs."""
    for lane, loop, made in _outputs(run, produced):
        known = produced.filter(pc.equal(produced["lane"], loop.source)).select([*_IDENTITY[1:], "invoke_ns"])
        yield from _made_before(lane, loop, made, known.rename_columns([*_IDENTITY[1:], "sent_ns"]), "sent_ns")


def _contents(table: pa.Table, keys: list[str], bounds: Bounds, more: Sequence[tuple[str, str, str]] = ()) -> pa.Table:
    """A table of `stored.views_of`, by its keys. `more`: further columns, each with its function and its new name."""
    rows = [(*place, bound) for place, bound in bounds.items()]
    schema = pa.schema([("lane", pa.string()), ("partition", pa.int32()), ("bound", pa.int64())])
    known = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    columns = (*keys, "offset", "producer_id", "seq", *(column for column, *_ in more))
    table = table.select(dict.fromkeys(columns)).join(known, PLACE)
    below = pc.fill_null(pc.less(table["offset"], table["bound"]), False).to_numpy()
    mixed = np.full(len(table), _SALT)
    for name in ("offset", "producer_id", "seq"):
        mixed ^= pc.fill_null(table[name], -1).to_numpy().astype(np.int64).view(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    halves = (mixed & np.uint64(2**32 - 1), mixed >> np.uint64(32))
    for name, values in zip(CONTENT, (below, *(half * below for half in halves)), strict=True):
        table = table.append_column(name, pa.array(values.astype(np.int64)))
    sums = [("offset", "count"), ("offset", "min"), ("offset", "max"), *((name, "sum") for name in CONTENT)]
    sums += [(column, function) for column, function, _ in more]
    names = [*keys, "rows", "lowest", "highest", *CONTENT, *(name for *_, name in more)]
    return table.group_by(keys).aggregate(sums).rename_columns(names)
