"""Reads the log files that brokers and controllers write for people, and turns their lines into events.

The events are elections with their epochs, epochs without a leader, changes of the ISR with the partition epoch,
truncations with reasons and what they dropped, transactions that are blocked, and sessions of brokers that ended. The
words of each version of Kafka are in broker_logs.toml. Guarantee: each event has the time of its log line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from kafka_chaos.contract.command.files import package_toml
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
_WORDS = package_toml(__package__, "broker_logs.toml")
_MARKS = tuple(_WORDS.pop("marks"))
"""Every line that a pattern matches has one of these texts. Looking for them first spares most lines the patterns."""
_PATTERNS = {
    kind: [re.compile(pattern.replace("TIME", _TIME).replace("PLACE", _PLACE)) for pattern in patterns]
    for kind, patterns in _WORDS.items()
}
_ACTIVE, _DEPOSED = "Becoming the active controller at epoch", "Renouncing the leadership due to"
_BLOCKED = re.compile(r"TransactionalId (?P<id>\S+) failed transition to state \w+\(.*?\btxnState=\w+")
_Partition = tuple[str, int]


def read_broker_log(
    lines: Iterable[str],
    *,
    node_id: int,
    topics: Mapping[str, str],
    monotonic_at_epoch_ns: int,
    transactional_ids: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Event]:
    """The events of one node's log, a broker's or a controller's, for the lanes' topics and transactional ids only.

    `topics` and `transactional_ids` map names to lanes.
    `monotonic_at_epoch_ns`: the monotonic clock's time, in nanoseconds, at the wall clock's epoch.

    KRaft's active controller logs a change as soon as it writes it. If the controller is deposed before the others have
    the change, the change is void. So the states of partitions that a deposed node logged while active are left out.
    """
    log = _NodeLog(node_id, topics, monotonic_at_epoch_ns, transactional_ids)
    since_election: list[Event] = []
    for line in lines:
        if _ACTIVE in line or _DEPOSED in line:
            void_events = (PartitionChanged, PartitionOffline) if _DEPOSED in line else ()
            yield from (event for event in since_election if not isinstance(event, void_events))
            since_election = []
            log.states = set()  # a void state may be logged again, and is an event then
        since_election += log.events_of(line)
    yield from since_election


@dataclass
class _NodeLog:
    """Turns the lines of one node's log into events, and remembers what the events of later lines need."""

    node_id: int
    topics: Mapping[str, str]
    monotonic_at_epoch_ns: int
    transactional_ids: Mapping[str, str]
    states: set[PartitionChanged] = field(default_factory=set)
    """The logged states of partitions, without their times: a state that is logged again is no second event."""
    _last_timed: str = ""  # the last line that begins with its time
    _blocked_ids: set[str] = field(default_factory=set)  # the transactional ids whose blocked transaction was reported
    _reasons: dict[_Partition, str] = field(default_factory=dict)
    """Why a partition's log is about to be truncated."""
    _log_ends: dict[_Partition, int] = field(default_factory=dict)
    """Where a partition's log ended when the broker became a follower."""
    _requested_isrs: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """The ISRs in the controller's requests, by topic, partition and leader epoch."""

    def events_of(self, line: str) -> Iterator[Event]:
        """The events of the next line."""
        if line.startswith("["):
            self._last_timed = line
        if "failed transition" in line:
            yield from self._blocked_transaction(line)
        if not any(mark in line for mark in _MARKS):
            return
        # For each kind of line, the match of the first of its patterns that matches this line.
        matches = {
            kind: match
            for kind, patterns in _PATTERNS.items()
            if (match := next(filter(None, (pattern.search(line) for pattern in patterns)), None))
        }
        if ended := matches.get("session"):
            for gone in _brokers(f"{ended['gone']},{ended.groupdict().get('bounced') or ''}"):
                yield BrokerSessionEnded(ts_ns=self._time(ended), broker=gone, controller=self.node_id)
        if (change := matches.get("changed")) and change["topic"] in self.topics:
            yield from self._change_events(change)
        self._remember(matches)
        for kind, make in (("truncated", self._truncation), ("elected", self._election), ("offline", self._no_leader)):
            if kind in matches:
                if matches[kind]["topic"] in self.topics:
                    yield make(matches[kind])
                break

    def _blocked_transaction(self, line: str) -> Iterator[Event]:
        """The event for KAFKA-8803, once per transactional id: a coordinator refused the id's next state."""
        refusal = _BLOCKED.search(line)
        if refusal is None or refusal["id"] not in self.transactional_ids.keys() - self._blocked_ids:
            return
        self._blocked_ids.add(refusal["id"])
        # The line with the exception has no time, but the log line before it has.
        timed = re.match(_TIME, self._last_timed)
        yield DefectPrecondition(
            ts_ns=self._time(timed) if timed else self.monotonic_at_epoch_ns,
            defect="KAFKA-8803",
            lane=self.transactional_ids[refusal["id"]],
            evidence=f"the log of broker-{self.node_id}: {refusal[0]}, …)",
            transactional_id=refusal["id"],
            broker=self.node_id,
        )

    def _change_events(self, change: re.Match[str]) -> Iterator[Event]:
        isr = None if change["isr"] is None else _brokers(change["isr"])
        epoch = int(change["number"])
        state = PartitionChanged(**self._common_fields(change), node=self.node_id, partition_epoch=epoch, isr=isr)
        if replace(state, ts_ns=0) not in self.states:
            self.states.add(replace(state, ts_ns=0))
            yield state

    def _remember(self, matches: Mapping[str, re.Match[str]]) -> None:
        """Keep what a later line's event needs: a reason, a log end, or a requested ISR."""
        if reason := matches.get("reason"):
            self._reasons[_partition(reason)] = reason["reason"].split(" (")[0].strip(" :")
        if follows := matches.get("follows"):
            self._log_ends[_partition(follows)] = int(follows["offset"])
        if request := matches.get("requested"):
            # Older versions name the partition at the end of the line, newer ones at its beginning.
            topic, partition = request["topic"] or request["named"], request["partition"] or request["number"]
            self._requested_isrs[topic, int(partition), int(request["epoch"])] = request["isr"]

    def _truncation(self, match: re.Match[str]) -> Event:
        partition = _partition(match)
        reason = self._reasons.get(partition, "not given")
        # A new follower truncates before it fetches. When it truncates again, it has fetched: its log end is unknown.
        log_end = self._log_ends.pop(partition, None)
        offset = int(match["offset"])
        return LogTruncated(
            **self._common_fields(match), broker=self.node_id, offset=offset, reason=reason, log_end=log_end
        )

    def _election(self, match: re.Match[str]) -> Event:
        self._log_ends.pop(_partition(match), None)
        epoch, offset = int(match["epoch"]), int(match["offset"])
        isr = match.groupdict().get("isr", self._requested_isrs.get((*_partition(match), epoch), ""))
        common = self._common_fields(match)
        return LeaderElected(**common, broker=self.node_id, leader_epoch=epoch, start_offset=offset, isr=_brokers(isr))

    def _no_leader(self, match: re.Match[str]) -> Event:
        return PartitionOffline(**self._common_fields(match), controller=self.node_id, leader_epoch=int(match["epoch"]))

    def _common_fields(self, match: re.Match[str]) -> dict[str, Any]:
        """The fields that all events about a partition have."""
        topic, partition = _partition(match)
        return {"ts_ns": self._time(match), "lane": self.topics[topic], "partition": partition}

    def _time(self, match: re.Match[str]) -> int:
        """The time of a log line on the monotonic clock, in nanoseconds."""
        moment = datetime.strptime(match["time"], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000) * 1_000_000 + self.monotonic_at_epoch_ns


def _partition(match: re.Match[str]) -> _Partition:
    return match["topic"], int(match["partition"])


def _brokers(ids: str) -> tuple[int, ...]:
    return tuple(int(number) for number in ids.split(",") if number.strip())
