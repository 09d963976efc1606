"""Examines a run by the statements in SQL: reads its tables, refuses stray rows, counts facts, and finds cases.

Guarantee: facts, cases, findings and refusals are the same, row by row, whichever engine runs the statements.
Every row that was read is counted once, so that the sums can be compared with the files' footers.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from kafka_chaos.contract.columns import ALL_TABLES_OF_SHARES, TABLES_OF_GROUPS
from kafka_chaos.contract.command.progress import PARTS_OF_VERIFICATION, progress
from kafka_chaos.contract.lane.families import ANOMALIES_WITH_CAUSE, AnyAnomaly, anomaly_named
from kafka_chaos.contract.lane.lanes import COMPACT, Lane
from kafka_chaos.contract.lane.share import share_group_of
from kafka_chaos.contract.ledger import GroupLedger, GroupPartitionLedger, ShareLedger
from kafka_chaos.verification.cycles import cycles_among
from kafka_chaos.verification.engines import documents
from kafka_chaos.verification.engines.engine import NamedRow, SqlEngine, prepare
from kafka_chaos.verification.engines.refusals import refuse_stray_rows
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.storage import RunPath
from kafka_chaos.verification.judging.assessment import not_applied
from kafka_chaos.verification.judging.known_defects import preconditions
from kafka_chaos.verification.judging.result import EXAMPLES, Observation
from kafka_chaos.verification.statements.library import ANOMALIES, DEFECTS, FACTS, Statement, statement, statements
from kafka_chaos.verification.tables import facts as fact_types

_OF_FAMILIES = {
    **dict.fromkeys(("transactions", "unknown_readers", "read_to", "open_ends"), "transactions"),
    **dict.fromkeys(("groups", "progress", "without_input"), "groups"),
    "shares": "shares",
}
"""The family of lanes that a fact is about, if it is not about all."""
_OF_RECOVERY = ("pulses", "owned", "awaited")


@dataclass(frozen=True, slots=True)
class Examined:
    """What an engine found in a run.

    `facts`: by lane. `observed`: count, first examples and causes of every anomaly that is judged in its lane and was
    found. `write`: writes the rows of findings/ into a new folder. `of_groups`: rows read of tables of groups.
    """

    facts: Mapping[str, fact_types.LaneFacts]
    observed: Mapping[tuple[str, AnyAnomaly], Observation]
    write: Callable[[RunPath], None]
    of_groups: Mapping[str, int] = field(default_factory=dict)


def _facts(engine: SqlEngine, run: RunDirectory) -> dict[str, fact_types.LaneFacts]:
    """The facts of each lane."""
    rows: dict[tuple[str, str], list[NamedRow]] = defaultdict(list)
    for name, fact in statements(FACTS).items():
        is_wanted = (
            _OF_FAMILIES.get(name, "records") in run.families
            and (name not in _OF_RECOVERY or bool(run.timings))
            and (name != "unjudged" or not run.has_log or any(lane.cleanup_policy for lane in run.lanes))
        )
        prepare(engine, fact.tables if is_wanted else ())
        for row in engine.named_rows(fact.sql) if is_wanted else ():
            rows[row.pop("lane"), name].append(row)
    return {
        lane.lane: _facts_of(lane, {name: rows[lane.lane, name] for name in statements(FACTS)}) for lane in run.lanes
    }


def _facts_of(lane: Lane, rows: Mapping[str, list[NamedRow]]) -> fact_types.LaneFacts:
    """The facts of a lane. `rows`: by the name of the fact."""
    replicas: dict[int, dict[int, fact_types.ReplicaFacts]] = defaultdict(dict)
    for row in rows["replicas"]:
        partition, broker = row.pop("partition"), row.pop("broker")
        replicas[partition][broker] = fact_types.ReplicaFacts(**row)
    groups = []
    for group, reads in lane.groups.items():
        counts = next(row for row in rows["groups"] if row["group"] == group)
        of_group = [row for row in rows["progress"] if row["group"] == group]
        partitions = [GroupPartitionLedger(**{name: row[name] for name in row if name != "group"}) for row in of_group]
        groups.append(GroupLedger(reads=reads, partitions=tuple(partitions), **counts))
    return fact_types.LaneFacts(
        partitions={row.pop("partition"): fact_types.PartitionFacts(**row) for row in rows["partitions"]},
        unjudged=sum(row["n"] for row in rows["unjudged"]),
        replicas=dict(replicas),
        transactions=None if lane.transactional is None else _transactions(rows),
        groups=tuple(groups),
        without_input=sum(row["n"] for row in rows["without_input"]),
        pulses=tuple(sorted((fact_types.Pulse(**row) for row in rows["pulses"]), key=str)),
        awaited=tuple(sorted((fact_types.Awaited(**row) for row in rows["awaited"]), key=str)),
        share=next((ShareLedger(group=share_group_of(lane.lane), **row) for row in rows["shares"]), None),
        owned=tuple(sorted((fact_types.Owned(**row) for row in rows["owned"]), key=str)),
    )


def _transactions(rows: Mapping[str, list[NamedRow]]) -> fact_types.TransactionFacts:
    (counts,) = rows["transactions"]
    return fact_types.TransactionFacts(
        **counts,
        unknown_readers=tuple(sorted(row["consumer"] for row in rows["unknown_readers"])),
        read_to={row["partition"]: row["read_to"] for row in rows["read_to"] if row["read_to"] is not None},
        stayed_to={row["partition"]: row["stayed_to"] for row in rows["read_to"] if row["stayed_to"] is not None},
        open_ends=tuple(fact_types.OpenEnd(**row) for row in rows["open_ends"]),
    )


_CASE = ("anomaly", "partition", "offset", "producer_id", "seq")
"""The columns of a case beside its lane, its cause and its number of units."""
_ORDER = "`partition`, `offset`, producer_id, seq, cause"
_TYPES = {"partition": "INT", "offset": "BIGINT", "producer_id": "INT", "seq": "BIGINT", "cause": "STRING"}
_STRUCTS = {"place": ("partition", "offset"), "record": ("producer_id", "seq")}
"""The columns that a statement may give as one struct."""
_CYCLES = pa.schema(
    {
        "lane": pa.string(), "producer_id": pa.int32(), "transaction": pa.int64(), "size": pa.int64(),
        "producers": pa.string(), "by_reads": pa.int32(),
    }
)  # fmt: skip
"""The columns of the table `cycles`."""
MOST_SEARCHED = 5_000_000
"""How many dependencies of transactions are searched for cycles, at most: that is done in memory."""
FILTERED_FROM = 300_000
"""From so many rows on, a prefilter leaves out the rows of records that are proven clean."""
OfDefects = dict[tuple[str, AnyAnomaly], dict[str, int]]
"""By lane and anomaly how many findings each known defect explains."""
Skipped = Mapping[str, Mapping[AnyAnomaly, str]]
"""By lane the anomalies that are not judged in it, and why."""


def examine(engine: SqlEngine, run: RunDirectory) -> Examined:
    """What the engine finds in the run. Raises `RunDirectoryError` for rows that break the contract."""
    progress(1, PARTS_OF_VERIFICATION, "reading the tables")
    read(engine, run)
    refuse_stray_rows(engine, run)
    progress(2, PARTS_OF_VERIFICATION, "counting")
    facts = _facts(engine, run)
    skipped = {lane.lane: not_applied(run, lane, facts[lane.lane]) for lane in run.lanes}
    progress(3, PARTS_OF_VERIFICATION, "looking for each anomaly")
    for lane, count in _find(engine, run, skipped).items():
        transactions = facts[lane].transactions or fact_types.TransactionFacts()
        facts[lane] = replace(facts[lane], transactions=replace(transactions, entangled=count))
    observed = _observed(engine, run)
    columns = ", ".join(f"`{name}`" for name in _CASE)
    findings = f"SELECT lane, {columns}, cause FROM findings ORDER BY lane, anomaly, {_ORDER}"
    tables = {"groups": TABLES_OF_GROUPS, "shares": ALL_TABLES_OF_SHARES}
    names = [name for family, of_family in tables.items() if family in run.families for name in of_family]
    return Examined(
        facts=facts,
        observed=observed,
        write=partial(engine.write, findings),
        of_groups={name: engine.rows(f"SELECT COUNT(*) FROM {name}")[0][0] for name in names},
    )


def read(engine: SqlEngine, run: RunDirectory) -> None:
    """Let the engine read the run. Without the prefilter, define its views as if it had found all rows in doubt."""
    engine.read()
    for name, table in documents.tables(run).items():
        engine.add(name, table)
    if not any(lane.cleanup_policy == COMPACT for lane in run.lanes):
        # Spares other runs a look at all that was produced.
        engine.define("missing", "SELECT lane, producer_id, seq, 1 AS is_lost FROM log WHERE FALSE", keep=False)
    if run.has_log and run.rows >= FILTERED_FROM:
        return
    position = "lane, `partition`, `offset`, producer_id, seq"
    prepare(engine, ["known", "read_words"])
    for name, sql in {
        "suspect_sends": "SELECT * FROM known",
        "suspect_reads": f"SELECT {position}, consumer FROM consumed",
        "suspect_log": f"SELECT {position} FROM log",
        "suspect_replicas": "SELECT * FROM replicas",
        "doubtful_words": "SELECT lane, `partition`, word FROM read_words "
        "UNION SELECT lane, `partition`, `offset` DIV 32 FROM log",
        "doubtful_blocks": "SELECT lane, producer_id, seq AS block FROM log WHERE FALSE",
    }.items():
        engine.define(name, sql, keep=False)


def _find(engine: SqlEngine, run: RunDirectory, skipped: Skipped) -> dict[str, int]:
    """Define `cases`, those of the lanes in which their anomaly is judged, and `findings`, which adds their causes.

    Returns, for each lane whose dependencies were too many to search (`_add_cycles`), how many there are.
    """
    wanted = []
    for family in (family for family in ANOMALIES if family in run.families):
        for anomaly in statements(family).values():
            is_judged = any(anomaly_named(anomaly.name) not in reasons for reasons in skipped.values())
            if is_judged and (not anomaly.needs or run.has(anomaly.needs)):
                wanted.append(anomaly)
    entangled = _add_cycles(engine) if any("cycles" in anomaly.tables for anomaly in wanted) else {}
    for anomaly in wanted:
        prepare(engine, anomaly.tables)
    selected = [_cases(engine, anomaly, skipped) for anomaly in wanted]
    none = ", ".join(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in _TYPES.items())
    selected.append(f"SELECT '' AS lane, '' AS anomaly, {none}, CAST(1 AS BIGINT) AS units WHERE FALSE")
    numbered = "SELECT *, MONOTONICALLY_INCREASING_ID() AS number FROM"
    engine.define("cases", f"{numbered} ({' UNION ALL '.join(selected)}) q", keep=True)
    explained = statement("explained")
    prepare(engine, explained.tables)
    engine.define("findings", explained.sql, keep=True)
    return entangled


def _cases(engine: SqlEngine, anomaly: Statement, skipped: Skipped) -> str:
    """A SELECT of an anomaly's cases in the lanes where it is judged."""
    columns = engine.columns(anomaly.sql)
    sources = {name: f"{whole}.`{name}`" for whole, names in _STRUCTS.items() if whole in columns for name in names}
    sources |= {name: f"`{name}`" for name in columns}
    values = ", ".join(f"CAST({sources.get(name, 'NULL')} AS {kind}) AS `{name}`" for name, kind in _TYPES.items())
    units = "CAST(units AS BIGINT)" if "units" in columns else "CAST(1 AS BIGINT)"
    left_out = [lane for lane, reasons in skipped.items() if anomaly_named(anomaly.name) in reasons]
    names = ", ".join("'" + lane.replace("\\", "\\\\").replace("'", "\\'") + "'" for lane in left_out)
    judged = f" WHERE lane NOT IN ({names})" if left_out else ""
    return f"SELECT lane, '{anomaly.name}' AS anomaly, {values}, {units} AS units FROM ({anomaly.sql}) q{judged}"


def _add_cycles(engine: SqlEngine) -> dict[str, int]:
    """Add a table of the cycles among the dependencies of transactions, which no SELECT finds.

    Returns, for each lane in which not all dependencies were searched and no cycle was found, how many there are.
    """
    entangled, cycles = {}, []
    ends = ("producer_id", "transaction", "to_producer_id", "to_transaction")
    listed = ", ".join(f"`{name}`" for name in ends)
    for table in ("dependencies", "transaction_reads"):
        prepare(engine, [table])
        edges = engine.arrow(f"SELECT lane, {listed} FROM {table} LIMIT {MOST_SEARCHED}")
        is_cut = edges.num_rows == MOST_SEARCHED
        by_lane = engine.rows(f"SELECT lane, COUNT(*) FROM {table} GROUP BY lane") if is_cut else ()
        counts: dict[str, int] = dict(by_lane)
        lanes, *columns = (edges[name].to_numpy() for name in ("lane", *ends))
        for lane in sorted({*lanes, *counts}):
            of_lane = lanes == lane
            cycles_of_lane = cycles_among(*(column[of_lane].astype(np.int64) for column in columns))
            if not cycles_of_lane and np.count_nonzero(of_lane) < counts.get(lane, 0):
                entangled[lane] = counts[lane]
            for cycle in cycles_of_lane:
                producers = ", ".join(str(producer) for producer in sorted({producer for producer, _ in cycle})[:5])
                cycles.append((lane, *cycle[0], len(cycle), producers, int(table == "transaction_reads")))
    rows = [dict(zip(_CYCLES.names, row, strict=True)) for row in cycles]
    engine.add("cycles", pa.Table.from_pylist(rows, schema=_CYCLES))
    return entangled


def explained(engine: SqlEngine, run: RunDirectory, lanes: Collection[str]) -> OfDefects:
    """How many rows of the engine's table `findings` each known defect explains. `lanes`: those with findings."""
    counts: OfDefects = defaultdict(dict)
    names = sorted({name for lane, _, name, *_ in preconditions(run) if lane in lanes})
    wanted = [statements(DEFECTS)[name] for name in names]
    for rule in wanted:
        prepare(engine, rule.tables)
    numbers = " UNION ALL ".join(f"SELECT number, defect FROM ({rule.sql}) q" for rule in wanted)
    by_defect = f"""
    SELECT f.lane, f.anomaly, e.defect, COUNT(DISTINCT f.number) AS n
    FROM findings f
    JOIN ({numbers}) e ON e.number = f.number
    GROUP BY f.lane, f.anomaly, e.defect"""
    for lane, anomaly, defect, count in engine.rows(by_defect) if wanted else ():
        counts[lane, anomaly_named(anomaly)][defect] = count
    return counts


def _observed(engine: SqlEngine, run: RunDirectory) -> dict[tuple[str, AnyAnomaly], Observation]:
    """Count, causes and first examples per lane and anomaly, and what known defects explain of it."""
    caused = ", ".join(f"'{anomaly}'" for anomaly in ANOMALIES_WITH_CAUSE)
    named = f"CASE WHEN anomaly IN ({caused}) THEN SPLIT_PART(cause, ':', 1) END"
    counts: dict[tuple[str, AnyAnomaly], dict[str | None, int]] = defaultdict(dict)
    totals = f"SELECT lane, anomaly, {named} AS named, SUM(units) AS n FROM findings GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    for lane, anomaly, cause, units in engine.rows(totals):
        counts[lane, anomaly_named(anomaly)][cause] = int(units)
    examples: dict[tuple[str, AnyAnomaly], list[dict[str, int | None]]] = defaultdict(list)
    ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY lane, anomaly ORDER BY {_ORDER}) AS place FROM findings"
    shown = ", ".join(f"`{name}`" for name in _CASE)
    for lane, anomaly, *values in engine.rows(
        f"SELECT lane, {shown} FROM ({ranked}) q WHERE place <= {EXAMPLES} ORDER BY lane, anomaly, place"
    ):
        examples[lane, anomaly_named(anomaly)].append(dict(zip(_CASE[1:], values, strict=True)))
    by_defects = explained(engine, run, {lane for lane, _ in counts})
    return {
        key: Observation(
            sum(of_key.values()),
            tuple(examples[key]),
            {cause: count for cause, count in of_key.items() if cause is not None},
            by_defects.get(key, {}),
        )
        for key, of_key in counts.items()
    }
