"""References of a run that do not resolve, by lane: the statements in `statements/relations/`, run by any engine.

Guarantee: a relation that does not hold is a doubt of its lane, and the anomalies that rest on it are not judged.

An anomaly compares the records of several tables; a relation says what must hold for the tables to be of one run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.families import anomaly_named
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.share import ShareAnomaly
from kafka_chaos.verification.engines.engine import SqlEngine, prepare
from kafka_chaos.verification.inputs.manifest import not_as_written
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Doubt
from kafka_chaos.verification.statements.library import RELATIONS, VIEWS, Statement, statements

TOGETHER: dict[str, Sequence[str]] = {
    "of_log": ["torn_transaction", "lost_transaction", "hanging_transaction", "dependency_cycle"],
    "of_reads": ["aborted_read", "precommitted_read", "torn_transaction"],
    "of_commits": ["commit_lost", "commit_regressed", "skipped_after_rebalance"],
    "of_loops": ["processed_twice", "not_processed"],
    "of_groups": list(GroupAnomaly),
    "of_shares": list(ShareAnomaly),
}
"""Names for anomalies that rest on a relation together."""
_ANY = "SELECT 1 FROM `{}` LIMIT 1"
Unresolved = tuple[str, Doubt]
"""A lane, and what does not resolve in it."""


def unresolved(engine: SqlEngine, run: RunDirectory) -> list[Unresolved]:
    """The relations that do not hold in the run, by lane. The engine has the run's tables and documents."""
    has_rows = cache(lambda name: bool(run.tables[name].rows if name in run.tables else engine.rows(_ANY.format(name))))
    selected = []
    for relation in statements(RELATIONS).values():
        if has_rows(_beginning(relation)):
            prepare(engine, relation.tables)
            selected.append(_by_lane(relation, engine.columns(relation.sql)))
    rows = engine.rows(" UNION ALL ".join(selected)) if selected else []
    found = []
    for name, lane, number, count, place in sorted(rows):
        relation = statements(RELATIONS)[name]
        problem, entries = relation.problems[number]
        rests = (anomaly_named(one) for entry in entries for one in TOGETHER.get(entry, [entry]))
        found.append((lane, Doubt(f"{relation.of}: {problem}: {counted(count, 'row')}, such as {place}", tuple(rests))))
    return found


def _beginning(statement: Statement) -> str:
    """The table or document that the statement begins with; if it is empty, the statement yields nothing."""
    name = statement.tables[0]
    return _beginning(statements(VIEWS)[name]) if name in statements(VIEWS) else name


def _by_lane(relation: Statement, columns: Sequence[str]) -> str:
    """A SELECT of the lanes in which a relation does not hold: its number, how many rows break it, the place of one."""
    problems = [problem for problem, _ in relation.problems if problem in columns]
    places = [name for name in columns if name not in ("lane", "n", *problems)]
    shown = [f"'{name.removesuffix('_id').replace('_', ' ')} ' || `{name}`" for name in places]
    place = f"CONCAT_WS(', ', {', '.join(shown)})" if shown else "'of lane ' || lane"
    n = "n" if "n" in columns else "1"
    rows = f"(SELECT *, 0 AS number FROM ({relation.sql}) q) q"
    if problems:
        # One row for each condition, so that the source is read once.
        holds = " ".join(f"WHEN {number} THEN `{problem}`" for number, problem in enumerate(problems))
        each = f"(SELECT *, EXPLODE(SEQUENCE(0, {len(problems) - 1})) AS number FROM ({relation.sql}) q) q"
        rows = f"{each} WHERE CASE number {holds} END"
    counts = f"CAST(number AS INT) AS number, CAST(SUM({n}) AS BIGINT) AS n, MIN({place}) AS place"
    return f"SELECT '{relation.name}' AS relation, lane, {counts} FROM {rows} GROUP BY lane, number"


def resolved(run: RunDirectory, relations: Iterable[Unresolved]) -> RunDirectory:
    """The run with its doubts: those of `relations`, and those about its files."""
    doubts: defaultdict[str, list[Doubt]] = defaultdict(list)
    of_files = [] if run.path is None else not_as_written(run.path)
    if run.is_planned and run.events.faults is None:
        of_files.append("events.jsonl is missing, though experiment.yaml is there")
    for lane in run.lanes:
        doubts[lane.lane] += map(Doubt, of_files)
    topics = Counter(lane.topic or lane.lane for lane in run.lanes)
    for lane in run.lanes:
        # The log would hold the records of both.
        if topics[topic := lane.topic or lane.lane] > 1:
            doubts[lane.lane].append(Doubt(f"lanes.json: topic {topic} is that of another lane, too"))
    for name, doubt in relations:
        doubts[name].append(doubt)
    return replace(run, doubts={lane: found for lane, found in doubts.items() if found})
