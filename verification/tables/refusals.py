"""Errors for rows that break the contract and that only Spark detects: they name the file and what was expected.

Guarantee: each function raises `RunDirectoryError`. The file is searched for only after an error was found.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import NoReturn
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.columns import OUTCOMES
from kafka_chaos.contract.lane.groups import COMMIT_OUTCOMES
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, RECORD_KINDS, TRANSACTION_OUTCOMES
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
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


def require_place(run: RunDirectory, frames: Frames, lane: str, *partitions: int | None) -> None:
    """Refuse a lane that lanes.json does not name, and a partition that the lane does not have."""
    known = {one.lane: one.partitions for one in run.lanes}
    if lane not in known:
        for name, table in frames.tables().items():
            for row in table.where(~F.col("lane").isin(list(known))).select("lane").limit(1).collect():
                problem = f"{row.lane!r} is not in lanes.json ({', '.join(known)})"
                raise RunDirectoryError(place_of(run, name, table, F.col("lane") == row.lane), problem, column="lane")
        raise RunDirectoryError(run.path or "tables", "a lane is not in lanes.json", column="lane")
    for partition in partitions:
        if partition is None or 0 <= partition < known[lane]:
            continue
        stray = (F.col("lane") == lane) & (F.col("partition") == partition)
        problem = f"lane {lane!r} has partitions 0 to {known[lane] - 1}, not {partition}"
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


def refuse_stray_transactions(run: RunDirectory, frames: Frames) -> None:
    """Refuse stray rows of transactions/, assignments/ and replicas/, and a transaction that is there twice."""
    checks = {
        "transactions": [_one_of("outcome", TRANSACTION_OUTCOMES)],
        "assignments": [_one_of("isolation", ISOLATION_LEVELS)],
        "replicas": [_one_of("kind", RECORD_KINDS)],
    }
    tables = frames.tables()
    again = {"transactions": "count(1) - count(DISTINCT producer_id, transaction)"}
    counts = [
        _counts(name, tables[name], checks[name], again.get(name, "0L"))
        for name in ("transactions", "assignments")
        if name in tables
    ]
    if frames.replica_sums is not None:
        # From what is known of it by blocks.
        counts.append(_counts("replicas", frames.replica_sums, "array(sum(bad))"))
    for row in _examined(run, frames, counts, tables, checks):
        if row.special:
            twice = tables[row.name].groupBy("lane", "producer_id", "transaction").count().where("count > 1")
            one = twice.limit(1).collect()[0]
            problem = f"lane {one.lane!r}, producer_id {one.producer_id}, transaction {one.transaction} occurs twice"
            raise RunDirectoryError(run.place("transactions"), problem, column="transaction")


@dataclass(frozen=True, slots=True)
class CountedGroups:
    """The rows of assignments/ and commits/, as read, and how many commits name a transaction."""

    rows: Mapping[str, int]
    in_transactions: int


def refuse_stray_groups(run: RunDirectory, frames: Frames) -> CountedGroups:
    """Refuse stray rows of assignments/ and commits/.

    A commit under a name without an assignment is no error: a client may commit, or hear of it, after its member has
    given back what it had.
    """
    assert frames.assignments is not None
    assert frames.commits is not None
    groups = {group: reads for lane in run.lanes for group, reads in groups_of_lane(lane).items()}
    pairs = ", ".join(f"({_quoted([reads])}, {_quoted([group])})" for group, reads in groups.items())
    checks = {
        "assignments": [
            _one_of("isolation", ISOLATION_LEVELS),
            ("end_ns", "end_ns < start_ns", "no end before the start"),
        ],
        "commits": [
            _one_of("outcome", COMMIT_OUTCOMES),
            ("offset", "offset < 0", "an offset of at least 0"),
            ("complete_ns", "complete_ns < invoke_ns", "no answer before the commit was sent"),
            ("group", f"(lane, `group`) NOT IN ({pairs})", f"the group of a lane, one of {', '.join(groups)}"),
            ("invoke_ns", "invoke_ns < assigned_ns", "no commit before the first assignment of its consumer"),
        ],
    }
    starts = frames.assignments.groupBy("lane", "consumer").agg(F.expr("min(start_ns) AS assigned_ns"))
    tables = {
        "assignments": frames.assignments,
        "commits": frames.commits.join(F.broadcast(starts), ["lane", "consumer"], "left"),
    }
    special = {"commits": "count(transaction)"}
    counts = [_counts(name, tables[name], checks[name], special.get(name, "0L")) for name in checks]
    found = _examined(run, frames, counts, tables, checks)
    rows = {name: sum(row.n for row in found if row.name == name) for name in checks}
    return CountedGroups(rows, sum(row.special for row in found))


Check = tuple[str, str, str]
"""Column, condition of a stray row, and what was expected."""


def _one_of(column: str, values: Sequence[str]) -> Check:
    return column, f"{column} NOT IN ({_quoted(values)})", f"one of {', '.join(values)}"


def _quoted(values: Iterable[str]) -> str:
    return ", ".join("'" + value.replace("\\", r"\\").replace("'", r"\'") + "'" for value in values)


def _counts(name: str, table: DataFrame, checks: Sequence[Check] | str, special: str = "0L") -> DataFrame:
    """By lane: the number of rows, the range of partitions, stray rows for each of the checks, and a further count."""
    has_partitions = "partition" in table.columns
    bad = checks if isinstance(checks, str) else f"array({', '.join(f'count_if({stray})' for _, stray, _ in checks)})"
    columns = {
        "name": f"'{name}'",
        "n": "count(1)",
        "lowest": "min(partition)" if has_partitions else "cast(NULL AS int)",
        "highest": "max(partition)" if has_partitions else "cast(NULL AS int)",
        "bad": bad,
        "special": special,
    }
    return table.groupBy("lane").agg(*(F.expr(f"{text} AS {column}") for column, text in columns.items()))


def _examined(
    run: RunDirectory,
    frames: Frames,
    counts: Sequence[DataFrame],
    tables: Mapping[str, DataFrame],
    checks: Mapping[str, Sequence[Check]],
) -> list[Row]:
    """The counts, none of which has a stray row; the first one is refused."""
    rows = reduce(DataFrame.union, counts).collect()
    for row in rows:
        require_place(run, frames, row.lane, row.lowest, row.highest)
        for check, stray in zip(checks[row.name], row.bad, strict=True):
            if stray:
                _refuse(run, row.name, tables[row.name], frames.tables()[row.name], check)
    return rows


def _refuse(run: RunDirectory, name: str, table: DataFrame, original: DataFrame, check: Check) -> NoReturn:
    column, condition, expected = check
    row = table.where(condition).limit(1).collect()[0]
    keys = [key for key in ("lane", "consumer", column) if key in original.columns]
    same = reduce(lambda one, other: one & other, (F.col(key).eqNullSafe(F.lit(row[key])) for key in keys))
    problem = f"{row[column]!r}, expected {expected}"
    raise RunDirectoryError(place_of(run, name, original, same), problem, column=column)


def require_no_nulls(spark: SparkSession, run: RunDirectory, frames: Frames) -> None:
    """Refuse nulls in required columns if no footer counts them: in files without statistics, and in tables."""
    for name, table in run.tables.items():
        frame = frames.tables().get(name)
        if run.path is not None:
            frame = read_files(spark, table.without_statistics, TABLES[name]) if table.without_statistics else None
        if frame is None:
            continue
        columns = [column for column in required(name) if column in frame.columns]
        nulls = [F.col(column).isNull().cast("long").alias(column) for column in columns]
        by_file = frame.select(F.input_file_name().alias("file"), *nulls).groupBy("file")
        counts = by_file.agg(*(F.sum(column).alias(column) for column in columns)).orderBy("file").collect()
        for row in counts:
            for column in columns:
                if row[column]:
                    place = run.place(name, _name_of(row["file"]))
                    raise RunDirectoryError(place, f"{row[column]} null values, expected none", column=column)


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
    return {name for (url,) in rows if (name := _name_of(url)) is not None}


def _name_of(url: str) -> str | None:
    """The name of the file at Spark's URL of it; None for rows that do not come from a file, whose URL is empty."""
    return unquote(url.rsplit("/", 1)[-1]) or None
