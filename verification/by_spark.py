"""The engine Spark: reads a run's tables as DataFrames, counts their facts, and examines the rows that a prefilter
can't prove clean.

Guarantee: the method of the prefilter never changes a case. `survey_of` chooses it by the tables of the run and by a
small sample.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.columns import FINDINGS, arrow_schema
from kafka_chaos.contract.command.progress import PARTS_BY_SPARK, progress
from kafka_chaos.verification import schemas
from kafka_chaos.verification.agreement.pieces import Agreement, agreement_of
from kafka_chaos.verification.agreement.survey import Given, by_blocks
from kafka_chaos.verification.closure.by_spark import unresolved_by_spark
from kafka_chaos.verification.detection import findings
from kafka_chaos.verification.groups import survey as of_groups
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, write_parquet
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.assessment import not_applied
from kafka_chaos.verification.judging.conclusion import Examined
from kafka_chaos.verification.output import write_rows
from kafka_chaos.verification.recovery import by_spark as of_recovery
from kafka_chaos.verification.run_length.stride import Stride, read_sample, stored_sample, strides
from kafka_chaos.verification.run_length.survey import by_runs
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables import counts, evidence, history, refusals
from kafka_chaos.verification.tables.evidence import Frames, is_small
from kafka_chaos.verification.tables.facts import LaneFacts
from kafka_chaos.verification.tables.refusals import require_unique_identities
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, Method, Scope, Survey, keep, keys
from kafka_chaos.verification.transactions import survey as of_transactions
from kafka_chaos.verification.transactions.dependencies import Cycles, find_cycles


def survey_of(
    spark: SparkSession,
    run: RunDirectory,
    frames: Frames,
    agreement: Agreement | None = None,
    given: Given | None = None,
    *,
    method: Method | None = None,
    known: Mapping[str, Stride] | None = None,
) -> Survey:
    """The survey of a run. Raises `RunDirectoryError` for stray values.

    `agreement`: that of produced/ and the log, if the run is to be examined by it; `given`: what is known of its
    transactional lanes; `known`: the lanes' strides. `method`: of a run without agreement, rows or (by default) runs.
    """
    if frames.log is None or method == Method.ROWS:
        return _with_markers(run, by_rows(spark, run, frames))
    if agreement is not None:
        return by_blocks(spark, run, frames, frames.log, agreement, given or Given())
    return _with_markers(run, by_runs(spark, run, frames, frames.log, known or {}))


def _with_markers(run: RunDirectory, survey: Survey) -> Survey:
    """The survey, in which the offsets of the log include those that the markers of transactions take."""
    runs, markers = survey.scope.runs, survey.frames.markers
    if runs is None:
        return survey
    if markers is not None:
        runs = runs.select("lane", "partition", "first", "last").union(history.single_runs(markers))
    runs = runs if evidence.is_small(run) else history.joined_runs(runs)
    return replace(survey, scope=replace(survey.scope, runs=runs))


def _strides(run: RunDirectory, frames: Frames, method: Method | None) -> dict[str, Stride] | None:
    """The lanes' strides if the history is to be examined by runs, else None; for a small one they are all the same."""
    if frames.log is None or method in (Method.ROWS, Method.BLOCKS):
        return None
    if evidence.is_small(run):
        return {}
    if method is None and frames.transactions is not None:
        return None
    found = strides(stored_sample(run, frames.log), read_sample(run, frames.consumed))
    return found or {} if method == Method.RUNS else found


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
    phantoms = history.phantoms(seen)
    scope = Scope(
        seen=seen,
        records=keep(history.records(seen)),
        shown=shown if small else _of_several(shown),
        stored=stored,
        held=stored,
        polls=history.genuine(frames.consumed, phantoms if small else _selecting(phantoms)),
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


def _selecting(table: DataFrame) -> DataFrame:
    """The table, computed now, as the selecting side of a join."""
    kept = keep(table)
    return keys(kept, few=kept.count() <= MOST_BROADCAST)


ROWS_PER_FILE = 200_000
"""Up to this many findings are one file."""


def examine(session: SparkSession, run: RunDirectory, frames: Frames, method: Method | None) -> Examined:
    """The findings in the tables. `method`: how they are examined; by default, the history decides."""
    with ThreadPoolExecutor(1, thread_name_prefix="cycles") as beside:
        refusals.require_no_nulls(session, run, frames)
        as_read = frames
        progress(1, PARTS_BY_SPARK, "comparing what was sent, read and stored, by blocks")
        frames, agreement, known = _first_passes(run, frames, method)
        transactions = of_transactions.transactions_of(run, frames, agreement)
        cycles: Callable[[], Cycles] | None = None
        if transactions is not None:
            cycles = partial(find_cycles, session, transactions)
            if not is_small(run):
                # The survey has many small jobs, which leave cores idle.
                cycles = beside.submit(cycles).result
        groups = of_groups.groups_of(session, run, frames, transactions, agreement)
        progress(2, PARTS_BY_SPARK, "finding the records in doubt")
        frames = of_transactions.as_ended(frames, transactions)
        given = None
        if transactions is not None:
            agreement, given = transactions.agreement, transactions.given
        survey = survey_of(session, run, frames, agreement, given, method=method, known=known)
        if transactions is not None:
            transactions = replace(transactions, doubtful=survey.scope.doubtful)
        progress(3, PARTS_BY_SPARK, "counting")
        facts = counts.with_replicas(run, frames, survey.facts)
        facts = counts.with_unjudged(run, survey.scope.records, facts)
        facts = of_groups.with_groups(of_transactions.with_transactions(facts, transactions), groups)
        facts = of_recovery.with_pulses(run, as_read, facts)
        skipped = {lane.lane: not_applied(run, lane, facts.get(lane.lane, LaneFacts())) for lane in run.lanes}
        progress(4, PARTS_BY_SPARK, "examining the records in doubt for each anomaly")
        cases = findings.find(session, run, replace(survey, facts=facts), skipped, transactions, groups, cycles)
    found = sum(seen.count for seen in cases.observed.values())
    return Examined(
        facts={**facts, **cases.facts},
        observed=cases.observed,
        write=lambda folder: _write(folder, cases.rows if cases.observed else None, found),
        of_groups=groups.rows if groups else {},
        unresolved=unresolved_by_spark(session, run, as_read),
    )


def _first_passes(
    run: RunDirectory, frames: Frames, method: Method | None
) -> tuple[Frames, Agreement | None, dict[str, Stride] | None]:
    """The tables with what is known of replicas/ by blocks, and what produced/ and the log agree on, or the strides of
    a history that is to be examined by runs instead.

    The two have nothing in common. Side by side, each works where the other leaves a core idle.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="replicas") as beside:
        summing = beside.submit(counts.summed, run, frames)
        try:
            known = _strides(run, frames, method)
            agreement = None
            if frames.log is not None and known is None and method != Method.ROWS:
                agreement = agreement_of(run, frames, frames.log)
        finally:
            # Of two refusals, that of replicas/ always comes first.
            frames = summing.result()
    return frames, agreement, known


def _write(folder: RunPath, cases: DataFrame | None, found: int) -> None:
    """Write CASES (None: there are none) as rows of findings/."""
    if cases is None:
        write_rows(folder, arrow_schema(FINDINGS), [])
    else:
        few_files = cases.coalesce(1) if found < ROWS_PER_FILE else cases
        write_parquet(few_files.select(*schemas.FINDINGS.names), folder)
