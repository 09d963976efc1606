"""Errors for rows that break the contract and that only Spark detects: they name the file and what was expected.

Guarantee: each function raises `RunDirectoryError`. The file is searched for only after an error was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.columns import OUTCOMES
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.parquet import required
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import IDENTITY, TABLES
from kafka_chaos.verification.tables.evidence import Frames, read_files


def require_unique_identities(run: RunDirectory, frames: Frames) -> None:
    """Refuse an identity that produced/ holds twice, the first one."""
    repeated = frames.produced.groupBy(*IDENTITY).count().where(F.col("count") > 1)
    twice = repeated.orderBy(*IDENTITY).limit(1).collect()
    if twice:
        refuse_duplicate_identity(run, frames, twice[0].lane, twice[0].producer_id, twice[0].seq)


def refuse_duplicate_identity(run: RunDirectory, frames: Frames, lane: str, producer_id: int, seq: int) -> NoReturn:
    """Refuse an identity that produced/ holds twice, naming the files."""
    same = (F.col("lane") == lane) & (F.col("producer_id") == producer_id) & (F.col("seq") == seq)
    files = sorted(_files_of(frames.produced, same))
    problem = f"lane {lane!r}, producer_id {producer_id}, seq {seq} occurs twice"
    problem += f", in {' and '.join(files)}" if files else ""
    raise RunDirectoryError(run.place("produced", next(iter(files), None)), problem, column="seq")


def refuse_stray_lane(run: RunDirectory, frames: Frames, known: list[str]) -> NoReturn:
    """Refuse a lane that lanes.json does not name."""
    for name, table in frames.tables().items():
        for row in table.where(~F.col("lane").isin(known)).select("lane").limit(1).collect():
            problem = f"{row.lane!r} is not in lanes.json ({', '.join(known)})"
            raise RunDirectoryError(place_of(run, name, table, F.col("lane") == row.lane), problem, column="lane")
    raise RunDirectoryError(run.path or "tables", "a lane is not in lanes.json", column="lane")


def refuse_partition(run: RunDirectory, frames: Frames, lane: str, partition: int) -> NoReturn:
    """Refuse a partition that the lane does not have."""
    number = next(known.partitions for known in run.lanes if known.lane == lane)
    stray = (F.col("lane") == lane) & (F.col("partition") == partition)
    problem = f"lane {lane!r} has partitions 0 to {number - 1}, not {partition}"
    for name, table in frames.tables().items():
        if "partition" in table.columns and not table.where(stray).isEmpty():
            raise RunDirectoryError(place_of(run, name, table, stray), problem, column="partition")
    raise RunDirectoryError(run.path or "tables", problem, column="partition")


def refuse_outcome(run: RunDirectory, frames: Frames) -> NoReturn:
    """Refuse an outcome that is none of `OUTCOMES`."""
    bad = ~F.col("outcome").isin(*OUTCOMES) | F.col("outcome").isNull()
    row = frames.produced.where(bad).select("outcome").limit(1).collect()[0]
    place = place_of(run, "produced", frames.produced, bad)
    raise RunDirectoryError(place, f"{row.outcome!r}, expected one of {', '.join(OUTCOMES)}", column="outcome")


def require_no_nulls(spark: SparkSession, run: RunDirectory, frames: Frames) -> None:
    """Refuse nulls in required columns if no footer counts them: in files without statistics, and in tables."""
    for name, table in run.tables.items():
        frame = frames.tables().get(name)
        if run.path is not None:
            frame = read_files(spark, table.without_statistics, TABLES[name]) if table.without_statistics else None
        if frame is None:
            continue
        columns = [column for column in required(name) if column in frame.columns]
        counts = frame.agg(*(F.count(F.when(F.col(column).isNull(), 1)).alias(column) for column in columns))
        for column, nulls in counts.collect()[0].asDict().items():
            if nulls:
                place = place_of(run, name, frame, F.col(column).isNull())
                raise RunDirectoryError(place, f"{nulls} null values, expected none", column=column)


_UNREADABLE = re.compile(
    r"(?:FAILED_READ_FILE|[Ee]rror while reading file)\S*\s.*?([a-z0-9]+:/\S+\.parquet)", re.DOTALL
)


@contextmanager
def of_unreadable_files(run: RunDirectory) -> Iterator[None]:
    """Refuse a file whose footer is whole but whose pages Spark can't read, instead of failing with its error."""
    try:
        yield
    except RunDirectoryError:
        raise
    except Exception as error:
        found = _UNREADABLE.search(str(error))
        if found is None or run.path is None:
            raise
        table, _, file = unquote(found[1]).rpartition("/")
        place = run.place(table.rsplit("/", 1)[-1], file)
        raise RunDirectoryError(place, "can't be read, expected a whole Parquet file") from error


def place_of(run: RunDirectory, name: str, table: DataFrame, condition: Column) -> object:
    """The file of a table that an error names: the first with rows of this condition."""
    return run.place(name, next(iter(sorted(_files_of(table, condition))), None))


def _files_of(table: DataFrame, condition: Column) -> set[str]:
    """The names of the files with such rows; none for a table that does not come from files."""
    rows = table.where(condition).select(F.input_file_name()).distinct().collect()
    return {unquote(row[0].rsplit("/", 1)[-1]) for row in rows if row[0]}
