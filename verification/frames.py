"""`verify_frames` judges histories that are DataFrames; `verify_topics` reads the final log from live topics.

Guarantee: the columns, types and rules are those of a run directory's tables. Only `verify_topics` writes, into its run
directory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import VERDICT_FILE, RunDirectoryError
from kafka_chaos.verification import schemas
from kafka_chaos.verification.checker import judged_by_spark
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, remove, run_path
from kafka_chaos.verification.inputs.run_directory import RunDirectory, open_run, require_tables, with_documents
from kafka_chaos.verification.inputs.tables import Table
from kafka_chaos.verification.inputs.topics.kafka_log import topic_log
from kafka_chaos.verification.judging.result import RunVerdict
from kafka_chaos.verification.spark.session import pyspark_sockets_ignored

_CLOSE = 0.8
"""How alike two names are of which one is meant for the other (`difflib`)."""
_REASON = re.compile(r"(Caused by)?: ")
"""The lines of a Java stack trace that give a reason."""


@pyspark_sockets_ignored()
def verify_frames(
    produced: DataFrame,
    consumed: DataFrame,
    log: DataFrame | None = None,
    replicas: DataFrame | None = None,
    *,
    transactions: DataFrame | None = None,
    assignments: DataFrame | None = None,
    commits: DataFrame | None = None,
    deliveries: DataFrame | None = None,
    share_starts: DataFrame | None = None,
    lanes: Iterable[Lane | Mapping[str, Any]],
    metadata: str | RunPath | None = None,
) -> RunVerdict:
    """Judge a history given as DataFrames with the columns of a run directory's tables.

    `lanes`: lanes, or entries of lanes.json; transactional ones need `transactions` and `assignments`, those with a
    group or a loop `assignments` and `commits`, those with a share group `deliveries` and `share_starts`. `metadata`: a
    folder whose events.jsonl, checkpoints.json, groups.json, timings.json and prediction.json are used if they exist. A
    nullable column may be missing; additional columns are ignored, unless the name of one is close to that of a column
    that is missing. The DataFrames are read several times: persist those that are slow to read. Raises
    `RunDirectoryError` for a missing column or a wrong type, and names table and column.
    """
    spark = produced.sparkSession
    given = {"produced": produced, "consumed": consumed, "log": log, "replicas": replicas}
    given |= {"transactions": transactions, "assignments": assignments, "commits": commits}
    given |= {"deliveries": deliveries, "share_starts": share_starts}
    frames = {name: _checked(name, frame) for name, frame in given.items() if frame is not None}
    known = tuple(lane if isinstance(lane, Lane) else Lane.from_json(lane) for lane in lanes)
    counts = _counted(frames)
    tables = {name: Table(given=name in frames, counted=counts.get(name, 0)) for name in TABLES}
    require_tables(None, known, tables)
    run = RunDirectory(None, known, tables)
    if metadata is not None:
        run = with_documents(run, run_path(metadata, spark))
    return judged_by_spark(spark, run, frames, write=False)


@pyspark_sockets_ignored()
def verify_topics(
    run_dir: str | RunPath,
    *,
    bootstrap_servers: str,
    spark: SparkSession,
    options: Mapping[str, str] | None = None,
    write: bool = True,
    accept_known: Collection[str] = (),
) -> RunVerdict:
    """Judge the histories of a run directory against its lanes' topics as they are now, instead of log/.

    `spark` and `options`: see `topic_log`. Unless `write` is false, writes findings/ and verdict.json into the run
    directory. `accept_known`: see `verify`. Raises `EnvironmentFailure` if a topic can't be read to its end.
    """
    root = run_path(run_dir, spark)
    if write and root.is_dir():
        remove(root / VERDICT_FILE)
    run = open_run(root)
    try:
        # Read once: if a topic grows meanwhile, each pass over it would see a different log.
        log = topic_log(spark, bootstrap_servers=bootstrap_servers, lanes=run.lanes, options=options).localCheckpoint()
    except Exception as error:
        raise EnvironmentFailure(f"the topics on {bootstrap_servers} can't be read: {_cause(error)}") from error
    run = replace(run, tables={**run.tables, "log": Table(given=True, counted=log.count())})
    return judged_by_spark(spark, run, {"log": log}, write=write, accept_known=accept_known)


def _cause(error: Exception) -> str:
    """The innermost reason that Spark's message gives, in one line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reasons = [line.removeprefix("Caused by:").removeprefix(":").strip() for line in lines if _REASON.match(line)]
    return (reasons or lines)[-1][:300]


def _checked(name: str, frame: DataFrame) -> DataFrame:
    """The contract's columns of a table, with null for those that may be missing and are."""
    wanted = schemas.TABLES[name]
    types = {field.name: field.dataType for field in frame.schema.fields}
    columns = []
    for column, field in zip(TABLES[name], wanted.fields, strict=True):
        if column.name not in types:
            if not column.nullable:
                raise RunDirectoryError(name, f"missing, expected {column.type}", column=column.name)
            if close := get_close_matches(column.name, types.keys() - set(wanted.names), n=1, cutoff=_CLOSE):
                raise RunDirectoryError(name, f"no such column; is it meant for {column.name!r}?", column=close[0])
            columns.append(F.lit(None).cast(field.dataType).alias(column.name))
            continue
        if types[column.name] != field.dataType:
            problem = f"has type {types[column.name].simpleString()}, expected {field.dataType.simpleString()}"
            raise RunDirectoryError(name, problem, column=column.name)
        columns.append(F.col(f"`{column.name}`"))
    return frame.select(*columns)


def _counted(frames: Mapping[str, DataFrame]) -> dict[str, int]:
    """The rows of each table, in one job."""
    counts = (frame.agg(F.count(F.lit(1)).alias("rows")).select(F.lit(name), "rows") for name, frame in frames.items())
    return {row[0]: row[1] for row in reduce(DataFrame.union, counts).collect()}
