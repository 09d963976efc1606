"""Counts the facts of a run with Spark: per lane and partition, the number of rows and their highest offsets, and the
replicas by blocks of offsets.

Guarantee: every row that Spark read is counted once, so the sums can be compared with the files' footers. Unknown
lanes, partitions and outcomes are refused, with the file that holds them. Two brokers that hold different rows of a
block differ in its sums, unless two different contents of a block have the same number of rows and the same sum of
64-bit hashes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.transactions import ABORT, COMMIT, DATA, RECORD_KINDS
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import POSITION, schema
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.tables.blocks import hashed
from kafka_chaos.verification.tables.evidence import Frames, is_large, is_small
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts, ReplicaFacts
from kafka_chaos.verification.tables.history import OK, OUTCOME_CODE, READ, SENT, STORED, gathered, local_frame
from kafka_chaos.verification.tables.refusals import refuse_outcome, require_place
from kafka_chaos.verification.tables.scope import keep

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
    for row in rows:
        found = dict(row)
        lane, partition = found.pop("lane", None), found.pop("partition", None)
        limits = (found.pop(name, None) for name in ("lowest_partition", "highest_partition"))
        require_place(run, frames, lane, partition, *limits)
        if found.pop("bad_outcomes"):
            refuse_outcome(run, frames)
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
    found: dict[str, dict[int, dict[int, ReplicaFacts]]] = {}
    columns = (F.sum("n").alias("rows"), F.min("first").alias("first"), F.max("last").alias("last"))
    for row in frames.replica_sums.groupBy("lane", "partition", "broker").agg(*columns).collect():
        require_place(run, frames, row.lane, row.partition)
        replica = ReplicaFacts(row.rows, row["first"], row["last"])
        found.setdefault(row.lane, {}).setdefault(row.partition, {})[row.broker] = replica
    lanes = {**dict.fromkeys(found, LaneFacts()), **facts}
    return {lane: replace(seen, replicas=found.get(lane, {})) for lane, seen in lanes.items()}


def with_unjudged(run: RunDirectory, records: DataFrame | None, facts: Mapping[str, LaneFacts]) -> dict[str, LaneFacts]:
    """The facts with the acknowledged records (of RECORDS) whose fate nothing shows.

    A complete final log shows it: a record that is absent is lost. If records are deleted, or there is no log, a record
    must have been read, or, without a log, passed by a read.
    """
    doubtful = [lane.lane for lane in run.lanes if not run.has_log or lane.cleanup_policy is not None]
    if records is None or not doubtful:
        return dict(facts)
    shown = "first_in_log IS NOT NULL" if run.has_log else "coalesce(acknowledged_passed, false)"
    unjudged = records.where(F.col("lane").isin(doubtful)).where(
        f"outcome = {OK} AND first_read IS NULL AND NOT ({shown})"
    )
    counts = {row.lane: row["count"] for row in unjudged.groupBy("lane").count().collect()}
    return {lane: replace(seen, unjudged=counts.get(lane, 0)) for lane, seen in facts.items()}


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


DIFFER = "min(n) != max(n) OR min(content) != max(content)"
"""Whether brokers differ, of the sums of one block."""
_KEYS = ("lane", "partition", "block")
_KIND = f"nullif(kind, '{DATA}')"
_KINDS = ", ".join(f"'{kind}'" for kind in RECORD_KINDS)


def summed(run: RunDirectory, frames: Frames) -> Frames:
    """The tables, with what is known of `replicas` by blocks, and with the markers in it."""
    if frames.replicas is None:
        return frames
    small = is_small(run)
    sums = keep(gathered(block_sums(frames.replicas), small=small), small=small)
    found = markers(frames.replicas, None if small else sums)
    if frames.transactions is not None:
        found = keep(found, small=small, large=is_large(run))
    return replace(frames, replica_sums=sums, markers=found)


def block_sums(replicas: DataFrame) -> DataFrame:
    """REPLICAS to one row per lane, partition, broker and block.

    `n`: its rows; `content`: the sum of their hashes; `first` and `last` offset; `kinds`: rows that tell their kind,
    `markers`: those that are markers, `bad`: those of an unknown kind.
    """
    columns = {
        "n": "count(1)",
        # A sum, since no order of the rows is given; it may overflow, which changes nothing about equality.
        "content": f"sum({hashed('offset', 'leader_epoch', 'producer_id', 'seq', _KIND)})",
        "first": "min(offset)",
        "last": "max(offset)",
        "kinds": "count(kind)",
        "markers": f"count_if(kind IN ('{COMMIT}', '{ABORT}'))",
        "bad": f"count_if(kind NOT IN ({_KINDS}))",
    }
    rows = replicas.selectExpr("*", blocks.block_of())
    return rows.groupBy("lane", "partition", "broker", "block").agg(
        *(F.expr(f"{text} AS {name}") for name, text in columns.items())
    )


def suspects(replicas: DataFrame, sums: DataFrame, limits: DataFrame) -> DataFrame | None:
    """The rows of `replicas` in blocks in which two brokers may differ below their limit; None if there are none.

    `limits`: lane, partition, limit: only offsets below the limit count. A block on both sides of it is in doubt.
    """
    below = sums.join(F.broadcast(limits), ["lane", "partition"]).where("first < limit")
    compared = below.groupBy(*_KEYS).agg(F.expr(f"max(last >= limit) OR {DIFFER} AS differs"))
    differing = keep(compared.where("differs").select(*_KEYS))
    return None if differing.isEmpty() else blocks.within(replicas, differing, ("lane", "partition"))


def markers(replicas: DataFrame, sums: DataFrame | None) -> DataFrame:
    """The markers that end transactions: POSITION, producer_id, kind.

    With `sums`, where all brokers hold the same, the markers of one of them.
    """
    rows = replicas.where(F.col("kind").isin(COMMIT, ABORT))
    if sums is not None:
        placed = rows.selectExpr("*", blocks.block_of()).join(F.broadcast(_lowest(sums)), list(_KEYS))
        rows = placed.where(_COUNTS)
    return rows.select(*POSITION, "producer_id", "kind")


_COUNTS = "differs OR broker = lowest"
"""Whether the markers of a broker count, joined with `_lowest`."""


def _lowest(sums: DataFrame) -> DataFrame:
    """By block the lowest broker, and whether brokers differ."""
    return sums.groupBy(*_KEYS).agg(F.expr("min(broker) AS lowest"), F.expr(f"{DIFFER} AS differs"))
