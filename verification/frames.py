"""`verify_frames` judges histories that are DataFrames.

Guarantee: the columns, types and rules are those of a run directory's tables. Nothing is written.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pyspark.sql import DataFrame

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.checker import Request, judged_by_spark
from kafka_chaos.verification.engines.spark_engine import SCHEMAS
from kafka_chaos.verification.inputs.run_directory import RunDirectory, require_tables, with_documents
from kafka_chaos.verification.inputs.storage import RunPath, run_path
from kafka_chaos.verification.inputs.tables import Table
from kafka_chaos.verification.judging.result import RunVerdict
from kafka_chaos.verification.spark.session import pyspark_sockets_ignored

_CLOSE = 0.8
"""How alike two names are of which one is meant for the other (`difflib`)."""


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
    dead_letters: DataFrame | None = None,
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
    given = {"produced": produced, "consumed": consumed, "log": log, "replicas": replicas}
    given |= {"transactions": transactions, "assignments": assignments, "commits": commits}
    given |= {"deliveries": deliveries, "share_starts": share_starts, "dead_letters": dead_letters}
    frames = {name: _checked(name, frame) for name, frame in given.items() if frame is not None}
    known = tuple(lane if isinstance(lane, Lane) else Lane.from_json(lane) for lane in lanes)
    of_frames = {name: Table(given=True, counted=frame.count()) for name, frame in frames.items()}
    tables = {name: of_frames.get(name, Table()) for name in TABLES}
    require_tables(None, known, tables)
    run = RunDirectory(None, known, tables)
    if metadata is not None:
        if not (folder := run_path(metadata)).is_dir():
            raise RunDirectoryError(folder, "no such directory, expected one with events.jsonl and other documents")
        run = with_documents(run, folder)
    return judged_by_spark(run, produced.sparkSession, Request(), frames)


def _checked(name: str, frame: DataFrame) -> DataFrame:
    """The contract's columns of a table, with null for those that may be missing and are."""
    types, expected = dict(frame.dtypes), SCHEMAS[name]
    for column, field in zip(TABLES[name], expected.fields, strict=True):
        if column.name not in types:
            if not column.nullable:
                raise RunDirectoryError(name, f"missing, expected {column.type}", column=column.name)
            if close := get_close_matches(column.name, types.keys() - set(expected.names), n=1, cutoff=_CLOSE):
                raise RunDirectoryError(name, f"no such column; is it meant for {column.name!r}?", column=close[0])
        elif types[column.name] != field.dataType.simpleString():
            problem = f"has type {types[column.name]}, expected {field.dataType.simpleString()}"
            raise RunDirectoryError(name, problem, column=column.name)
    return frame.to(expected)
