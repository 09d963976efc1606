"""`verify`: one run directory in, findings and a verdict out; `verify_frames` does the same for DataFrames.

Guarantee: bad input raises `RunDirectoryError` before anything is written. findings/ and verdict.json appear whole or
not at all: each is written under a temporary name in the same folder, then renamed. verdict.json appears last, so it
always belongs to the findings beside it. An old verdict.json is removed first: a failed verification leaves none.
"""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.contract.columns import FINDINGS, arrow_schema
from kafka_chaos.contract.command.command_line import failure_of, told
from kafka_chaos.contract.command.errors import KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.progress import PARTS_OF_VERIFICATION, progress
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.ledger import CrossCheck
from kafka_chaos.contract.run_directory import FINDINGS_FOLDER, VERDICT_FILE
from kafka_chaos.verification.closure.resolve import Unresolved, resolved
from kafka_chaos.verification.engines.engine import SqlEngine
from kafka_chaos.verification.engines.refusals import of_unreadable_files
from kafka_chaos.verification.inputs.documents.predictions import prediction_of
from kafka_chaos.verification.inputs.run_directory import RunDirectory, open_run
from kafka_chaos.verification.inputs.storage import RunPath, is_remote, remove, replace_folder, run_path, write_text
from kafka_chaos.verification.judging.conclusion import Examined, concluded
from kafka_chaos.verification.judging.result import RunVerdict
from kafka_chaos.verification.judging.work import work_of
from kafka_chaos.verification.recovery.evidence import rows_of
from kafka_chaos.verification.spark.session import pyspark_sockets_ignored, spark_session
from kafka_chaos.verification.tables.facts import LaneFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_chaos.verification.cross_check import Checked


def write_verdict(run_dir: RunPath, verdict: RunVerdict) -> None:
    """Write verdict.json, which belongs to the findings beside it."""
    write_text(run_dir / VERDICT_FILE, json.dumps(verdict.to_json(), indent=2) + "\n")


@pyspark_sockets_ignored()
def verify(
    run_dir: str | RunPath,
    *,
    engine: Engine | str = Engine.SPARK,
    spark: SparkSession | None = None,
    write: bool = True,
    accept_known: Collection[str] = (),
) -> RunVerdict:
    """Judge the run directory `run_dir`. Unless `write` is false, write findings/ and verdict.json into it.

    `run_dir`: a local path, or one with a scheme that Spark and PyArrow know.

    `engine`: what runs the statements on the tables; the result is the same. `duckdb` starts no JVM, and takes local
    directories. If an engine crashes, the other one judges the run where it can (`RunVerdict.crash`).
    `accept_known`: known defects that are accepted where they explain a violation (`RunVerdict.outcome`).
    `spark`: the session; by default, the process's own (`spark_session`). Raises `RunDirectoryError` for input that
    breaks the contract, and `SparkUnavailableError` if there is no session.
    """
    engine = Engine(engine)
    if engine == Engine.DUCKDB and is_remote(run_dir):
        raise UsageFailure(f"{run_dir}: the engine {engine} reads local directories only: use {Engine.SPARK}")
    root = run_path(run_dir)
    if write and root.is_dir():
        remove(root / VERDICT_FILE)
    run = open_run(root)
    session = None if engine == Engine.DUCKDB else spark or spark_session(rows=run.rows)
    judging = {
        Engine.DUCKDB: lambda: _judged_by_duckdb(run, write=write, accept_known=accept_known),
        Engine.SPARK: lambda: judged_by_spark(session, run, write=write, accept_known=accept_known),
    }
    other = Engine.DUCKDB if engine == Engine.SPARK else Engine.SPARK
    try:
        return judging[engine]()
    except Exception as crash:
        if failure_of(crash) or isinstance(crash, KafkaChaosError) or not _can_judge(other, run):
            raise
        try:
            verdict = judging[other]()
        except Exception as second:
            # Of two failures, that of the engine that was asked for is told.
            raise crash from second
        verdict = replace(verdict, crash=f"the engine {engine} crashed, so {other} judged the run: {told(crash)}")
        if write and run.path is not None:
            write_verdict(run.path, verdict)
        return verdict


def _can_judge(engine: Engine, run: RunDirectory) -> bool:
    return engine == Engine.SPARK or isinstance(run.path, Path)


def _judged_by_duckdb(run: RunDirectory, *, write: bool, accept_known: Collection[str]) -> RunVerdict:
    from kafka_chaos.verification.engines.duckdb_engine import DuckDb

    started = time.perf_counter()
    with DuckDb(run) as engine:
        verdict = _judged_once(run, engine, Engine.DUCKDB, write=write)
    verdict = replace(verdict, cross_check=CrossCheck(problem=f"the engine {Engine.DUCKDB} judged the run"))
    return _finished(run, verdict, started, write=write, accept_known=accept_known)


def judged_by_spark(
    session: SparkSession | None,
    run: RunDirectory,
    frames: Mapping[str, DataFrame] | None = None,
    *,
    write: bool,
    accept_known: Collection[str] = (),
) -> RunVerdict:
    """Spark's verdict on a run; with `write`, it is written into the run directory.

    DuckDB examines the same run while Spark works, if it is not too large, and evaluates the relations between its
    tables, if it can read them. `frames`: tables that take the place of the run's files.
    """
    from kafka_chaos.verification.cross_check import with_cross_check
    from kafka_chaos.verification.engines.spark_engine import Spark
    from kafka_chaos.verification.spark.tuning import tuned

    started = time.perf_counter()
    session = session or spark_session(rows=run.rows)
    with ThreadPoolExecutor(1, thread_name_prefix="duckdb") as threads:
        # Spark takes longer to plan all relations than DuckDB to evaluate them.
        relates = isinstance(run.path, Path) and not frames
        beside = threads.submit(_by_duckdb, run, relates=relates)
        related = (lambda: beside.result()[1]) if relates else None
        tuning = tuned(session, run.rows, local=isinstance(run.path, Path))
        with tuning, of_unreadable_files(run), Spark(run, session, frames) as engine:
            by_spark = _judged_once(run, engine, Engine.SPARK, related, write=write)
        progress(5, PARTS_OF_VERIFICATION, "the cross-check by DuckDB")
        verdict = with_cross_check(by_spark, beside.result()[0], run.rows)
    return _finished(run, verdict, started, write=write, accept_known=accept_known)


def _by_duckdb(run: RunDirectory, *, relates: bool) -> tuple[Checked, Sequence[Unresolved]]:
    """The cross-check of a run, and what the relations find, if DuckDB is to evaluate them (`relates`)."""
    from kafka_chaos.verification.by_statements import unresolved_by
    from kafka_chaos.verification.cross_check import cross_checked
    from kafka_chaos.verification.engines.duckdb_engine import DuckDb

    checked = cross_checked(run)
    if checked.unresolved is not None or not relates:
        return checked, checked.unresolved or ()
    with DuckDb(run) as engine:
        return checked, unresolved_by(engine, run)


def _judged_once(
    run: RunDirectory,
    engine: SqlEngine,
    name: Engine,
    related: Callable[[], Sequence[Unresolved]] | None = None,
    *,
    write: bool,
) -> RunVerdict:
    """The verdict by what one engine finds; with `write`, its findings are written into the run directory."""
    from kafka_chaos.verification.by_statements import examine

    predictions = {lane.lane: prediction_of(run.path, lane, run.predictions.get(lane.lane)) for lane in run.lanes}
    examined = examine(engine, run, related)
    verdict = concluded(resolved(run, examined.unresolved), examined, predictions, name)
    counts = {lane.lane: (lane.produced, lane.acknowledged) for lane in verdict.lanes}
    work = work_of(run, engine.rows, counts, examined.facts)
    verdict = replace(verdict, lanes=tuple(replace(lane, work=work[lane.lane]) for lane in verdict.lanes))
    if write and run.path is not None:
        fresh = run.path / f".findings-{uuid.uuid4().hex}"
        try:
            _write(run, examined, fresh)
            # A verdict.json that is there belongs to older findings.
            remove(run.path / VERDICT_FILE)
            replace_folder(fresh, run.path / FINDINGS_FOLDER)
        finally:
            remove(fresh)
    return verdict


def _write(run: RunDirectory, examined: Examined, folder: RunPath) -> None:
    """Write the rows of findings/; those of recovery, which no engine finds, into a file of their own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    examined.write(folder)
    if rows := [row for lane in run.lanes for row in rows_of(run, lane, examined.facts.get(lane.lane, LaneFacts()))]:
        content = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, arrow_schema(FINDINGS)), content)
        (folder / "part-recovery.parquet").write_bytes(content.getvalue())


def _finished(
    run: RunDirectory, verdict: RunVerdict, started: float, *, write: bool, accept_known: Collection[str]
) -> RunVerdict:
    verdict = replace(verdict.accepting(accept_known), seconds=time.perf_counter() - started)
    if write and run.path is not None:
        write_verdict(run.path, verdict)
    return verdict
