"""The survey of a run: reads its tables, counts its facts, and selects the rows that anomalies are judged on.

Guarantee: the method never changes a case. `survey_of` chooses it by the tables of the run and by a small sample.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.blocks.survey import by_blocks
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.run_length.stride import SAMPLED_FILES, SAMPLED_ROWS, Stride, strides
from kafka_chaos.verification.run_length.survey import by_runs
from kafka_chaos.verification.schemas import TABLES
from kafka_chaos.verification.tables import counts, evidence, history
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.refusals import require_unique_identities
from kafka_chaos.verification.tables.scope import Method, Scope, Survey, keep


def survey_of(spark: SparkSession, run: RunDirectory, frames: Frames, *, method: Method | None = None) -> Survey:
    """The survey of a run.

    `method`: how to examine it; by default, the history decides. Raises `RunDirectoryError` for stray values.
    """
    if frames.log is None or method == Method.ROWS:
        return by_rows(spark, run, frames)
    if method == Method.BLOCKS:
        return by_blocks(spark, run, frames, frames.log)
    known = _strides(spark, run, frames)
    if known is None and method is None:
        return by_blocks(spark, run, frames, frames.log)
    return by_runs(spark, run, frames, frames.log, known or {})


def _strides(spark: SparkSession, run: RunDirectory, frames: Frames) -> dict[str, Stride] | None:
    """The lanes' strides; for a small history they make no difference."""
    if evidence.is_small(run):
        return {}
    rows = run.rows
    evidence.tune(spark, 0)
    try:
        return strides(_samples(spark, run, "log", frames.log), _samples(spark, run, "consumed", frames.consumed))
    finally:
        evidence.tune(spark, rows)


def _samples(spark: SparkSession, run: RunDirectory, name: str, table: DataFrame | None) -> list[DataFrame]:
    """The first rows of a few files, or of a table that does not come from files."""
    files = run.tables[name].files
    if not files:
        return [] if table is None else [table.limit(SAMPLED_FILES * SAMPLED_ROWS)]
    few = min(len(files), SAMPLED_FILES)
    chosen = [files[index * len(files) // few] for index in range(few)]
    return [evidence.read_files(spark, [file], TABLES[name]).limit(SAMPLED_ROWS) for file in chosen]


def by_rows(spark: SparkSession, run: RunDirectory, frames: Frames) -> Survey:
    """Every row is examined."""
    facts = counts.gather_facts(run, frames)
    ends = counts.ends(spark, facts, final_log=run.has_log)
    small = evidence.is_small(run)
    seen = keep(history.occurrences(frames.produced, frames.consumed, frames.log, ends, small=small))
    if seen.where(F.col("copies") > 1).limit(1).collect():
        require_unique_identities(run, frames)
    if frames.log is not None:
        facts = counts.with_doubled(seen, facts)
    stored = history.places_in_log(seen)
    scope = Scope(
        seen=seen,
        records=keep(history.records(seen)),
        shown=history.places_shown(seen),
        stored=stored,
        held=stored,
        polls=history.genuine(frames.consumed, history.phantoms(seen)),
        consumed=frames.consumed,
        runs=None if frames.log is None else history.single_runs(frames.log),
    )
    return Survey(frames, facts, scope)
