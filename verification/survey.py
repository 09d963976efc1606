"""The survey of a run: reads its tables, counts its facts, and selects the rows that anomalies are judged on.

Guarantee: the method never changes a case. `survey_of` chooses it by the tables of the run and by a small sample.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.agreement.pieces import Agreement, agreement_of
from kafka_chaos.verification.agreement.survey import Given, by_blocks
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.run_length.sampling import read_sample, stored_sample
from kafka_chaos.verification.run_length.stride import Stride, strides
from kafka_chaos.verification.run_length.survey import by_runs
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables import counts, evidence, history
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.refusals import require_unique_identities
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, Method, Scope, Survey, keep, keys


def agreement_for(run: RunDirectory, frames: Frames, *, method: Method | None = None) -> Agreement | None:
    """What produced/ and the log agree on, if that is what the run is to be examined by; None if not."""
    if frames.log is None or (method is None and evidence.is_small(run)):
        return None
    if method is None and frames.transactions is None and _strides(run, frames) is not None:
        return None
    return agreement_of(run, frames, frames.log) if method in (None, Method.BLOCKS) else None


def survey_of(
    spark: SparkSession,
    run: RunDirectory,
    frames: Frames,
    agreement: Agreement | None = None,
    given: Given | None = None,
    *,
    method: Method | None = None,
) -> Survey:
    """The survey of a run. Raises `RunDirectoryError` for stray values.

    `agreement`: `agreement_for` the run; `given`: what is known of its transactional lanes. `method`: how to examine a
    run without; by default, the history decides.
    """
    if frames.log is None or method == Method.ROWS:
        return _with_markers(run, by_rows(spark, run, frames))
    if agreement is not None:
        return by_blocks(spark, run, frames, frames.log, agreement, given or Given())
    return _with_markers(run, by_runs(spark, run, frames, frames.log, _strides(run, frames) or {}))


def _with_markers(run: RunDirectory, survey: Survey) -> Survey:
    """The survey, in which the offsets of the log include those that the markers of transactions take."""
    runs, markers = survey.scope.runs, survey.frames.markers
    if runs is None:
        return survey
    if markers is not None:
        runs = runs.select("lane", "partition", "first", "last").union(history.single_runs(markers))
    runs = runs if evidence.is_small(run) else history.joined_runs(runs)
    return replace(survey, scope=replace(survey.scope, runs=runs))


def _strides(run: RunDirectory, frames: Frames) -> dict[str, Stride] | None:
    """The lanes' strides; for a small history they make no difference."""
    if evidence.is_small(run) or frames.log is None:
        return {}
    return strides(stored_sample(run, frames.log), read_sample(run, frames.consumed))


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
    stored, shown = history.places_in_log(seen), history.places_shown(seen)
    scope = Scope(
        seen=seen,
        records=keep(history.records(seen)),
        shown=shown if small else _of_several(shown),
        stored=stored,
        held=stored,
        polls=history.genuine(frames.consumed, history.phantoms(seen)) if small else _polls(frames.consumed, seen),
        consumed=frames.consumed,
        runs=None if frames.log is None else history.single_runs(frames.log),
    )
    return Survey(frames, facts, scope)


def _of_several(shown: DataFrame) -> DataFrame:
    """Of the places at which identities are shown, those with several; numbers aggregate without a sort."""
    ends = [F.expr(f"{best}({name}) AS {best}_{name}") for name in ("producer_id", "seq") for best in ("min", "max")]
    several = shown.groupBy(*POSITION).agg(*ends)
    several = several.where("min_producer_id != max_producer_id OR min_seq != max_seq").select(*POSITION)
    return shown.join(_selecting(several), list(POSITION), "left_semi")


def _polls(consumed: DataFrame, seen: DataFrame) -> DataFrame:
    """The reads of produced records; phantoms are few, if there are any."""
    return history.genuine(consumed, _selecting(history.phantoms(seen)))


def _selecting(table: DataFrame) -> DataFrame:
    """The table, computed now, as the selecting side of a join."""
    kept = keep(table)
    return keys(kept, few=kept.count() <= MOST_BROADCAST)
