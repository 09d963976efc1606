"""Evaluates the relations of a run that Spark examines: by DuckDB if it can read the files, else by Spark."""

from pathlib import Path

from pyspark.sql import SparkSession

from kafka_chaos.verification.closure.resolve import Unresolved, unresolved
from kafka_chaos.verification.engines import documents
from kafka_chaos.verification.engines.duckdb_engine import DuckDb
from kafka_chaos.verification.engines.spark_engine import Spark
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.evidence import Frames


def unresolved_by_spark(session: SparkSession, run: RunDirectory, frames: Frames) -> list[Unresolved]:
    """What does not resolve in the run."""
    are_local = isinstance(run.path, Path) and not any(table.counted for table in run.tables.values())
    with DuckDb(run) if are_local else Spark(run, session, {**frames.tables(), **frames.whole}) as engine:
        documents.read(engine, run)
        return unresolved(engine, run)
