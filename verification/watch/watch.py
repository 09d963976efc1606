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
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification import schemas
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, exact, listed, remove, write_text
from kafka_chaos.verification.run_length.encoding import WORD, Packing, lanes_frame
from kafka_chaos.verification.run_length.stride import Sampled, Stride, steps_of_lanes, usual_steps
from kafka_chaos.verification.tables.blocks import keep_salt
from kafka_chaos.verification.tables.evidence import tune, tuned
from kafka_chaos.verification.watch import words

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SECOND = 1_000_000_000
SAMPLED_ROWS = 20_000
_KAFKA_TIMEOUT_MS = "10000"


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
    run_dir: RunPath
    lanes: Sequence[Lane]
    state_dir: RunPath
    bootstrap_servers: str | None = None
    lateness_s: float = 30.0
    on_progress: Callable[[Progress], None] = lambda progress: None
    options: Mapping[str, str] = field(default_factory=dict)
    last: Progress | None = None

    def start(self, *, once: bool = False) -> StreamingQuery:
        """Begin. `once`: end after reading what exists now. The query's `awaitTermination` raises its errors."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        keep_salt(self.state_dir / "salt")
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
        keep_salt(self.state_dir / "salt")
        with tuned(self.spark, 0):
            lateness_ns = None if settled else int(self.lateness_s * SECOND)
            return self._progress(self.spark, batches[-1], lateness_ns=lateness_ns)

    @property
    def has_log(self) -> bool:
        """Whether there is a log/ beside the history."""
        return (self.run_dir / "log").is_dir()

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
        from kafka_chaos.verification.inputs.topics.kafka_log import decoded_log

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
            fresh = words.opened(packing, rows)
            counts = fresh.groupBy("lane_key").agg(
                F.sum(F.when(F.col("is_ok"), F.col("n")).otherwise(0)).alias("acknowledged"),
                F.sum(F.when(F.col("stored") != 0, F.col("n")).otherwise(0)).alias("kept"),
                F.max("last_ns").alias("newest_ns"),
            )
            folder = _folder(self.state_dir, number)
            places = fresh.select(*words.OPEN)
            if saved:
                before = self._state(spark, saved[-1])
                places = places.union(before["words"].select(*words.OPEN))
                counts = counts.union(before["counts"])
                closed = before["closed"]
            else:
                closed = places.where("false").select(
                    *WORD[:2], F.col("word").alias("first"), F.col("word").alias("last")
                )
            open_words, newly_closed = words.closed_apart(places, closed)
            open_words.write.mode("overwrite").parquet(str(folder / "words"))
            words.joined(closed.union(newly_closed)).write.mode("overwrite").parquet(str(folder / "closed"))
            sums = [F.sum("acknowledged"), F.sum("kept"), F.max("newest_ns")]
            names = ("lane_key", "acknowledged", "kept", "newest_ns")
            counts.groupBy("lane_key").agg(*sums).toDF(*names).coalesce(1).write.mode("overwrite").parquet(
                str(folder / "counts")
            )
            (folder / "whole").write_bytes(b"")
            self.last = self._progress(spark, number, lateness_ns=int(self.lateness_s * SECOND))
        for old in saved[:-1]:
            remove(_folder(self.state_dir, old))
        self.on_progress(self.last)

    def _packing(self, spark: SparkSession, stored: DataFrame) -> Packing:
        """How rows are packed into words. The first batch decides it, and it stays, since words must stay the same."""
        path = self.state_dir / "strides.json"
        if not path.exists():
            sample = stored.select("lane", "producer_id", "partition", "offset", "seq").limit(SAMPLED_ROWS).collect()
            found = usual_steps(steps_of_lanes(Sampled(*row) for row in sample))
            write_text(path, json.dumps({lane.lane: max(1, found.get(lane.lane, 1)) for lane in self.lanes}))
        return self._kept_packing(spark)

    def _state(self, spark: SparkSession, number: int) -> dict[str, DataFrame]:
        folder = _folder(self.state_dir, number)
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
        lost = {row.lane_key: row.n for row in words.lost(state["words"], late).collect()}
        twice = {row.lane_key: row.n for row in words.duplicates(state["words"], lanes_of).collect()}
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
        return Packing(strides, lanes_frame(spark, strides))


def _saved(state_dir: RunPath) -> list[int]:
    """The batches whose state is whole, oldest first."""
    return [int(folder.name) for folder in listed(state_dir / "state", "*") if (folder / "whole").exists()]


def _folder(state_dir: RunPath, batch: int) -> RunPath:
    return state_dir / "state" / f"{batch:012d}"
