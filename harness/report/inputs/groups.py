"""Condenses `assignments/` and `commits/` into what a picture can show: per group, who held what, and who committed.

Guarantee: the number of assignments, of members, of partitions and of slots bounds what is kept; the number of commits
does not. Counts are exact.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka_chaos.contract.columns import ASSIGNMENTS, COMMITS
from kafka_chaos.harness.report.inputs.asking import Frames, ask
from kafka_chaos.harness.report.inputs.transactions import natural

_HELD = """
SELECT lane, "group", consumer, member, generation, partition, start_ns, end_ns
FROM entries WHERE "group" IS NOT NULL ORDER BY start_ns, partition
"""
_COMMITTED = """
WITH timed AS (SELECT *, coalesce(complete_ns, invoke_ns) AS done FROM entries)
SELECT lane, "group", partition, min(done) AS at_ns, outcome, error, max("offset") AS "offset", count(*) AS count
FROM timed GROUP BY lane, "group", partition, outcome, error, slot(done, start, width) ORDER BY at_ns, partition
"""
_SAME_NS = 1_000_000
"""A member that holds a partition again within this time is shown as if it had kept it."""


@dataclass(frozen=True)
class Holding:
    """The time in which a member held a partition. `end_ns` None: it never gave the partition back. `generations`: the
    first and the last one."""

    partition: int
    member: str
    start_ns: int
    end_ns: int | None
    generations: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True)
class Committed:
    """`count` commits of one partition with one outcome and error, close together; `offset` is the highest."""

    partition: int
    at_ns: int
    outcome: str
    error: str | None
    offset: int
    count: int = 1


@dataclass(frozen=True)
class GroupOverTime:
    """A group that reads `lane`. `members` are their short names, in the order in which they came."""

    group: str
    lane: str
    holdings: Sequence[Holding] = ()
    commits: Sequence[Committed] = ()
    members: Sequence[str] = ()
    rebalances: Sequence[tuple[int, int]] = ()
    """When each generation was first seen, and its number."""

    @property
    def partitions(self) -> list[int]:
        """The partitions that were held or committed."""
        held = {holding.partition for holding in self.holdings}
        return sorted(held | {commit.partition for commit in self.commits})


def read_groups(
    assignments: Sequence[Path], commits: Sequence[Path], frames: Frames
) -> dict[tuple[str, str], GroupOverTime]:
    """The groups by the lane that they read and their name; readers without a group are left out."""
    held: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in ask(_HELD, assignments, ASSIGNMENTS, frames):
        held[row["lane"], row["group"]].append(row)
    committed: defaultdict[tuple[str, str], list[Committed]] = defaultdict(list)
    for row in ask(_COMMITTED, commits, COMMITS, frames):
        committed[row.pop("lane"), row.pop("group")].append(Committed(**row))
    return {
        (lane, group): _group(lane, group, held[lane, group], committed[lane, group])
        for lane, group in sorted(held.keys() | committed.keys())
    }


def _group(lane: str, group: str, rows: Sequence[dict[str, Any]], commits: Sequence[Committed]) -> GroupOverTime:
    """A group from its assignments. A member that gets a partition back at once holds it without a break."""
    holdings: list[Holding] = []
    latest: dict[tuple[int, str], int] = {}
    rebalances: dict[int, int] = {}
    for row in rows:
        member, generation = _short(group, row), row["generation"]
        if generation is not None:
            rebalances.setdefault(generation, row["start_ns"])
        place = (row["partition"], member)
        before = holdings[latest[place]] if place in latest else None
        if before is not None and before.end_ns is not None and row["start_ns"] - before.end_ns <= _SAME_NS:
            kept = replace(before, end_ns=row["end_ns"], generations=(before.generations[0], generation))
            holdings[latest[place]] = kept
            continue
        latest[place] = len(holdings)
        holdings.append(Holding(row["partition"], member, row["start_ns"], row["end_ns"], (generation, generation)))
    return GroupOverTime(
        group=group,
        lane=lane,
        holdings=holdings,
        commits=commits,
        members=sorted({holding.member for holding in holdings}, key=natural),
        rebalances=sorted((at, generation) for generation, at in rebalances.items()),
    )


def _short(group: str, row: dict[str, Any]) -> str:
    """The number that the harness gave to a member, or else the name that the member's client has for it."""
    prefix = f"{group}-"
    number = str(row["consumer"]).removeprefix(prefix).rpartition("-")[0]
    return number if str(row["consumer"]).startswith(prefix) and number else str(row["member"])
