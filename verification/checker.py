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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.columns import FINDINGS, TABLES_OF_TRANSACTIONS, arrow_schema
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.progress import PARTS_OF_VERIFICATION, progress
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.run_directory import FINDINGS_FOLDER, VERDICT_FILE
from kafka_chaos.verification.closure.resolve import Unresolved, resolved, unresolved
from kafka_chaos.verification.engines.engine import SqlEngine
from kafka_chaos.verification.engines.refusals import of_unreadable_files
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction, prediction_of
from kafka_chaos.verification.inputs.run_directory import RunDirectory, open_run
from kafka_chaos.verification.inputs.storage import RunPath, is_remote, remove, replace_folder, run_path, write_text
from kafka_chaos.verification.judging.assessment import unread
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.result import RunVerdict
from kafka_chaos.verification.judging.work import work_of
from kafka_chaos.verification.recovery.evidence import Recovery
from kafka_chaos.verification.spark.session import pyspark_sockets_ignored, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_chaos.verification.by_statements import Examined


@dataclass(frozen=True, slots=True)
class Request:
    """What a verification is to do beside judging.

    `out`: the folder that gets findings/ and verdict.json, if any. `accept_known`: known defects that are accepted.
    """

    out: RunPath | None = None
    accept_known: Collection[str] = ()


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
    directories.
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
    request = Request(root if write else None, accept_known)
    if engine == Engine.SPARK:
        return judged_by_spark(run, spark or spark_session(rows=run.rows), request)
    from kafka_chaos.verification.engines.duckdb_engine import DuckDb

    with DuckDb(run) as duckdb:
        return _judged(run, duckdb, engine, partial(unresolved, duckdb, run), request)


def judged_by_spark(
    run: RunDirectory, session: SparkSession, request: Request, frames: Mapping[str, DataFrame] | None = None
) -> RunVerdict:
    """Spark's verdict on a run. `frames`: tables that take the place of the run's files."""
    from kafka_chaos.verification.engines.spark_engine import Spark
    from kafka_chaos.verification.spark.tuning import tuned

    is_local = isinstance(run.path, Path)
    with (
        ThreadPoolExecutor(1, thread_name_prefix="duckdb") as threads,
        tuned(session, run.rows, local=is_local),
        of_unreadable_files(run),
        Spark(run, session, frames) as spark,
    ):
        # Spark takes longer to plan all relations than DuckDB, meanwhile, to evaluate them.
        relations = threads.submit(_unresolved_by_duckdb, run).result if is_local else partial(unresolved, spark, run)
        return _judged(run, spark, Engine.SPARK, relations, request)


def _unresolved_by_duckdb(run: RunDirectory) -> Sequence[Unresolved]:
    from kafka_chaos.verification.by_statements import read
    from kafka_chaos.verification.engines.duckdb_engine import DuckDb

    with DuckDb(run) as duckdb:
        read(duckdb, run)
        return unresolved(duckdb, run)


def _judged(
    run: RunDirectory, engine: SqlEngine, name: Engine, relations: Callable[[], Sequence[Unresolved]], request: Request
) -> RunVerdict:
    """The verdict by what an engine finds. `relations`: asks for what the relations between the tables find."""
    from kafka_chaos.verification.by_statements import examine

    started = time.perf_counter()
    predictions = {lane.lane: prediction_of(run.path, lane, run.predictions.get(lane.lane)) for lane in run.lanes}
    examined = examine(engine, run)
    progress(4, PARTS_OF_VERIFICATION, "what the tables say of each other")
    verdict = _concluded(resolved(run, relations()), examined, predictions, name)
    work = work_of(run, engine.rows, examined.facts)
    lanes = tuple(replace(lane, work=work[lane.lane]) for lane in verdict.lanes)
    verdict = replace(verdict, lanes=lanes, seconds=time.perf_counter() - started).accepting(request.accept_known)
    if request.out is not None:
        _write(run, examined, verdict, request.out)
    return verdict


def _concluded(
    run: RunDirectory, examined: Examined, predictions: Mapping[str, LanePrediction], engine: Engine
) -> RunVerdict:
    """The verdict on what an engine found: every engine is judged by the same rules."""
    # Every table that the run has, with its rows by footer and the rows that the engine read.
    facts = examined.facts
    of_transactions = [lane.transactions for lane in facts.values() if lane.transactions]
    counted = {
        **{name: sum(lane.total(name) for lane in facts.values()) for name in ("produced", "consumed")},
        "log": sum(lane.total("stored") for lane in facts.values()),
        "replicas": sum(lane.replica_rows for lane in facts.values()),
        **{name: sum(getattr(of, name) for of in of_transactions) for name in TABLES_OF_TRANSACTIONS},
        **examined.of_groups,
    }
    tables = {name: run.tables[name].ledger(name, rows) for name, rows in counted.items() if run.has(name)}
    missing = unread(run, tables)
    truncated = {name: seen.count for (name, one), seen in examined.observed.items() if one == Anomaly.TRUNCATED_READ}
    lanes = tuple(
        judge(
            LaneEvidence(
                run,
                lane,
                facts[lane.lane],
                predictions[lane.lane],
                {anomaly: seen for (name, anomaly), seen in examined.observed.items() if name == lane.lane},
                unread=missing,
                # What the source of its loop lost after it had been read.
                lost_input=0 if lane.loop is None else truncated.get(lane.loop.source, 0),
            )
        )
        for lane in run.lanes
    )
    return RunVerdict(
        run_dir=run.path or Path("frames"),
        verdict=Verdict.gravest(lane.verdict for lane in lanes),
        lanes=lanes,
        tables=tables,
        engine=engine,
    )


def _write(run: RunDirectory, examined: Examined, verdict: RunVerdict, out: RunPath) -> None:
    """Write findings/, then verdict.json; the rows of recovery, which no engine finds, into a file of their own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fresh = out / f".findings-{uuid.uuid4().hex}"
    try:
        examined.write(fresh)
        if rows := [row for lane in run.lanes for row in Recovery(run, lane, examined.facts[lane.lane]).rows()]:
            content = io.BytesIO()
            pq.write_table(pa.Table.from_pylist(rows, arrow_schema(FINDINGS)), content)
            (fresh / "part-recovery.parquet").write_bytes(content.getvalue())
        # A verdict.json that is there belongs to older findings.
        remove(out / VERDICT_FILE)
        replace_folder(fresh, out / FINDINGS_FOLDER)
    finally:
        remove(fresh)
    write_text(out / VERDICT_FILE, json.dumps(verdict.to_json(), indent=2) + "\n")
