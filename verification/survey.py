"""The survey of a run: its tables read, its facts counted, and what its anomalies are to be judged on.

Guarantee: which way is taken never changes a case; `survey_of` chooses by what is there and by a small sample.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification import evidence, history
from kafka_chaos.verification.block_survey import by_blocks
from kafka_chaos.verification.evidence import Frames
from kafka_chaos.verification.pace import Pace, paces
from kafka_chaos.verification.run_directory import RunDirectory
from kafka_chaos.verification.scope import Method, Scope, Survey, keep
from kafka_chaos.verification.stretch_survey import by_stretches


def survey_of(spark: SparkSession, run: RunDirectory, frames: Frames, *, method: Method | None = None) -> Survey:
    """The survey of a run.

    `method`: how to go through it; default, by what is there. Raises `RunDirectoryError` for stray values.
    """
    if frames.log is None or method == Method.ROWS:
        return by_rows(spark, run, frames)
    if method == Method.BLOCKS:
        return by_blocks(spark, run, frames, frames.log)
    known = _paces(spark, run)
    if known is None and method is None:
        return by_blocks(spark, run, frames, frames.log)
    return by_stretches(spark, run, frames, frames.log, known or {})


def _paces(spark: SparkSession, run: RunDirectory) -> dict[str, Pace] | None:
    """The lanes' paces; how a small history packs makes no difference."""
    if evidence.is_small(run):
        return {}
    rows = sum(run.rows.values())
    evidence.tune(spark, 0)
    try:
        return paces(spark, run.file_names("log"), run.file_names("consumed"))
    finally:
        evidence.tune(spark, rows)


def by_rows(spark: SparkSession, run: RunDirectory, frames: Frames) -> Survey:
    """Everything is looked at row by row."""
    facts = evidence.gather_facts(run, frames)
    ends = evidence.ends(spark, facts, final_log=run.has_log)
    small = evidence.is_small(run)
    seen = keep(history.sightings(frames.produced, frames.consumed, frames.log, ends, small=small))
    if seen.where(F.col("copies") > 1).limit(1).collect():
        evidence.require_unique_identities(run, frames)
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
