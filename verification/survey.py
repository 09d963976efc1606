"""The survey of a run: reads its tables, counts its facts, and selects the rows that anomalies are judged on.

Guarantee: the method never changes a case. `survey_of` chooses it by the tables of the run and by a small sample.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.inputs.parquet import first_rows
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.run_length.stride import Sampled, Stride, strides
from kafka_chaos.verification.run_length.survey import by_runs
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables import counts, evidence, history
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.refusals import require_unique_identities
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, Method, Scope, Survey, keep, keys

SAMPLED_FILES, SAMPLED_ROWS = 8, 2048


def survey_of(spark: SparkSession, run: RunDirectory, frames: Frames, *, method: Method | None = None) -> Survey:
    """The survey of a run.

    `method`: how to examine it; by default, the history decides. Raises `RunDirectoryError` for stray values.
    """
    if frames.log is None or method == Method.ROWS:
        return by_rows(spark, run, frames)
    known = _strides(run, frames)
    if known is None and method is None:
        return by_rows(spark, run, frames)
    return by_runs(spark, run, frames, frames.log, known or {})


def _strides(run: RunDirectory, frames: Frames) -> dict[str, Stride] | None:
    """The lanes' strides; for a small history they make no difference."""
    if evidence.is_small(run):
        return {}
    stored = _sample(run, "log", frames.log, ("lane", "producer_id", "partition", "offset", "seq"))
    read = _sample(run, "consumed", frames.consumed, ("lane", "consumer", "partition", "offset", "poll_ns"))
    return strides(stored, read)


def _sample(run: RunDirectory, name: str, table: DataFrame | None, columns: tuple[str, ...]) -> Iterator[Sampled]:
    """The first rows of a few files, or of a table that does not come from files, as lane, chain, place and value."""
    files = run.tables[name].files
    if not files:
        rows = table.select(*columns).limit(SAMPLED_FILES * SAMPLED_ROWS).collect() if table is not None else []
        yield from (Sampled(*row) for row in rows)
        return
    few = min(len(files), SAMPLED_FILES)
    for index in range(few):
        yield from (Sampled(*row) for row in first_rows(files[index * len(files) // few], columns, SAMPLED_ROWS))


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
