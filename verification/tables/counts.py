"""Counts the facts of a run with Spark: per lane and partition, the number of rows and their highest offsets.

Guarantee: every row that Spark read is counted once, so the sums can be compared with the files' footers. Unknown
lanes, partitions and outcomes are refused, with the file that holds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts, ReplicaFacts
from kafka_chaos.verification.tables.history import OK, OUTCOME_CODE, READ, SENT, STORED, local_frame
from kafka_chaos.verification.tables.refusals import refuse_outcome, refuse_partition, refuse_stray_lane

ENDS = schema("lane string, partition int32, read_end int64, end_reached boolean")


def gather_facts(run: RunDirectory, frames: Frames) -> dict[str, LaneFacts]:
    """Counts and ends per lane and partition, in one job. Raises `RunDirectoryError` for stray values."""
    return facts_of(run, frames, (row.asDict() for row in _facts(frames).collect()))


def _facts(frames: Frames) -> DataFrame:
    nothing = ("cast(NULL AS int)", "cast(NULL AS bigint)")
    place = ("lane", "partition", "offset")
    rows = frames.produced.selectExpr(*place, f"{SENT} AS source", f"{OUTCOME_CODE} AS outcome", "complete_ns AS stamp")
    rows = rows.union(frames.consumed.selectExpr(*place, f"{READ}", *nothing))
    if frames.log is not None:
        rows = rows.union(frames.log.selectExpr(*place, f"{STORED}", *nothing))
    sent, ok = f"source = {SENT}", f"source = {SENT} AND outcome = {OK}"
    columns = {
        "produced": f"count_if({sent})",
        "acknowledged": f"count_if({ok})",
        "consumed": f"count_if(source = {READ})",
        "stored": f"count_if(source = {STORED})",
        "bad_outcomes": f"count_if({sent} AND outcome IS NULL)",
        "unplaced": f"count_if({ok} AND (partition IS NULL OR offset IS NULL))",
        "first_acknowledged_ns": f"min(IF({ok}, stamp, NULL))",
        "acknowledged_end": f"max(IF({ok}, offset, NULL))",
        "read_end": f"max(IF(source = {READ}, offset, NULL))",
        "log_end": f"max(IF(source = {STORED}, offset, NULL))",
    }
    return rows.groupBy("lane", "partition").agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))


def packed_facts(packed: DataFrame) -> DataFrame:
    """The same facts from the runs of the three tables (`encoding.Packing`), as rows that `facts_of` reads.

    Produced rows are counted by lane only, under no partition: with a final log the ends of partitions are those of the
    log.
    """
    columns = {
        "lowest_partition": "min(sent_to)",
        "highest_partition": "max(sent_to)",
        "produced": f"sum(IF(source = {SENT}, n, 0L))",
        "acknowledged": f"sum(IF(source = {SENT} AND outcome = {OK}, n, 0L))",
        "bad_outcomes": f"sum(IF(source = {SENT} AND outcome IS NULL, n, 0L))",
        "consumed": f"sum(IF(source = {READ}, n, 0L))",
        "stored": f"sum(IF(source = {STORED}, n, 0L))",
        "doubled": f"sum(IF(source = {STORED}, n - bit_count(bits), 0L))",
        "unplaced": f"sum(IF(source = {SENT} AND outcome = {OK} AND (sent_to IS NULL OR last IS NULL), n, 0L))",
        "first_acknowledged_ns": f"min(IF(outcome = {OK}, first_complete_ns, NULL))",
        "read_end": f"max(IF(source = {READ}, last, NULL))",
        "log_end": f"max(IF(source = {STORED}, last, NULL))",
    }
    rows = packed.selectExpr(
        "lane",
        f"IF(source = {SENT}, NULL, partition) AS partition",
        f"IF(source = {SENT}, partition, NULL) AS sent_to",
        "source",
        "bits",
        "outcome",
        "n",
        "first_complete_ns",
        "last",
    )
    return rows.groupBy("lane", "partition").agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))


def facts_of(run: RunDirectory, frames: Frames, rows: Iterable[Mapping[str, Any]]) -> dict[str, LaneFacts]:
    """The facts from the rows of `packed_facts`, without nulls. Raises for stray values."""
    partitions: dict[str, dict[int | None, PartitionFacts]] = {}
    counts = {lane.lane: lane.partitions for lane in run.lanes}
    for row in rows:
        found = dict(row)
        lane, partition = found.pop("lane", None), found.pop("partition", None)
        if lane not in counts:
            refuse_stray_lane(run, frames, list(counts))
        if found.pop("bad_outcomes"):
            refuse_outcome(run, frames)
        for number in (partition, found.pop("lowest_partition", None), found.pop("highest_partition", None)):
            if number is not None and not 0 <= number < counts[lane]:
                refuse_partition(run, frames, lane, number)
        partitions.setdefault(lane, {})[partition] = PartitionFacts(**found, **_committed(frames, lane, partition))
    return {lane: LaneFacts(places) for lane, places in partitions.items()}


def _committed(frames: Frames, lane: str, partition: int | None) -> dict[str, Any]:
    """How far a partition of a transactional lane is committed, and read by those who are given everything."""
    ends = frames.ends
    if partition is None or lane not in ends.lanes:
        return {}
    place = (lane, partition)
    return {
        "is_transactional": True,
        "committed_end": ends.committed.get(place),
        "uncommitted_read_end": ends.read.get(place),
    }


def ends(spark: SparkSession, facts: Mapping[str, LaneFacts], *, final_log: bool) -> DataFrame:
    """ENDS: per partition the highest offset read, and whether some consumer read the partition to its end."""
    rows = [
        (lane, partition, partition_facts.read_end, partition_facts.end_reached(final_log=final_log))
        for lane, lane_facts in facts.items()
        for partition, partition_facts in lane_facts.partitions.items()
        if partition is not None
    ]
    return local_frame(spark, ENDS, rows)


def with_replicas(run: RunDirectory, frames: Frames, facts: Mapping[str, LaneFacts]) -> dict[str, LaneFacts]:
    """The facts with those of replicas/, by partition and broker. Raises `RunDirectoryError` for stray values."""
    if frames.replica_sums is None:
        return dict(facts)
    counts = {lane.lane: lane.partitions for lane in run.lanes}
    found: dict[str, dict[int, dict[int, ReplicaFacts]]] = {}
    columns = (F.sum("n").alias("rows"), F.min("first").alias("first"), F.max("last").alias("last"))
    for row in frames.replica_sums.groupBy("lane", "partition", "broker").agg(*columns).collect():
        if row.lane not in counts:
            refuse_stray_lane(run, frames, list(counts))
        if not 0 <= row.partition < counts[row.lane]:
            refuse_partition(run, frames, row.lane, row.partition)
        replica = ReplicaFacts(row.rows, row["first"], row["last"])
        found.setdefault(row.lane, {}).setdefault(row.partition, {})[row.broker] = replica
    lanes = {**dict.fromkeys(found, LaneFacts()), **facts}
    return {lane: replace(seen, replicas=found.get(lane, {})) for lane, seen in lanes.items()}


def with_unjudged(run: RunDirectory, records: DataFrame | None, facts: Mapping[str, LaneFacts]) -> dict[str, LaneFacts]:
    """The facts with the acknowledged records (of RECORDS) whose fate nothing shows.

    A complete final log shows it: a record that is absent is lost. If records are deleted, or there is no log, a record
    must have been read, or, without a log, passed by a read.
    """
    doubtful = [lane.lane for lane in run.lanes if _may_be_unjudged(run, lane)]
    if records is None or not doubtful:
        return dict(facts)
    shown = "first_in_log IS NOT NULL" if run.has_log else "coalesce(acknowledged_passed, false)"
    unjudged = records.where(F.col("lane").isin(doubtful)).where(
        f"outcome = {OK} AND first_read IS NULL AND NOT ({shown})"
    )
    counts = {row.lane: row["count"] for row in unjudged.groupBy("lane").count().collect()}
    return {lane: replace(seen, unjudged=counts.get(lane, 0)) for lane, seen in facts.items()}


def _may_be_unjudged(run: RunDirectory, lane: Lane) -> bool:
    return not run.has_log or lane.cleanup_policy is not None


def with_doubled(seen: DataFrame, facts: Mapping[str, LaneFacts]) -> dict[str, LaneFacts]:
    """The facts with the rows of log/ that repeat another one, counted in OCCURRENCES."""
    again = (
        seen.where("stored_copies > 1").groupBy("lane", "partition").agg(F.expr("sum(stored_copies - 1) AS doubled"))
    )
    rows = {(row.lane, row.partition): row.doubled for row in again.collect()}
    return {
        lane: replace(
            of_lane,
            partitions={
                number: replace(partition, doubled=rows.get((lane, number), 0))
                for number, partition in of_lane.partitions.items()
            },
        )
        for lane, of_lane in facts.items()
    }
