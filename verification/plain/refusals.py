"""Errors for rows that break the contract: they name the file and what was expected.

Guarantee: of several, the first by kind, then by table and file: lanes, partitions, values, identities. The messages
are those of Spark.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from kafka_chaos.contract.columns import OUTCOMES
from kafka_chaos.contract.lane.groups import COMMIT_OUTCOMES
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, RECORD_KINDS, TRANSACTION_OUTCOMES
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.plain.tables import Part

HISTORY = ("produced", "consumed", "log", "replicas")


def refuse_stray_rows(run: RunDirectory, parts: Sequence[Part]) -> None:
    """Raise `RunDirectoryError` for the first row that breaks the contract."""
    has_transactions = any(lane.transactional is not None for lane in run.lanes)
    has_groups = any(groups_of_lane(lane) for lane in run.lanes)
    concerned = {*HISTORY, *(("transactions", "assignments") if has_transactions else ())}
    concerned |= {"assignments", "commits"} if has_groups else set()
    parts = [part for part in parts if part.table in concerned]
    _refuse_places(run, parts)
    _refuse_values(parts, "produced", "outcome", OUTCOMES)
    if has_transactions:
        _refuse_values(parts, "transactions", "outcome", TRANSACTION_OUTCOMES)
        _refuse_values(parts, "assignments", "isolation", ISOLATION_LEVELS)
        _refuse_values(parts, "replicas", "kind", (*RECORD_KINDS, None))
        _refuse_repeated(run, parts)
    if has_groups:
        _refuse_of_groups(run, parts)
    _refuse_identities(parts)


def _refuse_places(run: RunDirectory, parts: Iterable[Part]) -> None:
    """Refuse lanes that lanes.json does not name, and partitions that a lane does not have."""
    known = {lane.lane: lane.partitions for lane in run.lanes}
    for part in parts:
        for lane in dict.fromkeys(part.columns["lane"]):
            if lane not in known:
                problem = f"{lane!r} is not in lanes.json ({', '.join(known)})"
                raise RunDirectoryError(part.file, problem, column="lane")
    for part in parts:
        places = part.rows("lane", "partition") if "partition" in part.columns else ()
        for lane, partition in dict.fromkeys(places):
            if partition is not None and not 0 <= partition < known[lane]:
                problem = f"lane {lane!r} has partitions 0 to {known[lane] - 1}, not {partition}"
                raise RunDirectoryError(part.file, problem, column="partition")


def _refuse_values(parts: Iterable[Part], table: str, column: str, expected: Sequence[str | None]) -> None:
    for part in parts:
        if part.table == table:
            for value in dict.fromkeys(part.columns[column]):
                if value not in expected:
                    names = ", ".join(name for name in expected if name is not None)
                    raise RunDirectoryError(part.file, f"{value!r}, expected one of {names}", column=column)


def _refuse_repeated(run: RunDirectory, parts: Iterable[Part]) -> None:
    """Refuse a transaction that is there twice."""
    rows = (row for part in parts if part.table == "transactions" for row in part.rows(*_TRANSACTION))
    for (lane, producer_id, transaction), count in Counter(rows).items():
        if count > 1:
            problem = f"lane {lane!r}, producer_id {producer_id}, transaction {transaction} occurs twice"
            raise RunDirectoryError(run.place("transactions"), problem, column="transaction")


_TRANSACTION = ("lane", "producer_id", "transaction")
_IDENTITY = ("lane", "producer_id", "seq")


def _refuse_of_groups(run: RunDirectory, parts: Sequence[Part]) -> None:
    """Refuse rows of assignments/ and commits/ that make no sense."""
    groups = {group: reads for lane in run.lanes for group, reads in groups_of_lane(lane).items()}
    starts: dict[tuple[str, str], int] = {}
    for part in parts:
        if part.table == "assignments":
            for lane, consumer, start_ns in part.rows("lane", "consumer", "start_ns"):
                starts[lane, consumer] = min(start_ns, starts.get((lane, consumer), start_ns))

    def began(lane: str, consumer: str, invoke_ns: int) -> bool:
        return invoke_ns >= starts.get((lane, consumer), invoke_ns)

    _refuse_values(parts, "assignments", "isolation", ISOLATION_LEVELS)
    in_order = "no end before the start"
    _refuse(parts, "assignments", ("end_ns", "start_ns"), lambda end, start: end is None or end >= start, in_order)
    _refuse_values(parts, "commits", "outcome", COMMIT_OUTCOMES)
    _refuse(parts, "commits", ("offset",), lambda offset: offset >= 0, "an offset of at least 0")
    in_order = "no answer before the commit was sent"
    _refuse(parts, "commits", ("complete_ns", "invoke_ns"), lambda end, at: end is None or end >= at, in_order)
    of_lane = f"the group of a lane, one of {', '.join(groups)}"
    _refuse(parts, "commits", ("group", "lane"), lambda group, lane: groups.get(group) == lane, of_lane)
    late = "no commit before the first assignment of its consumer"
    names = ("invoke_ns", "lane", "consumer")
    _refuse(parts, "commits", names, lambda at, lane, consumer: began(lane, consumer, at), late)


def _refuse(
    parts: Iterable[Part], table: str, names: tuple[str, ...], holds: Callable[..., bool], expected: str
) -> None:
    """Refuse a row whose values under `names` do not hold; the first one is named."""
    for part in parts:
        if part.table == table:
            for values in part.rows(*names):
                if not holds(*values):
                    raise RunDirectoryError(part.file, f"{values[0]!r}, expected {expected}", column=names[0])


def _refuse_identities(parts: Sequence[Part]) -> None:
    """Refuse an identity that produced/ holds twice, naming the files."""
    produced = [part for part in parts if part.table == "produced"]
    seen: set[tuple[object, ...]] = set()
    for part in produced:
        before = len(seen)
        seen.update(part.rows(*_IDENTITY))
        if len(seen) < before + len(part.columns["lane"]):
            _refuse_identity(produced)


def _refuse_identity(produced: Sequence[Part]) -> None:
    counts = Counter(row for part in produced for row in part.rows(*_IDENTITY))
    twice = min(row for row, count in counts.items() if count > 1)
    found = {part.file for part in produced if twice in set(part.rows(*_IDENTITY))}
    names = " and ".join(sorted(file.name for file in found))
    lane, producer_id, seq = twice
    problem = f"lane {lane!r}, producer_id {producer_id}, seq {seq} occurs twice, in {names}"
    raise RunDirectoryError(min(found), problem, column="seq")
