"""Condenses assignments/ and commits/ into what a picture can show: which partitions members held, and their commits.

Guarantee: what is kept grows with the assignments, members, partitions and slots of time, but not with the commits.
Counts of commits are exact.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka_chaos.contract.columns import ASSIGNMENTS, COMMITS
from kafka_chaos.harness.report.inputs.table_queries import Grids, ask
from kafka_chaos.harness.report.inputs.transactions import natural_key

_ASSIGNMENTS_IN_ORDER = """
SELECT lane, "group", consumer, member, generation, partition, start_ns, end_ns
FROM entries WHERE "group" IS NOT NULL ORDER BY start_ns, partition
"""
_COMMITS_BY_SLOT = """
WITH timed AS (SELECT *, coalesce(complete_ns, invoke_ns) AS done FROM entries)
SELECT lane, "group", partition, min(done) AS at_ns, outcome, error, max("offset") AS "offset", count(*) AS count
FROM timed GROUP BY lane, "group", partition, outcome, error, slot(done, start, width) ORDER BY at_ns, partition
"""
_LONGEST_BREAK_NS = 1_000_000  # a member that holds a partition again within this time is shown as if it had kept it


@dataclass(frozen=True)
class Holding:
    """A time in which a member held a partition. `end_ns` None: never released. `generations`: the first and last."""

    partition: int
    member: str
    start_ns: int
    end_ns: int | None
    generations: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True)
class SimilarCommits:
    """`count` commits of a partition, alike in outcome and error: `at_ns` of the first, the highest `offset`."""

    partition: int
    at_ns: int
    outcome: str
    error: str | None
    offset: int
    count: int = 1


@dataclass(frozen=True)
class GroupOverTime:
    """A group that reads `lane`. `members`: the members' short names, sorted."""

    group: str
    lane: str
    holdings: Sequence[Holding] = ()
    commits: Sequence[SimilarCommits] = ()
    members: Sequence[str] = ()
    generations: Sequence[tuple[int, int]] = ()
    """The time of each generation's first assignment, and the generation."""

    @property
    def partitions(self) -> list[int]:
        """The partitions that a member held, or committed an offset of."""
        held = {holding.partition for holding in self.holdings}
        return sorted(held | {commit.partition for commit in self.commits})


def read_groups(
    assignments: Sequence[Path], commits: Sequence[Path], grids: Grids
) -> dict[tuple[str, str], GroupOverTime]:
    """The groups, by the lane that a group reads and the group's name; readers without a group are left out."""
    held: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in ask(_ASSIGNMENTS_IN_ORDER, assignments, ASSIGNMENTS, grids):
        held[row["lane"], row["group"]].append(row)
    committed: defaultdict[tuple[str, str], list[SimilarCommits]] = defaultdict(list)
    for row in ask(_COMMITS_BY_SLOT, commits, COMMITS, grids):
        committed[row.pop("lane"), row.pop("group")].append(SimilarCommits(**row))
    return {
        (lane, group): _group(lane, group, held[lane, group], committed[lane, group])
        for lane, group in sorted(held.keys() | committed.keys())
    }


def _group(lane: str, group: str, rows: Sequence[dict[str, Any]], commits: Sequence[SimilarCommits]) -> GroupOverTime:
    """A group, from its rows of assignments/. A member that gets a partition back at once counts as having kept it."""
    holdings: list[Holding] = []
    last_index: dict[tuple[int, str], int] = {}  # By partition and member, the index of the last holding.
    generations: dict[int, int] = {}
    for row in rows:
        member, generation = _member_name(group, row), row["generation"]
        if generation is not None:
            generations.setdefault(generation, row["start_ns"])
        key = (row["partition"], member)
        before = holdings[last_index[key]] if key in last_index else None
        if before is not None and before.end_ns is not None and row["start_ns"] - before.end_ns <= _LONGEST_BREAK_NS:
            kept = replace(before, end_ns=row["end_ns"], generations=(before.generations[0], generation))
            holdings[last_index[key]] = kept
            continue
        last_index[key] = len(holdings)
        holdings.append(Holding(row["partition"], member, row["start_ns"], row["end_ns"], (generation, generation)))
    return GroupOverTime(
        group=group,
        lane=lane,
        holdings=holdings,
        commits=commits,
        members=sorted({holding.member for holding in holdings}, key=natural_key),
        generations=sorted((start_ns, generation) for generation, start_ns in generations.items()),
    )


def _member_name(group: str, row: dict[str, Any]) -> str:
    """The number that the harness gave a member (`0` of consumer `GROUP-0-2`), or else the name its client gave it."""
    prefix = f"{group}-"
    number = str(row["consumer"]).removeprefix(prefix).rpartition("-")[0]
    return number if str(row["consumer"]).startswith(prefix) and number else str(row["member"])
