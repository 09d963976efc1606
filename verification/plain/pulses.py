"""Gathers without Spark what recovery is judged by: when what happened, second by second, and every assignment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kafka_chaos.verification.plain.groups import Group, History
from kafka_chaos.verification.plain.rows import LaneHistory
from kafka_chaos.verification.recovery.outages import ACKNOWLEDGED, GIVEN_UP, READ, SENT
from kafka_chaos.verification.tables.facts import Owned, Pulse

_SECOND_NS = 1_000_000_000


def pulses_of(history: LaneHistory) -> tuple[Pulse, ...]:
    """The pulses of a lane, in the order that every engine gives."""
    groups = {row.consumer: row.group or "" for row in history.assignments}
    seconds: dict[tuple[str, str, int | None, int], list[int]] = defaultdict(list)
    for what, reader, partition, at in _moments(history, groups):
        known = seconds[what, reader, partition, at // _SECOND_NS]
        known[:] = [min(at, *known[:1]), max(at, *known[1:])] if known else [at, at]
    pulses = [Pulse(*place[:3], first, last) for place, (first, last) in seconds.items()]
    return tuple(sorted(pulses, key=str))


def _moments(history: LaneHistory, groups: dict[str, str]) -> Iterator[tuple[str, str, int | None, int]]:
    for row in history.produced:
        yield SENT, "", row.partition, row.invoke_ns
        if row.complete_ns is not None:
            yield ACKNOWLEDGED if row.outcome == "ok" else GIVEN_UP, "", row.partition, row.complete_ns
    for read in history.consumed:
        yield READ, groups.get(read.consumer, ""), read.partition, read.poll_ns


def owned_by(groups: Sequence[Group]) -> tuple[Owned, ...]:
    """Who had which partition, of these groups."""
    rows = (row for group in groups for row in History(group).assigned)
    return tuple(sorted((Owned(row.group or "", row.partition, row.start_ns, row.end_ns) for row in rows), key=str))
