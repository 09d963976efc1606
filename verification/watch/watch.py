"""Counts losses and duplicates during a run: Structured Streaming over its growing history and its log.

Guarantee: after everything was read, the counts of `lost_write` and `duplicate` equal those of `verify` on the same
rows. Between batches, only the open words of identities are kept: words whose 64 records are not all sent and stored
exactly once. So the state grows with the records in flight and with the anomalies, not with the length of the run. It
lies beside the stream's own checkpoint and belongs to one batch, so a killed watch continues where it ended.

The log is read live from the topics, or from log/ as that grows. If an election truncates a record that was already
read from the log, the record still counts as stored: only `verify` on the final log detects that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.verification import schemas
from kafka_chaos.verification.evidence import tune, tuned
from kafka_chaos.verification.history import FAIL, OK
from kafka_chaos.verification.inputs.storage import exact
from kafka_chaos.verification.run_length import encoding
from kafka_chaos.verification.run_length import stride as stride
from kafka_chaos.verification.run_length.encoding import WORD, Packing
from kafka_chaos.verification.run_length.stride import Stride

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FULL = -1
"""A word in which all 64 bits are set."""
SECOND = 1_000_000_000
_KAFKA_TIMEOUT_MS = "10000"
_OPEN = (*WORD, "partition", "shift", "sent", "ok", "failed", "stored", "n_sent", "last_ns", "closed")


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """The counts of a lane so far. `lost`: acknowledged longer ago than the lateness, and not in the log."""

    acknowledged: int = 0
    stored: int = 0
    lost: int = 0
    duplicate: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """After a batch: counts by lane, and the number of open words that are kept."""

    batch: int
    lanes: Mapping[str, LaneCounts]
    open_words: int


@dataclass(slots=True)
class Watch:
    """A watch over the run directory `run_dir` with its `lanes`.

    `state_dir`: the folder of the stream's checkpoint and the open words. `lateness_s`: how long a record may be
    missing from the log, measured by the newest acknowledgement of its lane. `bootstrap_servers`: the cluster whose
    topics are read; None: log/ is read instead. `on_progress` is called after every batch.
    """

    spark: SparkSession
    run_dir: Path
    lanes: Sequence[Lane]
    state_dir: Path
    bootstrap_servers: str | None = None
    lateness_s: float = 30.0
    on_progress: Callable[[Progress], None] = lambda progress: None
    options: Mapping[str, str] = field(default_factory=dict)
    last: Progress | None = None

    def start(self, *, once: bool = False) -> StreamingQuery:
        """Begin. `once`: end after reading what exists now. The query's `awaitTermination` raises its errors."""
        for table in ("produced", *(() if self.bootstrap_servers else ("log",))):
            (self.run_dir / table).mkdir(parents=True, exist_ok=True)
        writer = (
            self._rows()
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self.state_dir / "stream"))
            .outputMode("append")
        )
        return (writer.trigger(availableNow=True) if once else writer).start()

    def final(self, *, settled: bool = True) -> Progress:
        """The counts now. `settled`: everything has arrived, so a missing record is lost at once."""
        batches = _saved(self.state_dir)
        if not batches:
            return Progress(-1, {lane.lane: LaneCounts() for lane in self.lanes}, 0)
        with tuned(self.spark, 0):
            lateness_ns = None if settled else int(self.lateness_s * SECOND)
            return self._progress(self.spark, batches[-1], lateness_ns=lateness_ns)

    # ------------------------------------------------------------ sources

    def _rows(self) -> DataFrame:
        """produced/ and the log as one stream: LOG's columns, outcome, complete_ns, is_stored."""
        columns = ("lane", "producer_id", "seq", "partition", "offset")
        produced = self._files("produced", schemas.PRODUCED)
        sent = produced.select(*columns, "outcome", "complete_ns", F.lit(False).alias("is_stored"))
        log = self._topics() if self.bootstrap_servers else self._files("log", schemas.LOG)
        none = F.lit(None)
        stored = log.select(*columns, none.cast("string"), none.cast("bigint"), F.lit(True))
        return sent.union(stored.toDF(*sent.columns))

    def _files(self, table: str, schema: Any) -> DataFrame:
        return self.spark.readStream.schema(schema).parquet(exact(self.run_dir / table))

    def _topics(self) -> DataFrame:
        from kafka_chaos.verification.inputs.kafka_log import decoded_log

        topics = {lane.topic or lane.lane: lane.lane for lane in self.lanes}
        source = {
            "kafka.bootstrap.servers": str(self.bootstrap_servers),
            "kafka.isolation.level": "read_uncommitted",
            # By pattern: topics of later phases do not exist yet, and asking for one by name may create it.
            "subscribePattern": "|".join(name.replace(".", r"\.") for name in topics),
            "kafka.allow.auto.create.topics": "false",
            "kafka.default.api.timeout.ms": _KAFKA_TIMEOUT_MS,
            "kafka.request.timeout.ms": _KAFKA_TIMEOUT_MS,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            # A truncated log has lower offsets: this project provokes that.
            "failOnDataLoss": "false",
            **self.options,
        }
        records = self.spark.readStream.format("kafka").options(**source).load()
        lane = F.create_map(*(F.lit(text) for pair in topics.items() for text in pair))[F.col("topic")]
        return decoded_log(records.withColumn("lane", lane))

    # -------------------------------------------------------------- batches

    def _take(self, batch: DataFrame, number: int) -> None:
        """One batch: turns the open words before it and its rows into the open words after it."""
        # The stream has its own session, and so its own settings.
        spark = batch.sparkSession
        with tuned(spark, 0):
            saved = [before for before in _saved(self.state_dir) if before < number]
            rows = batch.localCheckpoint(eager=True)
            tune(spark, rows.count())
            packing = self._packing(spark, rows.where("is_stored"))
            fresh = _opened(packing, rows)
            counts = fresh.groupBy("lane_key").agg(
                F.sum(F.when(F.col("is_ok"), F.col("n")).otherwise(0)).alias("acknowledged"),
                F.sum(F.when(F.col("stored") != 0, F.col("n")).otherwise(0)).alias("kept"),
                F.max("last_ns").alias("newest_ns"),
            )
            folder = self.state_dir / "state" / f"{number:012d}"
            words = fresh.select(*_OPEN)
            if saved:
                before = self._state(spark, saved[-1])
                words = words.union(before["words"].select(*_OPEN))
                counts = counts.union(before["counts"])
                closed = before["closed"]
            else:
                closed = words.where("false").select(
                    *WORD[:2], F.col("word").alias("first"), F.col("word").alias("last")
                )
            open_words, newly_closed = _closed(words, closed)
            open_words.write.mode("overwrite").parquet(str(folder / "words"))
            _joined(closed.union(newly_closed)).write.mode("overwrite").parquet(str(folder / "closed"))
            sums = [F.sum("acknowledged"), F.sum("kept"), F.max("newest_ns")]
            names = ("lane_key", "acknowledged", "kept", "newest_ns")
            counts.groupBy("lane_key").agg(*sums).toDF(*names).coalesce(1).write.mode("overwrite").parquet(
                str(folder / "counts")
            )
            (folder / "whole").touch()
            self.last = self._progress(spark, number, lateness_ns=int(self.lateness_s * SECOND))
        for old in saved[:-1]:
            _remove(self.state_dir, old)
        self.on_progress(self.last)

    def _packing(self, spark: SparkSession, stored: DataFrame) -> Packing:
        """How rows are packed into words. The first batch decides it, and it stays, since words must stay the same."""
        path = self.state_dir / "strides.json"
        if not path.exists():
            found = stride.usual_steps(stored.limit(50_000).withColumn("value", F.col("seq")), "producer_id")
            strides = {row.lane: max(1, row.usual or 1) for row in found.collect()}
            path.write_text(json.dumps({lane.lane: strides.get(lane.lane, 1) for lane in self.lanes}), "utf-8")
        return self._kept_packing(spark)

    def _state(self, spark: SparkSession, number: int) -> dict[str, DataFrame]:
        folder = self.state_dir / "state" / f"{number:012d}"
        return {name: spark.read.parquet(exact(folder / name)) for name in ("words", "closed", "counts")}

    def _progress(self, spark: SparkSession, number: int, *, lateness_ns: int | None) -> Progress:
        state = self._state(spark, number)
        lanes_of = self._kept_packing(spark).lanes
        names = {row.lane_key: row.lane for row in lanes_of.collect()}
        found = {row.lane_key: row for row in state["counts"].collect()}
        late = F.lit(True)
        if lateness_ns is not None:
            newest = F.broadcast(state["counts"].select("lane_key", "newest_ns"))
            state["words"] = state["words"].join(newest, "lane_key", "left")
            late = F.coalesce(F.col("last_ns") <= F.col("newest_ns") - lateness_ns, F.lit(False))
        lost = {row.lane_key: row.n for row in _lost(state["words"], late).collect()}
        twice = {row.lane_key: row.n for row in _duplicates(state["words"], lanes_of).collect()}
        lanes = {
            name: LaneCounts(
                acknowledged=found[key].acknowledged if key in found else 0,
                stored=found[key].kept if key in found else 0,
                lost=lost.get(key, 0),
                duplicate=twice.get(key, 0),
            )
            for key, name in names.items()
        }
        return Progress(number, lanes, state["words"].select(*WORD).distinct().count())

    def _kept_packing(self, spark: SparkSession) -> Packing:
        known = json.loads((self.state_dir / "strides.json").read_text("utf-8"))
        strides = {lane: Stride(stride, 1) for lane, stride in known.items()}
        return Packing(strides, encoding.lanes_frame(spark, strides))


# ------------------------------------------------------------------ words


def _opened(packing: Packing, rows: DataFrame) -> DataFrame:
    """A batch's rows as places of words: _OPEN, lane_key, n, is_ok."""
    nothing = F.lit(0).cast("bigint")

    def places(table: DataFrame, **columns: Column) -> DataFrame:
        names = ("sent", "ok", "failed", "stored", "n_sent", "last_ns")
        filled = (columns.get(name, nothing).cast("bigint").alias(name) for name in names)
        is_ok = columns.get("is_ok", F.lit(False)).alias("is_ok")
        return table.select(*WORD, "partition", "shift", *filled, F.lit(False).alias("closed"), "n", is_ok)

    bits, outcome = F.col("bits"), F.col("outcome")
    known = F.col("lane").isNotNull()
    sent = packing.sent(rows.where(~F.col("is_stored"))).where(known)
    stored = packing.stored(rows.where("is_stored")).where(known)
    return places(
        sent,
        sent=bits,
        ok=F.when(outcome == OK, bits).otherwise(nothing),
        failed=F.when(outcome == FAIL, bits).otherwise(nothing),
        n_sent=F.col("n"),
        last_ns=F.col("first_complete_ns"),
        is_ok=F.coalesce(outcome == OK, F.lit(False)),
    ).union(places(stored, stored=bits))


def _closed(words: DataFrame, closed: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The words that stay open, and those that are done: all 64 sent, none as a fail, each stored at one place.

    A record of a word that was closed before is another copy; it stays, and is marked.
    """
    sums = [F.bit_or(name).alias(name) for name in ("sent", "ok", "failed", "stored")]
    places = words.groupBy(*WORD, "partition", "shift").agg(
        *sums, F.sum("n_sent").alias("n_sent"), F.max("last_ns").alias("last_ns"), F.max("closed").alias("closed")
    )
    ranges = closed.withColumnsRenamed({"lane_key": "of_lane", "producer_id": "of_producer"})
    within = (
        (F.col("lane_key") == F.col("of_lane"))
        & (F.col("producer_id") == F.col("of_producer"))
        & (F.col("word") >= F.col("first"))
        & (F.col("word") <= F.col("last"))
    )
    marked = places.join(F.broadcast(ranges), within, "left").withColumn(
        "closed", F.col("closed") | F.col("of_lane").isNotNull()
    )
    marked = marked.select(*_OPEN).localCheckpoint(eager=True)
    whole = marked.groupBy(*WORD).agg(
        F.bit_or("sent").alias("sent"),
        F.bit_or("failed").alias("failed"),
        F.bit_or("stored").alias("stored"),
        F.sum(F.bit_count("stored")).alias("places"),
        F.max("closed").alias("closed"),
    )
    is_done = (F.col("sent") == FULL) & (F.col("stored") == FULL) & (F.col("places") == 64) & (F.col("failed") == 0)
    done = whole.where(is_done & ~F.col("closed")).select(*WORD).localCheckpoint(eager=True)
    still_open = marked.join(done, list(WORD), "left_anti")
    return still_open, done.select(*WORD[:2], F.col("word").alias("first"), F.col("word").alias("last"))


def _joined(ranges: DataFrame) -> DataFrame:
    """Ranges of closed words in which neighbours are one range."""
    from pyspark.sql import Window

    order = Window.partitionBy(*WORD[:2]).orderBy("first")
    begins = F.coalesce(F.col("first") > F.lag("last").over(order) + 1, F.lit(True)).cast("int")
    numbered = ranges.withColumn("begins", begins).withColumn("island", F.sum("begins").over(order))
    return (
        numbered.groupBy(*WORD[:2], "island")
        .agg(F.min("first").alias("first"), F.max("last").alias("last"))
        .drop("island")
    )


def _lost(words: DataFrame, late: Column) -> DataFrame:
    """lane_key and `n`: acknowledged identities of open words that are stored nowhere, where `late` holds."""
    missing = words.withColumn("late_ok", F.when(late, F.col("ok")).otherwise(0)).groupBy(*WORD)
    bits = missing.agg(
        F.bit_or("late_ok").alias("ok"), F.bit_or("stored").alias("stored"), F.max("closed").alias("closed")
    )
    lost = F.bit_count(F.col("ok").bitwiseAND(F.bitwise_not("stored")))
    return bits.where(~F.col("closed")).groupBy("lane_key").agg(F.sum(lost).alias("n"))


def _duplicates(words: DataFrame, lanes: DataFrame) -> DataFrame:
    """lane_key and `n`: identities of open words that are stored at two places, or again after theirs was closed."""
    kept = words.where("stored != 0").withColumn("bits", F.col("stored"))
    known = words.groupBy(*WORD).agg(F.bit_or("sent").alias("known"), F.max("closed").alias("known_closed"))
    wide = kept.join(known, list(WORD)).join(F.broadcast(lanes), "lane_key")
    ends = [F.lit(None).alias(name) for name in ("first", "last", "first_seq", "last_seq", "whole")]
    bit = "(known >> cast(pmod((seq - pmod(word_of, stride_of)) div stride_of, 64) as int)) & 1 = 1"
    rows = wide.select(
        "*", F.lit(0).alias("n"), F.col("word").alias("word_of"), F.col("stride").alias("stride_of"), *ends
    )
    records = encoding.members(rows.withColumn("key", F.col("lane_key")))
    genuine = records.where(F.col("known_closed") | F.expr(bit))
    copies = genuine.groupBy(F.col("key").alias("lane_key"), "producer_id", "seq", "known_closed").agg(
        F.count(F.lit(1)).alias("places")
    )
    return (
        copies.where(F.col("known_closed") | (F.col("places") > 1))
        .groupBy("lane_key")
        .agg(F.count(F.lit(1)).alias("n"))
    )


# ------------------------------------------------------------------ state


def _saved(state_dir: Path) -> list[int]:
    """The batches whose state is whole, oldest first."""
    return sorted(int(marker.parent.name) for marker in (state_dir / "state").glob("*/whole"))


def _remove(state_dir: Path, number: int) -> None:
    import shutil

    shutil.rmtree(state_dir / "state" / f"{number:012d}")
