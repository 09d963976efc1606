"""The engine Spark: examines a run's tables as DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from kafka_chaos.contract.columns import FINDINGS, arrow_schema
from kafka_chaos.contract.progress import PARTS_BY_SPARK, progress
from kafka_chaos.verification import schemas
from kafka_chaos.verification.agreement.pieces import Agreement
from kafka_chaos.verification.detection import findings
from kafka_chaos.verification.groups import survey as of_groups
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, write_parquet
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.assessment import not_applied
from kafka_chaos.verification.judging.conclusion import Examined
from kafka_chaos.verification.output import write_rows
from kafka_chaos.verification.recovery import by_spark as of_recovery
from kafka_chaos.verification.survey import agreement_for, survey_of
from kafka_chaos.verification.tables import counts, refusals, replicas
from kafka_chaos.verification.tables.evidence import Frames, is_small
from kafka_chaos.verification.tables.facts import LaneFacts
from kafka_chaos.verification.tables.scope import Method
from kafka_chaos.verification.transactions import survey as of_transactions
from kafka_chaos.verification.transactions.dependencies import Cycles, find_cycles

ROWS_PER_FILE = 200_000
"""Up to this many findings are one file."""


def examine(session: SparkSession, run: RunDirectory, frames: Frames, method: Method | None) -> Examined:
    """What the tables show. `method`: how they are examined; by default, the history decides."""
    with ThreadPoolExecutor(1, thread_name_prefix="cycles") as beside:
        refusals.require_no_nulls(session, run, frames)
        as_read = frames
        progress(1, PARTS_BY_SPARK, "comparing what was sent, read and stored, by blocks")
        frames, agreement = _first_passes(run, frames, method)
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
        if transactions is None:
            survey = survey_of(session, run, frames, agreement, method=method)
        else:
            survey = survey_of(session, run, frames, transactions.agreement, transactions.given, method=method)
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
    )


def _first_passes(run: RunDirectory, frames: Frames, method: Method | None) -> tuple[Frames, Agreement | None]:
    """The tables with what is known of replicas/ by blocks, and what produced/ and the log agree on.

    The two have nothing in common. Side by side, each works where the other leaves a core idle.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="replicas") as beside:
        summing = beside.submit(replicas.summed, run, frames)
        try:
            agreement = agreement_for(run, frames, method=method)
        finally:
            # Of two refusals, that of replicas/ always comes first.
            frames = summing.result()
    return frames, agreement


def _write(folder: RunPath, cases: DataFrame | None, found: int) -> None:
    """Write CASES (None: there are none) as rows of findings/."""
    if cases is None:
        write_rows(folder, arrow_schema(FINDINGS), [])
    else:
        few_files = cases.coalesce(1) if found < ROWS_PER_FILE else cases
        write_parquet(few_files.select(*schemas.FINDINGS.names), folder)
