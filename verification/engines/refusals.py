"""Errors for rows that break the contract: they name the file and what was expected.

One query says which of all checks fails first, and only if one does, another one looks for the file. Guarantee: of
several errors, the first by kind, then by table and column, then by file: nulls, lanes, partitions, values, identities.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import unquote

from kafka_chaos.contract.columns import ALL_TABLES_OF_SHARES, OUTCOMES, TABLES, TABLES_OF_SHARES
from kafka_chaos.contract.lane.groups import COMMIT_OUTCOMES
from kafka_chaos.contract.lane.share import ACKNOWLEDGEMENTS, share_group_of
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, RECORD_KINDS, TRANSACTION_OUTCOMES
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.engines.engine import BY_FILE, SqlEngine, prepare
from kafka_chaos.verification.inputs.run_directory import RunDirectory

_HISTORY = ("produced", "consumed", "log", "replicas")
_LEAST = {"offset": "0", "leader_epoch": "-1"}  # -1: a batch of an old format names no leader epoch


class Check(NamedTuple):
    """The rows of a table that break the contract: the column that is wrong, the condition, and what was expected.

    `told`: what is said before that. It names the column's `value`, the row's `lane` with its `last` partition, and
    the `count` of such rows in the file.
    """

    table: str
    column: str
    stray: str
    expected: str
    told: str = "{value!r}, expected "


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
        Check(name, "group", f"t.`group` <> CONCAT(t.lane, '{share_group_of('')}')", "the share group of the lane")
        for name in TABLES_OF_SHARES
    ),
    Check("share_starts", "complete_ns", "t.complete_ns < t.invoke_ns", "no report before it was asked for"),
)
_OF_COMMITS = """
LEFT JOIN `groups` g ON g.lane = t.lane AND g.`group` = t.`group`
LEFT JOIN (SELECT lane, consumer, MIN(start_ns) AS assigned_ns FROM assignments GROUP BY lane, consumer) a
  ON a.lane = t.lane AND a.consumer = t.consumer"""


def refuse_stray_rows(engine: SqlEngine, run: RunDirectory) -> None:
    """Raise `RunDirectoryError` for the first row that breaks the contract."""
    groups = [group for lane in run.lanes for group in lane.groups]
    has_transactions, has_shares = "transactions" in run.families, "shares" in run.families
    concerned = {*_HISTORY, *(("transactions", "assignments") if has_transactions else ())}
    concerned |= {"assignments", "commits"} if groups else set()
    concerned |= {*ALL_TABLES_OF_SHARES} if has_shares else set()
    checks = [
        _among("produced", "outcome", OUTCOMES),
        *(_OF_TRANSACTIONS if has_transactions else ()),
        *(_of_groups(groups) if groups else ()),
        *(_OF_SHARES if has_shares else ()),
    ]
    given = [name for name in TABLES if run.has(name)]
    checks = [*_of_every_table(run, given, concerned), *(check for check in checks if check.table in given)]
    conditions = dict.fromkeys(given, "")
    for number, check in enumerate(checks):
        conditions[check.table] += f" WHEN {check.stray} THEN {number}"
    first = (f"SELECT MIN(CASE{of} END) AS number FROM {_joined(name)}" for name, of in conditions.items())
    if broken := [number for (number,) in engine.rows(" UNION ALL ".join(first)) if number is not None]:
        _refuse(engine, run, checks[min(broken)])
    if has_transactions:
        _refuse_repeated(engine, run, "transactions", "transaction")
    prepare(engine, ["sent_blocks"])
    by_block = "SELECT lane FROM sent_blocks GROUP BY lane, producer_id, block"
    if engine.rows(f"{by_block} HAVING SUM(n) > BIT_COUNT(BIT_OR(numbers)) LIMIT 1"):
        _refuse_repeated(engine, run, "produced", "seq")


def _of_every_table(run: RunDirectory, tables: Sequence[str], concerned: set[str]) -> Iterator[Check]:
    """Nulls in any table; in those of which something is judged, lanes, partitions and offsets that can't be."""
    for table in tables:
        for name in (column.name for column in TABLES[table] if not column.nullable):
            yield Check(table, name, f"t.`{name}` IS NULL", "none", "{count} null values, expected ")
    lanes = f"({', '.join(lane.lane for lane in run.lanes)})"
    judged = [table for table in tables if table in concerned]
    yield from (Check(table, "lane", "l.lane IS NULL", lanes, "{value!r} is not in lanes.json ") for table in judged)
    outside, told = "t.`partition` < 0 OR t.`partition` >= l.partitions", "lane {lane!r} has partitions 0 to {last}, "
    yield from (
        Check(table, "partition", outside, "", f"{told}not {{value}}") for table in judged if table != "transactions"
    )
    for table in judged:
        for column in TABLES[table]:
            if least := _LEAST.get(column.name):
                stray = f"t.`{column.name}` NOT BETWEEN {least} AND {2**62}"
                yield Check(table, column.name, stray, f"{least} to 2^62{', or null' if column.nullable else ''}")


def _of_groups(groups: Sequence[str]) -> Sequence[Check]:
    return (
        _among("assignments", "isolation", ISOLATION_LEVELS),
        Check("assignments", "end_ns", "t.end_ns < t.start_ns", "no end before the start"),
        _among("commits", "outcome", COMMIT_OUTCOMES),
        Check("commits", "complete_ns", "t.complete_ns < t.invoke_ns", "no answer before the commit was sent"),
        Check("commits", "group", "g.lane IS NULL", f"the group of a lane, one of {', '.join(groups)}"),
        Check("commits", "invoke_ns", "t.invoke_ns < a.assigned_ns", "no commit before its consumer was assigned"),
    )


def _joined(table: str, twin: str = "") -> str:
    """A table `t`, or its twin, with what its conditions need."""
    return f"{table}{twin} t LEFT JOIN lanes l ON l.lane = t.lane" + (_OF_COMMITS if table == "commits" else "")


def _refuse(engine: SqlEngine, run: RunDirectory, check: Check) -> None:
    """Refuse the first file with a row that the check is about.

    Rows are counted, not selected: DuckDB would leave out those that a footer says are not there.
    """
    table, column, stray, expected, told = check
    row = f"STRUCT(t.`{column}` AS value, t.lane, l.partitions - 1 AS last)"
    strays = f"SELECT t.file, COUNT_IF({stray}) AS n, MIN(CASE WHEN {stray} THEN {row} END) AS first"
    by_file = f"{strays} FROM {_joined(table, BY_FILE)} GROUP BY t.file"
    first = f"SELECT file, n, first.value, first.lane, first.last FROM ({by_file}) q WHERE n > 0 ORDER BY file LIMIT 1"
    for file, count, value, lane, last in engine.rows(first):
        problem = told.format(value=value, lane=lane, last=last, count=count)
        raise RunDirectoryError(run.place(table, file), f"{problem}{expected}", column=column)


def _refuse_repeated(engine: SqlEngine, run: RunDirectory, table: str, number: str) -> None:
    """Refuse a producer's number that is in a table twice, naming the files."""
    keys = f"lane, producer_id, `{number}`"
    twice = f"SELECT {keys}, MIN(file), MAX(file) FROM {table}{BY_FILE} GROUP BY {keys} HAVING COUNT(*) > 1"
    for lane, producer_id, value, *ends in engine.rows(f"{twice} ORDER BY {keys} LIMIT 1"):
        files = sorted({file for file in ends if file is not None})
        problem = f"lane {lane!r}, producer_id {producer_id}, {number} {value} occurs twice"
        problem += f", in {' and '.join(files)}" if files else ""
        raise RunDirectoryError(run.place(table, next(iter(files), None)), problem, column=number)


_UNREADABLE = re.compile(r"(?s)(?:FAILED_READ_FILE|[Ee]rror while reading file)\S*\s.*?([a-z0-9]+:/\S+\.parquet)")


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
