"""Who led a partition, in which ISR, and what replicas dropped, as events.jsonl reports it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_chaos.contract.errors import quoted
from kafka_chaos.contract.events import HighWatermark, IsrChanged, LastStableOffset, LeaderElected, LogTruncated

Place = tuple[str, int]
"""Lane and partition."""

Change = LeaderElected | IsrChanged | LogTruncated


def is_unclean(won: LeaderElected, changes: Iterable[Change]) -> bool:
    """Whether the new leader was not in the ISR seen last before it was elected.

    An unclean election leaves the new leader alone in the ISR.
    """
    before = [
        change.isr for change in changes if isinstance(change, LeaderElected | IsrChanged) and change.ts_ns < won.ts_ns
    ]
    return bool(before) and won.isr == (won.broker,) and won.broker not in before[-1]


def place_of(event: Change | HighWatermark | LastStableOffset, partitions: Mapping[str, int]) -> Place:
    """The event's lane and partition; raises `ValueError` where lanes.json has none. `partitions`: by lane."""
    lane = lane_of(event.lane, partitions)
    if not 0 <= event.partition < partitions[lane]:
        raise ValueError(f"lane {lane!r} has no partition {event.partition}")
    return lane, event.partition


def lane_of(lane: str, lanes: Collection[str]) -> str:
    """The lane; raises `ValueError` where lanes.json does not have it."""
    if lane not in lanes:
        raise ValueError(f"lane: {quoted(lane)} is not in lanes.json")
    return lane
