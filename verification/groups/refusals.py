"""Errors for rows of assignments/ and commits/ that break the contract.

Guarantee: each error is a `RunDirectoryError` that names the file and what was expected. The file is searched for only
after an error was found. A commit under a name without an assignment is no error: a client may commit, or hear of it,
after its member has given back what it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.groups import COMMIT_OUTCOMES
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.contract.transactions import ISOLATION_LEVELS
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.refusals import place_of, refuse_partition, refuse_stray_lane


@dataclass(frozen=True, slots=True)
class Counted:
    """The rows of assignments/ and commits/, as read, and how many commits name a transaction."""

    rows: Mapping[str, int]
    in_transactions: int


def refuse_stray_values(run: RunDirectory, frames: Frames) -> Counted:
    """Refuse stray rows, with the first one of its kind."""
    assert frames.assignments is not None
    assert frames.commits is not None
    checks = {"assignments": _of_assignments(run), "commits": _of_commits(run, frames)}
    tables = {"assignments": frames.assignments, "commits": _with_start(frames)}
    counts = reduce(DataFrame.union, (_counts(name, tables[name], checks[name]) for name in checks)).collect()
    known = {lane.lane: lane.partitions for lane in run.lanes}
    for row in counts:
        if row.lane not in known:
            refuse_stray_lane(run, frames, list(known))
        for partition in (row.lowest, row.highest):
            if not 0 <= partition < known[row.lane]:
                refuse_partition(run, frames, row.lane, partition)
        for at, (column, bad, expected) in enumerate(checks[row.name]):
            if row.bad[at]:
                _refuse(run, frames, row.name, tables[row.name], column, bad, expected)
    rows = {name: sum(row.n for row in counts if row.name == name) for name in checks}
    return Counted(rows, sum(row.in_transactions for row in counts))


def _of_assignments(run: RunDirectory) -> list[tuple[str, str, str]]:
    """Column, condition of a stray row, and what was expected."""
    levels = ", ".join(ISOLATION_LEVELS)
    return [
        ("isolation", f"isolation NOT IN ({_quoted(ISOLATION_LEVELS)})", f"one of {levels}"),
        ("end_ns", "end_ns < start_ns", "no end before the start"),
    ]


def _of_commits(run: RunDirectory, frames: Frames) -> list[tuple[str, str, str]]:
    groups = {group: reads for lane in run.lanes for group, reads in groups_of_lane(lane).items()}
    pairs = ", ".join(f"({_quoted([reads])}, {_quoted([group])})" for group, reads in groups.items())
    return [
        ("outcome", f"outcome NOT IN ({_quoted(COMMIT_OUTCOMES)})", f"one of {', '.join(COMMIT_OUTCOMES)}"),
        ("offset", "offset < 0", "an offset of at least 0"),
        ("complete_ns", "complete_ns < invoke_ns", "no answer before the commit was sent"),
        ("group", f"(lane, `group`) NOT IN ({pairs})", f"the group of a lane, one of {', '.join(groups)}"),
        ("invoke_ns", "invoke_ns < assigned_ns", "no commit before the first assignment of its consumer"),
    ]


def _quoted(values: Iterable[str]) -> str:
    return ", ".join("'" + value.replace("\\", r"\\").replace("'", r"\'") + "'" for value in values)


def _with_start(frames: Frames) -> DataFrame:
    """COMMITS with when their consumer was first assigned anything; null if it never was."""
    assert frames.assignments is not None
    assert frames.commits is not None
    starts = frames.assignments.groupBy("lane", "consumer").agg(F.expr("min(start_ns) AS assigned_ns"))
    return frames.commits.join(F.broadcast(starts), ["lane", "consumer"], "left")


def _counts(name: str, table: DataFrame, checks: list[tuple[str, str, str]]) -> DataFrame:
    bad = ", ".join(f"count_if({condition})" for _, condition, _ in checks)
    columns = {
        "name": f"'{name}'",
        "n": "count(1)",
        "lowest": "min(partition)",
        "highest": "max(partition)",
        "bad": f"array({bad})",
        "in_transactions": "count(transaction)" if name == "commits" else "0L",
    }
    return table.groupBy("lane").agg(*(F.expr(f"{text} AS {column}") for column, text in columns.items()))


def _refuse(
    run: RunDirectory, frames: Frames, name: str, table: DataFrame, column: str, condition: str, expected: str
) -> None:
    row = table.where(condition).limit(1).collect()[0]
    original = frames.tables()[name]
    same = reduce(
        lambda one, other: one & other, (F.col(key).eqNullSafe(F.lit(row[key])) for key in ("lane", "consumer", column))
    )
    problem = f"{row[column]!r}, expected {expected}"
    raise RunDirectoryError(place_of(run, name, original, same), problem, column=column)
