"""Errors for rows that break the contract: they name the file and what was expected.

One query counts the rows that break it, and only if there are any, further ones look for the file. Guarantee: of
several errors, the first by kind, then by table and file: nulls, lanes, partitions, values, identities.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn
from urllib.parse import unquote

from kafka_chaos.contract.columns import OF_SHARES, OUTCOMES, TABLES
from kafka_chaos.contract.lane.groups import COMMIT_OUTCOMES
from kafka_chaos.contract.lane.share import ACKNOWLEDGEMENTS
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, RECORD_KINDS, TRANSACTION_OUTCOMES
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.engines.engine import BY_FILE, SqlEngine, prepare
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
    return Check(table, column, f"t.`{column}` NOT IN ({listed})", f"one of {', '.join(values)}")


_OF_TRANSACTIONS = (
    _among("transactions", "outcome", TRANSACTION_OUTCOMES),
    _among("assignments", "isolation", ISOLATION_LEVELS),
    _among("replicas", "kind", RECORD_KINDS),
)
_OF_SHARES = (
    _among("deliveries", "acknowledgement", ACKNOWLEDGEMENTS),
    _among("deliveries", "outcome", OUTCOMES),
    Check("deliveries", "delivery_count", "t.delivery_count < 1", "a count of at least 1"),
    Check("deliveries", "asked_ns", "t.asked_ns > t.delivered_ns", "no delivery before it was asked for"),
    Check("deliveries", "invoke_ns", "t.invoke_ns < t.delivered_ns", "no acknowledgement before the delivery"),
    Check("deliveries", "complete_ns", "t.complete_ns < t.invoke_ns", "no answer before the acknowledgement"),
    *(
        Check(name, "group", "t.`group` <> CONCAT(t.lane, '-share')", "the share group of the lane")
        for name in OF_SHARES
    ),
    Check("share_starts", "complete_ns", "t.complete_ns < t.invoke_ns", "no report before it was asked for"),
)
_OF_COMMITS = """
LEFT JOIN `groups` g ON g.lane = t.lane AND g.`group` = t.`group`
LEFT JOIN (SELECT lane, consumer, MIN(start_ns) AS assigned_ns FROM assignments GROUP BY lane, consumer) a
  ON a.lane = t.lane AND a.consumer = t.consumer"""


def refuse_stray_rows(engine: SqlEngine, run: RunDirectory) -> None:
    """Raise `RunDirectoryError` for the first row that breaks the contract."""
    groups = [group for lane in run.lanes for group in groups_of_lane(lane)]
    has_transactions = any(lane.transactional is not None for lane in run.lanes)
    concerned = {*_HISTORY, *(("transactions", "assignments") if has_transactions else ())}
    concerned |= {"assignments", "commits"} if groups else set()
    has_shares = any(lane.share is not None for lane in run.lanes)
    concerned |= {*OF_SHARES} if has_shares else set()
    checks = [
        _among("produced", "outcome", OUTCOMES),
        *(_OF_TRANSACTIONS if has_transactions else ()),
        *(_of_groups(groups) if groups else ()),
        *(_OF_SHARES if has_shares else ()),
    ]
    strays = _stray_rows(engine, [name for name in TABLES if run.has(name)], concerned, checks)
    for table in strays["nulls"]:
        _refuse_nulls(engine, run, table)
    for table in strays["lanes"]:
        _refuse_lane(engine, run, table)
    for table in strays["partitions"]:
        _refuse_partition(engine, run, table)
    for check in checks:
        if check.table in strays["values"]:
            _refuse_value(engine, run, check)
    if has_transactions:
        _refuse_repeated(engine, run)
    _refuse_identities(engine, run)


def _of_groups(groups: Sequence[str]) -> Sequence[Check]:
    return (
        _among("assignments", "isolation", ISOLATION_LEVELS),
        Check("assignments", "end_ns", "t.end_ns < t.start_ns", "no end before the start"),
        _among("commits", "outcome", COMMIT_OUTCOMES),
        Check("commits", "offset", "t.`offset` < 0", "an offset of at least 0"),
        Check("commits", "complete_ns", "t.complete_ns < t.invoke_ns", "no answer before the commit was sent"),
        Check("commits", "group", "g.lane IS NULL", f"the group of a lane, one of {', '.join(groups)}"),
        Check(
            "commits",
            "invoke_ns",
            "t.invoke_ns < a.assigned_ns",
            "no commit before the first assignment of its consumer",
        ),
    )


def _stray_rows(
    engine: SqlEngine, names: Sequence[str], concerned: set[str], checks: Sequence[Check]
) -> dict[str, list[str]]:
    """By kind of error the tables with such rows."""
    kinds = ("nulls", "lanes", "partitions", "values")
    counts = []
    for name in names:
        conditions = dict.fromkeys(kinds, "FALSE")
        conditions["nulls"] = " OR ".join(f"t.`{column}` IS NULL" for column in required(name))
        conditions["values"] = " OR ".join(["FALSE", *(check.stray for check in checks if check.table == name)])
        if name in concerned:
            conditions["lanes"] = "l.lane IS NULL"
            if name != "transactions":
                conditions["partitions"] = "t.`partition` < 0 OR t.`partition` >= l.partitions"
        counted = ", ".join(f"COUNT_IF({stray}) AS {kind}" for kind, stray in conditions.items())
        counts.append(f"SELECT '{name}' AS name, {counted} FROM {_joined(name)}")
    rows = engine.rows(" UNION ALL ".join(counts))
    strays = {name: dict(zip(kinds, numbers, strict=True)) for name, *numbers in rows}
    return {kind: [name for name in names if strays[name][kind]] for kind in kinds}


def _joined(table: str, twin: str = "") -> str:
    """A table `t`, or its twin, with what its conditions need."""
    return f"{table}{twin} t LEFT JOIN lanes l ON l.lane = t.lane" + (_OF_COMMITS if table == "commits" else "")


def _refuse_nulls(engine: SqlEngine, run: RunDirectory, table: str) -> None:
    columns = required(table)
    nulls = ", ".join(f"COUNT(*) - COUNT(`{column}`)" for column in columns)
    for file, *counts in engine.rows(f"SELECT file, {nulls} FROM {table}{BY_FILE} GROUP BY file ORDER BY file"):
        for column, count in zip(columns, counts, strict=True):
            if count:
                raise RunDirectoryError(run.place(table, file), f"{count} null values, expected none", column=column)


def _refuse_lane(engine: SqlEngine, run: RunDirectory, table: str) -> None:
    """Refuse a lane that lanes.json does not name."""
    strays = f"SELECT t.lane, t.file FROM {_joined(table, BY_FILE)} WHERE l.lane IS NULL ORDER BY t.file LIMIT 1"
    for lane, file in engine.rows(strays):
        problem = f"{lane!r} is not in lanes.json ({', '.join(one.lane for one in run.lanes)})"
        raise RunDirectoryError(run.place(table, file), problem, column="lane")


def _refuse_partition(engine: SqlEngine, run: RunDirectory, table: str) -> None:
    """Refuse a partition that its lane does not have."""
    outside = "t.`partition` < 0 OR t.`partition` >= l.partitions"
    strays = f"SELECT t.lane, t.`partition`, l.partitions, t.file FROM {_joined(table, BY_FILE)} WHERE {outside}"
    for lane, partition, partitions, file in engine.rows(f"{strays} ORDER BY t.file LIMIT 1"):
        problem = f"lane {lane!r} has partitions 0 to {partitions - 1}, not {partition}"
        raise RunDirectoryError(run.place(table, file), problem, column="partition")


def _refuse_value(engine: SqlEngine, run: RunDirectory, check: Check) -> None:
    table, column, stray, expected = check
    strays = f"SELECT t.`{column}`, t.file FROM {_joined(table, BY_FILE)} WHERE {stray} ORDER BY t.file LIMIT 1"
    for value, file in engine.rows(strays):
        raise RunDirectoryError(run.place(table, file), f"{value!r}, expected {expected}", column=column)


def _refuse_repeated(engine: SqlEngine, run: RunDirectory) -> None:
    """Refuse a transaction that is there twice."""
    keys = "lane, producer_id, `transaction`"
    twice = f"SELECT {keys} FROM transactions GROUP BY {keys} HAVING COUNT(*) > 1 ORDER BY {keys} LIMIT 1"
    for lane, producer_id, transaction in engine.rows(twice):
        problem = f"lane {lane!r}, producer_id {producer_id}, transaction {transaction} occurs twice"
        raise RunDirectoryError(run.place("transactions"), problem, column="transaction")


def _refuse_identities(engine: SqlEngine, run: RunDirectory) -> None:
    """Refuse an identity that produced/ holds twice, naming the files."""
    prepare(engine, ["sent_blocks"])
    if not engine.rows("SELECT lane FROM sent_blocks WHERE n > BIT_COUNT(numbers) LIMIT 1"):
        return
    keys = "lane, producer_id, seq"
    twice = f"SELECT {keys} FROM produced GROUP BY {keys} HAVING COUNT(*) > 1 ORDER BY {keys} LIMIT 1"
    for lane, producer_id, seq in engine.rows(twice):
        _refuse_identity(engine, run, lane, producer_id, seq)


def _refuse_identity(engine: SqlEngine, run: RunDirectory, lane: str, producer_id: int, seq: int) -> NoReturn:
    rows = engine.rows(f"SELECT lane, file FROM produced{BY_FILE} WHERE producer_id = {producer_id} AND seq = {seq}")
    files = sorted({file for name, file in rows if name == lane and file is not None})
    problem = f"lane {lane!r}, producer_id {producer_id}, seq {seq} occurs twice"
    problem += f", in {' and '.join(files)}" if files else ""
    raise RunDirectoryError(run.place("produced", next(iter(files), None)), problem, column="seq")


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
