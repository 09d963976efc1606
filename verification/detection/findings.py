"""Finds, explains and counts all anomalies of a run: takes the tables, returns CASES and observations.

Guarantee: an anomaly that is not judged in a lane has no case there. The counts are sums over exactly the rows that are
written. Every lost or duplicated record has a cause, be it `unexplained`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.causes import CAUSED, Cause
from kafka_chaos.verification.detection import anomalies, causes
from kafka_chaos.verification.detection.replicas import suspects
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.causes import causes_of
from kafka_chaos.verification.judging.replicas import limit_of
from kafka_chaos.verification.judging.result import Observation
from kafka_chaos.verification.tables import history
from kafka_chaos.verification.tables.evidence import is_small
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, Survey

EXAMPLES = 5

_LIMITS = StructType(
    [
        StructField("lane", StringType()),
        StructField("partition", IntegerType()),
        StructField("limit", LongType()),
    ]
)


@dataclass(frozen=True, slots=True)
class Cases:
    """The CASES of a run, persisted so that counting and writing do not compute them twice; None if there are none.

    `observed`: count, first examples and causes per lane and anomaly; anomalies without a case are absent.
    """

    rows: DataFrame | None
    observed: Mapping[tuple[str, Anomaly], Observation] = field(default_factory=dict)


@contextmanager
def find(
    spark: SparkSession,
    run: RunDirectory,
    survey: Survey,
    skipped: Mapping[str, Mapping[Anomaly, str]],
) -> Iterator[Cases]:
    """The run's CASES, for as long as the block runs."""
    cases = _all_cases(spark, run, survey, skipped)
    if cases is None:
        yield Cases(None)
        return
    cases = cases.persist()
    try:
        observed = _observed(cases)
        caused = {key: seen.count for key, seen in observed.items() if key[1] in CAUSED}
        explanations = causes_of(run) if caused else []
        idempotent = {lane.lane for lane in run.lanes if lane.idempotence}
        doubled = [lane for lane, anomaly in caused if anomaly == Anomaly.DUPLICATE and lane in idempotent]
        replicas = survey.frames.replicas
        replicas = None if replicas is None or not doubled else replicas.where(F.col("lane").isin(doubled))
        if not explanations and replicas is None:
            nothing = {key: {Cause.UNEXPLAINED.value: count} for key, count in caused.items()}
            yield Cases(causes.unexplained(cases) if caused else cases, _with_causes(observed, nothing))
            return
        few = sum(caused.values()) <= MOST_BROADCAST
        explained = causes.explained(
            spark, cases, survey.frames.produced, explanations, few=few, replicas=replicas
        ).persist()
        try:
            yield Cases(explained, _with_causes(observed, causes.counts(explained)))
        finally:
            explained.unpersist()
    finally:
        cases.unpersist()


def _observed(cases: DataFrame) -> dict[tuple[str, Anomaly], Observation]:
    """Count and first examples per lane and anomaly."""
    kind = Window.partitionBy("lane", "anomaly")
    order = kind.orderBy("partition", "offset", "producer_id", "seq")
    rank = F.row_number().over(order).alias("rank")
    first = cases.select("*", rank, F.sum("units").over(kind).alias("count")).where(F.col("rank") <= EXAMPLES)
    counts: dict[tuple[str, Anomaly], int] = {}
    examples: dict[tuple[str, Anomaly], list[dict[str, int | None]]] = {}
    for row in sorted(first.collect(), key=lambda row: row.rank):
        key = (row.lane, Anomaly(row.anomaly))
        counts[key] = row["count"]
        example = {name: row[name] for name in ("partition", "offset", "producer_id", "seq")}
        examples.setdefault(key, []).append(example)
    return {key: Observation(count, tuple(examples[key])) for key, count in counts.items()}


def _with_causes(
    observed: Mapping[tuple[str, Anomaly], Observation], found: Mapping[tuple[str, Anomaly], Mapping[str, int]]
) -> dict[tuple[str, Anomaly], Observation]:
    return {key: replace(seen, causes=found.get(key, {})) for key, seen in observed.items()}


def _all_cases(
    spark: SparkSession,
    run: RunDirectory,
    survey: Survey,
    skipped: Mapping[str, Mapping[Anomaly, str]],
) -> DataFrame | None:
    scope, final_log = survey.scope, run.has_log
    replicas, reports = survey.frames.replicas, survey.frames.reports
    finders: dict[Anomaly, Callable[[], DataFrame]] = {}
    if (records := scope.records) is not None:
        finders[Anomaly.LOST_WRITE] = lambda: anomalies.lost_write(records, final_log=final_log)
        finders[Anomaly.DUPLICATE] = lambda: anomalies.duplicate(records)
        finders[Anomaly.FALSE_FAILURE] = lambda: anomalies.false_failure(records)
        finders[Anomaly.UNSEEN] = lambda: anomalies.unseen(records, final_log=final_log)
        if final_log:
            finders[Anomaly.OFFSET_MISMATCH] = lambda: anomalies.offset_mismatch(records)
            finders[Anomaly.TRUNCATED_READ] = lambda: anomalies.truncated_read(records)
    if (seen := scope.seen) is not None:
        finders[Anomaly.PHANTOM] = lambda: anomalies.phantom(seen)
    if (shown := scope.shown) is not None:
        finders[Anomaly.INCONSISTENT_OFFSET] = lambda: anomalies.inconsistent_offset(shown)
    if (stored := scope.stored) is not None:
        finders[Anomaly.REORDERED] = lambda: anomalies.reordered(stored, scope.ascending)
    if (polls := scope.polls) is not None and (consumed := scope.consumed) is not None:
        finders[Anomaly.NONMONOTONIC_POLL] = lambda: anomalies.nonmonotonic_poll(polls)
        if (held := scope.held) is not None:
            finders[Anomaly.SKIPPED_POLL] = lambda: anomalies.skipped_poll(polls, consumed, held)
    if (runs := scope.runs) is not None:
        finders[Anomaly.OFFSET_GAP] = lambda: anomalies.offset_gap(runs)
    if replicas is not None:
        limits = history.local_frame(spark, _LIMITS, _replica_limits(run, survey))
        if (compared := replicas if is_small(run) else suspects(replicas, limits)) is not None:
            finders[Anomaly.REPLICA_DIVERGENCE] = lambda: anomalies.replica_divergence(compared, limits)
    if reports is not None:
        finders[Anomaly.HIGH_WATERMARK_REGRESSION] = lambda: anomalies.high_watermark_regression(reports)
    found = []
    for anomaly, finder in finders.items():
        if anomaly in scope.proven:
            continue
        exempt = [lane for lane, reasons in skipped.items() if anomaly in reasons]
        if len(exempt) < len(run.lanes):
            found.append(finder().where(~F.col("lane").isin(exempt)) if exempt else finder())
    if not found:
        return None
    return history.gathered(reduce(DataFrame.unionByName, found), small=is_small(run))


def _replica_limits(run: RunDirectory, survey: Survey) -> list[tuple[str, int, int]]:
    marks = run.checkpoints.high_watermarks
    limits = (
        (lane, partition, limit_of(replicas, marks.get((lane, partition), {})))
        for lane, facts in survey.facts.items()
        for partition, replicas in facts.replicas.items()
    )
    return [(lane, partition, limit) for lane, partition, limit in limits if limit is not None]
