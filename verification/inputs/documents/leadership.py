"""Who led a partition, in which ISR, and what replicas dropped, as events.jsonl reports it.

Guarantee: an event of these types with an ill-typed value, an unknown lane or partition raises `ValueError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_chaos.contract import events as contract
from kafka_chaos.contract.errors import quoted
from kafka_chaos.verification.inputs.documents.reading import is_whole

Place = tuple[str, int]
"""Lane and partition."""


@dataclass(frozen=True, slots=True)
class Election:
    """A broker became leader. `isr`: the ISR that it began with, itself included."""

    ts_ns: int
    broker: int
    leader_epoch: int
    start_offset: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IsrSeen:
    """Clients saw this ISR from then on."""

    ts_ns: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Truncation:
    """A broker dropped the offsets from `offset` to before `log_end`; None: up to an unknown end."""

    ts_ns: int
    broker: int
    offset: int
    log_end: int | None


Change = Election | IsrSeen | Truncation

REQUIRED: Mapping[type[contract.Event], tuple[str, ...]] = {
    contract.LeaderElected: ("broker", "lane", "partition", "leader_epoch", "start_offset", "isr"),
    contract.IsrChanged: ("lane", "partition", "isr"),
    contract.LogTruncated: ("broker", "lane", "partition", "offset"),
}
"""The events of this module, with the fields that they must have."""

TYPES = frozenset(map(contract.type_name, REQUIRED))


def change_of(event: Mapping[str, Any], partitions: Mapping[str, int]) -> tuple[Place, Change]:
    """The change that an event of one of the `TYPES` reports. `partitions`: their number, by lane."""
    place = place_of(event, partitions)
    ts_ns = event["ts_ns"]
    match event["type"]:
        case "leader_elected":
            broker, epoch, start = (whole(event, name) for name in ("broker", "leader_epoch", "start_offset"))
            return place, Election(ts_ns, broker, epoch, start, _brokers(event))
        case "isr_changed":
            return place, IsrSeen(ts_ns, _brokers(event))
        case _:
            log_end = None if event.get("log_end") is None else whole(event, "log_end")
            return place, Truncation(ts_ns, whole(event, "broker"), whole(event, "offset"), log_end)


def is_unclean(won: Election, changes: Iterable[Change]) -> bool:
    """Whether the new leader was not in the ISR seen last before it was elected.

    An unclean election leaves the new leader alone in the ISR.
    """
    before = [change.isr for change in changes if isinstance(change, Election | IsrSeen) and change.ts_ns < won.ts_ns]
    return bool(before) and won.isr == (won.broker,) and won.broker not in before[-1]


def place_of(event: Mapping[str, Any], partitions: Mapping[str, int]) -> Place:
    """The event's lane and partition, which lanes.json must have."""
    lane, partition = lane_of(event, partitions), whole(event, "partition")
    if not 0 <= partition < partitions[lane]:
        raise ValueError(f"lane {lane!r} has no partition {partition}")
    return lane, partition


def lane_of(event: Mapping[str, Any], lanes: Collection[str]) -> str:
    """The event's lane, which lanes.json must have."""
    lane = event["lane"]
    if not isinstance(lane, str) or lane not in lanes:
        raise ValueError(f"lane: {quoted(lane)} is not in lanes.json")
    return lane


def whole(event: Mapping[str, Any], name: str) -> int:
    """The event's whole number of that name."""
    value = event[name]
    if not is_whole(value):
        raise ValueError(f"{name} is {quoted(value)}, expected a whole number")
    return int(value)


def _brokers(event: Mapping[str, Any]) -> tuple[int, ...]:
    isr = event["isr"]
    if not isinstance(isr, list) or not all(map(is_whole, isr)):
        raise ValueError(f"isr is {quoted(isr)}, expected a list of brokers")
    return tuple(isr)
