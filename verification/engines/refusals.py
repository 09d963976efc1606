"""Errors for rows that break the contract: they name the file and what was expected.

Guarantee: of several, the first by kind, then by table and file: nulls, lanes, partitions, values, identities. The
messages are those of Spark.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from kafka_chaos.contract.columns import OUTCOMES, TABLES
from kafka_chaos.contract.lane.groups import COMMIT_OUTCOMES
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, RECORD_KINDS, TRANSACTION_OUTCOMES
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.engines.engine import SqlEngine
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.parquet import required
from kafka_chaos.verification.inputs.run_directory import RunDirectory

_HISTORY = ("produced", "consumed", "log", "replicas")


class Check(NamedTuple):
    """The rows of a table that break the contract: the column that is wrong, the condition, and what was expected."""

    table: str
    column: str
    stray: str
    expected: str


def _among(table: str, column: str, values: Sequence[str]) -> Check:
    listed = ", ".join(f"'{value}'" for value in values)
    return Check(table, column, f"`{column}` NOT IN ({listed})", f"one of {', '.join(values)}")


_OF_TRANSACTIONS = (
    _among("transactions", "outcome", TRANSACTION_OUTCOMES),
    _among("assignments", "isolation", ISOLATION_LEVELS),
    _among("replicas", "kind", RECORD_KINDS),
)
_EARLY = """EXISTS (
  SELECT 1 FROM (SELECT lane, consumer, MIN(start_ns) AS start_ns FROM assignments GROUP BY lane, consumer) a
  WHERE a.lane = t.lane AND a.consumer = t.consumer AND t.invoke_ns < a.start_ns
)"""
_STRANGE = "NOT EXISTS (SELECT 1 FROM `groups` g WHERE g.lane = t.lane AND g.`group` = t.`group`)"


def refuse_stray_rows(engine: SqlEngine, run: RunDirectory) -> None:
    """Raise `RunDirectoryError` for the first row that breaks the contract."""
    groups = [group for lane in run.lanes for group in groups_of_lane(lane)]
    has_transactions = any(lane.transactional is not None for lane in run.lanes)
    concerned = {*_HISTORY, *(("transactions", "assignments") if has_transactions else ())}
    concerned |= {"assignments", "commits"} if groups else set()
    names = [name for name in TABLES if name in concerned and run.has(name)]
    _refuse_nulls(engine, run, [name for name in TABLES if run.has(name)])
    _refuse_places(engine, run, names)
    _refuse(engine, run, [_among("produced", "outcome", OUTCOMES)])
    if has_transactions:
        _refuse(engine, run, _OF_TRANSACTIONS)
        _refuse_repeated(engine, run)
    if groups:
        _refuse(engine, run, _of_groups(groups))
    _refuse_identities(engine, run)


def _of_groups(groups: Sequence[str]) -> Sequence[Check]:
    return (
        _among("assignments", "isolation", ISOLATION_LEVELS),
        Check("assignments", "end_ns", "end_ns < start_ns", "no end before the start"),
        _among("commits", "outcome", COMMIT_OUTCOMES),
        Check("commits", "offset", "`offset` < 0", "an offset of at least 0"),
        Check("commits", "complete_ns", "complete_ns < invoke_ns", "no answer before the commit was sent"),
        Check("commits", "group", _STRANGE, f"the group of a lane, one of {', '.join(groups)}"),
        Check("commits", "invoke_ns", _EARLY, "no commit before the first assignment of its consumer"),
    )


def _refuse_nulls(engine: SqlEngine, run: RunDirectory, names: Iterable[str]) -> None:
    for name in names:
        columns = required(name)
        nulls = ", ".join(f"COUNT(*) - COUNT(`{column}`)" for column in columns)
        for file, *counts in engine.rows(f"SELECT file, {nulls} FROM {name} GROUP BY file ORDER BY file"):
            for column, count in zip(columns, counts, strict=True):
                if count:
                    problem = f"{count} null values, expected none"
                    raise RunDirectoryError(_file(run, name, file), problem, column=column)


def _refuse_places(engine: SqlEngine, run: RunDirectory, names: Sequence[str]) -> None:
    """Refuse lanes that lanes.json does not name, and partitions that a lane does not have."""
    known = {lane.lane: lane.partitions for lane in run.lanes}
    for name in names:
        strays = f"SELECT lane, file FROM {name} t LEFT ANTI JOIN lanes l ON l.lane = t.lane ORDER BY file LIMIT 1"
        for lane, file in engine.rows(strays):
            problem = f"{lane!r} is not in lanes.json ({', '.join(known)})"
            raise RunDirectoryError(_file(run, name, file), problem, column="lane")
    for name in names:
        if name == "transactions":
            continue
        outside = "t.`partition` < 0 OR t.`partition` >= l.partitions"
        strays = f"SELECT t.lane, t.`partition`, t.file FROM {name} t JOIN lanes l ON l.lane = t.lane WHERE {outside}"
        for lane, partition, file in engine.rows(f"{strays} ORDER BY file LIMIT 1"):
            problem = f"lane {lane!r} has partitions 0 to {known[lane] - 1}, not {partition}"
            raise RunDirectoryError(_file(run, name, file), problem, column="partition")


def _refuse(engine: SqlEngine, run: RunDirectory, checks: Iterable[Check]) -> None:
    for table, column, stray, expected in checks:
        for value, file in engine.rows(f"SELECT `{column}`, file FROM {table} t WHERE {stray} ORDER BY file LIMIT 1"):
            raise RunDirectoryError(_file(run, table, file), f"{value!r}, expected {expected}", column=column)


def _refuse_repeated(engine: SqlEngine, run: RunDirectory) -> None:
    """Refuse a transaction that is there twice."""
    keys = "lane, producer_id, `transaction`"
    twice = f"SELECT {keys} FROM transactions GROUP BY {keys} HAVING COUNT(*) > 1 ORDER BY {keys} LIMIT 1"
    for lane, producer_id, transaction in engine.rows(twice):
        problem = f"lane {lane!r}, producer_id {producer_id}, transaction {transaction} occurs twice"
        raise RunDirectoryError(run.place("transactions"), problem, column="transaction")


def _refuse_identities(engine: SqlEngine, run: RunDirectory) -> None:
    """Refuse an identity that produced/ holds twice, naming the files."""
    keys = "lane, producer_id, seq"
    twice = f"SELECT {keys} FROM produced GROUP BY {keys} HAVING COUNT(*) > 1 ORDER BY {keys} LIMIT 1"
    for lane, producer_id, seq in engine.rows(twice):
        _refuse_identity(engine, run, lane, producer_id, seq)


def _refuse_identity(engine: SqlEngine, run: RunDirectory, lane: str, producer_id: int, seq: int) -> NoReturn:
    rows = engine.rows(f"SELECT lane, file FROM produced WHERE producer_id = {producer_id} AND seq = {seq}")
    files = {_file(run, "produced", file) for name, file in rows if name == lane}
    names = " and ".join(sorted(getattr(file, "name", "") for file in files))
    problem = f"lane {lane!r}, producer_id {producer_id}, seq {seq} occurs twice, in {names}"
    raise RunDirectoryError(min(files, key=str), problem, column="seq")


def _file(run: RunDirectory, table: str, number: int) -> object:
    return run.tables[table].files[number - 1]
