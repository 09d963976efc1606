"""Adds a consumer group to a generated lane: members that share its partitions, rebalances and commits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from generated_histories.lanes import Columns, LaneTables, Longs
from kafka_chaos.contract.lane.groups import COMMIT_OUTCOMES
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, READ_COMMITTED

FIRST_CONSUMER = 1_000_000
"""The lowest number in the name of a member's assignment; other consumers have lower ones."""
TICK_NS, DELAY_NS = 10_000, 9_000_000
"""Between two records that the group processes, and between the first one and its processing."""
ANSWER_NS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """The shape of a group. Partitions change hands evenly over the log, so that there are so many `generations`.

    Each of `members` processes what it is given in order, and commits after every `commit_every` records of a
    partition and before it gives the partition up.
    """

    members: int = 3
    generations: int = 4
    commit_every: int = 500


def with_group(tables: LaneTables, shape: GroupShape | None = None) -> LaneTables:
    """The lane, read by a group, too: each record that readers are given is processed once."""
    shape = shape or GroupShape()
    given = visible(tables)
    order = np.arange(given["offset"].size)
    generation = order * shape.generations // max(order.size, 1)
    member = (given["partition"] + generation) % shape.members
    poll_ns = order * TICK_NS + DELAY_NS
    consumer = FIRST_CONSUMER + generation * shape.members + member
    reads = {**{name: given[name] for name in tables.consumed if name in given}, "consumer": consumer}
    reads["poll_ns"] = poll_ns
    last = _last_before_commit(given["partition"], generation, shape)
    commits = {
        "group": np.zeros(last.size, np.int64),
        "consumer": consumer[last],
        "partition": given["partition"][last],
        "offset": given["offset"][last] + 1,
        "invoke_ns": poll_ns[last] + 1,
        "complete_ns": poll_ns[last] + ANSWER_NS,
        "outcome": np.full(last.size, COMMIT_OUTCOMES.index("ok")),
    }
    others = {**tables.others, "commits": commits}
    others["assignments"] = appended(
        others.get("assignments"), _assignments(given["partition"], generation, poll_ns, shape)
    )
    ends = {
        int(partition): int(offset) for partition, offset in zip(commits["partition"], commits["offset"], strict=True)
    }
    return replace(
        tables,
        consumed=appended(tables.consumed, reads),
        others=others,
        clients={**tables.clients, "group": {"members": shape.members}},
        committed=ends,
    )


def visible(tables: LaneTables) -> Columns:
    """The rows of the log that readers of committed records are given."""
    given = tables.log.get("committed")
    if given is None:
        return tables.log
    return {name: values[given == 1] for name, values in tables.log.items()}


def appended(before: Columns | None, rows: Columns) -> Columns:
    """Both tables' rows; a column that only one has is −1 in the other's rows."""
    if before is None:
        return rows
    sizes = [next(iter(table.values())).size for table in (before, rows)]
    nothing = [np.full(size, -1, np.int64) for size in sizes]
    return {
        name: np.concatenate([before.get(name, nothing[0]), rows.get(name, nothing[1])]) for name in {**before, **rows}
    }


def _last_before_commit(partition: Longs, generation: Longs, shape: GroupShape) -> Longs:
    """The rows after which their member commits, in their order."""
    rows = []
    for number in np.unique(partition):
        own = np.flatnonzero(partition == number)
        is_full = np.arange(1, own.size + 1) % shape.commit_every == 0
        gives_up = np.diff(generation[own], append=-1) != 0
        rows.append(own[is_full | gives_up])
    return np.sort(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def _assignments(partition: Longs, generation: Longs, poll_ns: Longs, shape: GroupShape) -> Columns:
    """One per partition and generation, from just before what it processed first."""
    pairs, first = np.unique(generation * (partition.max(initial=0) + 1) + partition, return_index=True)
    member = (partition[first] + generation[first]) % shape.members
    return {
        "group": np.zeros(pairs.size, np.int64),
        "consumer": FIRST_CONSUMER + generation[first] * shape.members + member,
        "member": member,
        "generation": generation[first] + 1,
        "partition": partition[first],
        "isolation": np.full(pairs.size, ISOLATION_LEVELS.index(READ_COMMITTED)),
        "start_ns": poll_ns[first] - TICK_NS // 2,
    }
