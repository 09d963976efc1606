"""Reads the nodes' own logs: elections with their epochs, epochs without a leader, changes of the ISR with the number
of the partition's state, truncations with reasons and what they dropped, transactions that are blocked, and sessions of
brokers that ended.

The words of each version are in broker_logs.toml. Guarantee: each event has the time of its log line.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.contract.events import (
    BrokerSessionEnded,
    DefectPrecondition,
    Event,
    LeaderElected,
    LogTruncated,
    PartitionChanged,
    PartitionOffline,
)

_TIME = r"^\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]"
_PLACE = r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)"
_PATTERNS = {
    kind: [re.compile(one.replace("TIME", _TIME).replace("PLACE", _PLACE)) for one in patterns]
    for kind, patterns in toml_of(__package__, "broker_logs.toml").items()
}
_ACTIVE, _DEPOSED = "Becoming the active controller at epoch", "Renouncing the leadership due to"
_BLOCKED = re.compile(r"TransactionalId (?P<id>\S+) failed transition to state \w+\(.*?\btxnState=\w+")
_MARKS = (
    "runcating",
    " starts at ",
    "artitionState(",
    "(Leader:",
    "partitionEpoch: ",
    "ISR updated to ",
    "deleted brokers",
    "its session",
)


def read_broker_log(
    lines: Iterable[str],
    *,
    broker: int,
    lanes: Collection[str],
    monotonic_at_epoch_ns: int,
    transactional_ids: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Event]:
    """The events of one node's log, a broker's or a controller's, for the lanes' topics and transactional ids only.

    `monotonic_at_epoch_ns`: add it to a wall-clock time, in nanoseconds since the epoch, to get the monotonic clock's
    time. `transactional_ids`: lanes by id. KAFKA-8803: the ids whose next state a coordinator refused, each once.

    KRaft's active controller logs a change as it writes it, and takes it back if it is deposed before the others have
    it. So what a node told of partitions' states while it was active is left out where it was deposed then.
    """
    told: list[Event] = []
    timed = ""
    blocked: set[str] = set()
    reasons: dict[tuple[str, int], str] = {}
    log_ends: dict[tuple[str, int], int] = {}
    requested: dict[tuple[str, int, int], str] = {}
    states: set[PartitionChanged] = set()
    for line in lines:
        if line.startswith("["):
            timed = line
        if _ACTIVE in line or _DEPOSED in line:
            taken_back = (PartitionChanged, PartitionOffline) if _DEPOSED in line else ()
            yield from (event for event in told if not isinstance(event, taken_back))
            told, states = [], set()
        refused = _BLOCKED.search(line) if "failed transition" in line else None
        if refused is not None and refused["id"] in transactional_ids.keys() - blocked:
            blocked.add(refused["id"])
            # The exception itself has no time: the line before it has.
            moment = re.match(_TIME, timed)
            told.append(
                DefectPrecondition(
                    ts_ns=(_nanoseconds(moment["time"]) if moment else 0) + monotonic_at_epoch_ns,
                    defect="KAFKA-8803",
                    lane=transactional_ids[refused["id"]],
                    evidence=f"the log of broker-{broker}: {refused[0]}, …)",
                    transactional_id=refused["id"],
                    broker=broker,
                )
            )
        if not any(mark in line for mark in _MARKS):
            continue
        found = {
            kind: seen
            for kind, patterns in _PATTERNS.items()
            if (seen := next((one for pattern in patterns if (one := pattern.search(line))), None))
        }
        if ended := found.get("session"):
            ts_ns = _nanoseconds(ended["time"]) + monotonic_at_epoch_ns
            for gone in _brokers(f"{ended['gone']},{ended.groupdict().get('bounced') or ''}"):
                told.append(BrokerSessionEnded(ts_ns=ts_ns, broker=gone, controller=broker))
        if (change := found.get("changed")) and change["topic"] in lanes:
            state = PartitionChanged(
                ts_ns=_nanoseconds(change["time"]) + monotonic_at_epoch_ns,
                node=broker,
                lane=change["topic"],
                partition=int(change["partition"]),
                partition_epoch=int(change["number"]),
                isr=None if change["isr"] is None else _brokers(change["isr"]),
            )
            if replace(state, ts_ns=0) not in states:
                states.add(replace(state, ts_ns=0))
                told.append(state)
        if why := found.get("reason"):
            reasons[why["topic"], int(why["partition"])] = why["reason"].split(" (")[0].strip(" :")
        if follows := found.get("follows"):
            log_ends[follows["topic"], int(follows["partition"])] = int(follows["offset"])
        if request := found.get("requested"):
            topic, number = (request["topic"] or request["named"], request["partition"] or request["number"])
            requested[topic, int(number), int(request["epoch"])] = request["isr"]
        kind = next((one for one in ("truncated", "elected", "offline") if one in found), None)
        if kind is None or (match := found[kind])["topic"] not in lanes:
            continue
        place = (match["topic"], int(match["partition"]))
        ts_ns = _nanoseconds(match["time"]) + monotonic_at_epoch_ns
        at: dict[str, Any] = {"ts_ns": ts_ns, "lane": place[0], "partition": place[1]}
        event: Event
        if kind == "truncated":
            event = LogTruncated(
                **at,
                broker=broker,
                offset=int(match["offset"]),
                reason=reasons.get(place, "not given"),
                # A new follower truncates before it fetches. What a second truncation drops, it fetched since.
                log_end=log_ends.pop(place, None),
            )
        elif kind == "offline":
            event = PartitionOffline(**at, controller=broker, leader_epoch=int(match["epoch"]))
        else:
            log_ends.pop(place, None)
            epoch = int(match["epoch"])
            isr = match.groupdict().get("isr", requested.get((*place, epoch), ""))
            start, brokers = int(match["offset"]), _brokers(isr)
            event = LeaderElected(**at, broker=broker, leader_epoch=epoch, start_offset=start, isr=brokers)
        told.append(event)
    yield from told


def _brokers(isr: str) -> tuple[int, ...]:
    return tuple(int(number) for number in isr.split(",") if number.strip())


def _nanoseconds(time: str) -> int:
    moment = datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000) * 1_000_000
