"""`verify`: one run directory in, findings and a verdict out; `verify_frames` does the same for DataFrames.

Guarantee: bad input raises `RunDirectoryError` before anything is written. findings/ and verdict.json appear whole or
not at all. verdict.json appears last, so it always belongs to the findings beside it. An old verdict.json is removed
first: a failed verification leaves none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.columns import OF_TRANSACTIONS
from kafka_chaos.contract.ledger import TableLedger
from kafka_chaos.contract.run_directory import FINDINGS_FOLDER, VERDICT_FILE
from kafka_chaos.contract.transactions import AnyAnomaly
from kafka_chaos.verification.inputs.documents.predictions import prediction_of
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, remove, run_path
from kafka_chaos.verification.inputs.run_directory import RunDirectory, open_run
from kafka_chaos.verification.judging.account import HISTORY, not_applied, unread
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.result import Observation, RunVerdict
from kafka_chaos.verification.judging.second_look import with_second_look
from kafka_chaos.verification.oracle.second_look import look
from kafka_chaos.verification.spark.session import spark_session
from kafka_chaos.verification.spark.sockets import pyspark_sockets_ignored
from kafka_chaos.verification.tables.facts import LaneFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_chaos.verification.agreement.pieces import Agreement
    from kafka_chaos.verification.tables.evidence import Frames
    from kafka_chaos.verification.tables.scope import Method
    from kafka_chaos.verification.transactions.dependencies import Cycles


FRAMES = "frames"
"""The name of a run that has no directory."""


@pyspark_sockets_ignored()
def verify(
    run_dir: str | RunPath,
    *,
    spark: SparkSession | None = None,
    write: bool = True,
    method: Method | None = None,
    accept_known: Collection[str] = (),
) -> RunVerdict:
    """Judge the run directory `run_dir`. Unless `write` is false, write findings/ and verdict.json into it.

    `run_dir`: a local path, or one with a scheme that Hadoop knows.

    `method`: how the tables are examined (`scope.Method`); by default, the history decides. The result is the same.
    `accept_known`: known defects that are accepted where they explain a violation (`RunVerdict.outcome`).
    `spark`: the session; by default, the process's own (`spark_session`). Raises `RunDirectoryError` for input that
    breaks the contract, and `SparkUnavailableError` if there is no session.
    """
    root = run_path(run_dir, spark)
    if write and root.is_dir():
        remove(root / VERDICT_FILE)
    run = open_run(root)
    session = spark or spark_session(rows=run.rows)
    from kafka_chaos.verification.tables import evidence

    with evidence.tuned(session, run.rows):
        frames = evidence.read(session, run)
        return judged(session, run, frames, write=write, method=method, accept_known=accept_known)


def judged(
    session: SparkSession,
    run: RunDirectory,
    frames: Frames,
    *,
    write: bool,
    method: Method | None = None,
    accept_known: Collection[str] = (),
) -> RunVerdict:
    """The verdict on a run's tables; with `write`, it is written into the run directory.

    The plain checker looks at what fits it while Spark works.
    """
    started = time.perf_counter()
    with ThreadPoolExecutor(1, thread_name_prefix="second-look") as threads:
        looking = threads.submit(look, run)
        by_spark = _judged_by_spark(session, run, frames, write=write, method=method)
        findings = run.path / FINDINGS_FOLDER if write and isinstance(run.path, Path) else None
        verdict = with_second_look(by_spark, looking.result(), findings, run.rows)
    verdict = replace(verdict.accepting(accept_known), seconds=time.perf_counter() - started)
    if write and run.path is not None:
        from kafka_chaos.verification import output

        output.write_verdict(run.path, verdict)
    return verdict


def _judged_by_spark(
    session: SparkSession, run: RunDirectory, frames: Frames, *, write: bool, method: Method | None
) -> RunVerdict:
    """The verdict by Spark's findings alone; with `write`, they are written into the run directory."""
    predictions = {lane.lane: prediction_of(run.path, lane, run.predictions.get(lane.lane)) for lane in run.lanes}
    from kafka_chaos.verification import output
    from kafka_chaos.verification.detection import findings
    from kafka_chaos.verification.groups import survey as of_groups
    from kafka_chaos.verification.survey import survey_of
    from kafka_chaos.verification.tables import counts, refusals
    from kafka_chaos.verification.tables.evidence import is_small
    from kafka_chaos.verification.transactions import survey as of_transactions
    from kafka_chaos.verification.transactions.dependencies import find_cycles

    with refusals.of_unreadable_files(run), ThreadPoolExecutor(1, thread_name_prefix="cycles") as beside:
        refusals.require_no_nulls(session, run, frames)
        frames, agreement = _first_passes(run, frames, method)
        transactions = of_transactions.transactions_of(run, frames, agreement)
        cycles: Callable[[], Cycles] | None = None
        if transactions is not None:
            cycles = partial(find_cycles, session, transactions)
            if not is_small(run):
                # The survey has many small jobs, which leave cores idle.
                cycles = beside.submit(cycles).result
        groups = of_groups.groups_of(session, run, frames, transactions, agreement)
        frames = of_transactions.as_ended(frames, transactions)
        if transactions is None:
            survey = survey_of(session, run, frames, agreement, method=method)
        else:
            survey = survey_of(session, run, frames, transactions.agreement, transactions.given, method=method)
            transactions = replace(transactions, doubtful=survey.scope.doubtful)
        facts = counts.with_replicas(run, frames, survey.facts)
        facts = counts.with_unjudged(run, survey.scope.records, facts)
        facts = of_groups.with_groups(of_transactions.with_transactions(facts, transactions), groups)
        skipped = {lane.lane: not_applied(run, lane, facts.get(lane.lane, LaneFacts())) for lane in run.lanes}
        cases = findings.find(session, run, replace(survey, facts=facts), skipped, transactions, groups, cycles)
        facts = {**facts, **cases.facts}
        tables = tables_as_read(run, facts, groups.rows if groups else {})
        missing = unread(run, tables, (*HISTORY, *OF_TRANSACTIONS))
        missing_replicas = unread(run, tables, ["replicas"])
        missing_commits = unread(run, tables, ["commits"])
        lanes = tuple(
            judge(
                run,
                lane,
                facts.get(lane.lane, LaneFacts()),
                predictions[lane.lane],
                _of_lane(cases.observed, lane.lane),
                unread=missing,
                unread_replicas=missing_replicas,
                unread_commits=missing_commits,
            )
            for lane in run.lanes
        )
        verdict = RunVerdict(
            run_dir=run.path or Path(FRAMES),
            verdict=Verdict.gravest(lane.verdict for lane in lanes),
            lanes=lanes,
            tables=tables,
        )
        if write and run.path is not None:
            output.write_findings(run.path, cases.rows if cases.observed else None, verdict)
    return verdict


def _first_passes(run: RunDirectory, frames: Frames, method: Method | None) -> tuple[Frames, Agreement | None]:
    """The tables with what is known of replicas/ by blocks, and what produced/ and the log agree on.

    The two have nothing in common. Side by side, each works where the other leaves a core idle.
    """
    from kafka_chaos.verification.survey import agreement_for
    from kafka_chaos.verification.tables import replicas

    with ThreadPoolExecutor(1, thread_name_prefix="replicas") as beside:
        summing = beside.submit(replicas.summed, run, frames)
        try:
            agreement = agreement_for(run, frames, method=method)
        finally:
            # Of two refusals, that of replicas/ always comes first.
            frames = summing.result()
    return frames, agreement


def tables_as_read(
    run: RunDirectory, facts: Mapping[str, LaneFacts], of_groups: Mapping[str, int]
) -> dict[str, TableLedger]:
    """Every table that the run has, with its rows by footer and the rows that Spark read. `of_groups`: those of tables
    that were read for groups."""
    counted = {
        "produced": sum(lane.total("produced") for lane in facts.values()),
        "consumed": sum(lane.total("consumed") for lane in facts.values()),
        "log": sum(lane.total("stored") for lane in facts.values()),
        "replicas": sum(lane.replica_rows for lane in facts.values()),
        "transactions": sum(lane.transactions.transactions for lane in facts.values() if lane.transactions),
        "assignments": sum(lane.transactions.assignments for lane in facts.values() if lane.transactions),
        **of_groups,
    }
    return {name: run.tables[name].ledger(name, rows) for name, rows in counted.items() if run.has(name)}


def _of_lane(observed: Mapping[tuple[str, AnyAnomaly], Observation], lane: str) -> dict[AnyAnomaly, Observation]:
    return {anomaly: seen for (name, anomaly), seen in observed.items() if name == lane}
