"""Reads the nodes' own logs: elections with their epochs, epochs without a leader, changes of the ISR with the number
of the partition's state, and truncations with reasons and what they dropped.

Brokers log elections and truncations in the same words with ZooKeeper and in KRaft mode, since 2.8. Before, the line of
an election lacks the ISR, which stands in the controller's request, and truncations have other words before 1.0. 0.10
has no leader epochs in its log, and does not say where one begins: it yields no elections. That a partition has no
leader is in the log of the controller with ZooKeeper, and of every controller that replays the change in KRaft mode.
A partition's state, with its number, is in the requests that ZooKeeper's controller sends to brokers and that these
take, in what a leader says of an ISR that it changed, and, in KRaft mode, in each change that a controller replays.

Guarantee: each event has the time of its log line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from kafka_chaos.contract.events import Event, LeaderElected, LogTruncated, PartitionChanged, PartitionOffline

_TIME = r"^\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]"
_PARTITION = r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)"
_ELECTED = re.compile(
    _TIME + rf" INFO .*Leader {_PARTITION} with topic id .*? starts at leader epoch (?P<epoch>\d+)"
    r" from offset (?P<offset>\d+) with partition epoch \d+, high watermark \d+, ISR \[(?P<isr>[\d,]*)\]"
)
_ELECTED_BEFORE_2_8 = re.compile(
    _TIME + rf" INFO (?:\[Partition \S+ broker=\d+\]|Partition \[\S+\] on broker \d+:) {_PARTITION}"
    r" starts at [Ll]eader [Ee]poch (?P<epoch>\d+) from offset (?P<offset>\d+)"
)
_REQUESTED = re.compile(
    r"eceived LeaderAndIsr request (?:LeaderAndIsr)?PartitionState\("
    r"(?:topicName='(?P<topic>[^']+)', partitionIndex=(?P<partition>\d+), )?controllerEpoch=\d+, leader=\d+, "
    r"leaderEpoch=(?P<epoch>\d+), isr=\[?(?P<isr>[\d, ]*)\]?, zkVersion="
    r".*?(?: for partition \[?(?P<named>[a-zA-Z0-9._-]+)[,-](?P<number>\d+)\]? |$)"
)
_TRUNCATED = re.compile(
    _TIME + rf" INFO .*\[(?:Log|UnifiedLog) partition={_PARTITION}, dir=[^\]]*\] Truncating to offset (?P<offset>\d+)"
)
_TRUNCATED_BEFORE_1_0 = re.compile(_TIME + rf" INFO Truncating log {_PARTITION} to offset (?P<offset>\d+)\. ")
_FOLLOWS = re.compile(_TIME + rf" INFO .*Follower {_PARTITION} starts at leader epoch \d+ from offset (?P<offset>\d+) ")
_OFFLINE = re.compile(
    _TIME + rf" INFO \[Controller .*Partition {_PARTITION} state changed to \(Leader:-1,.*LeaderEpoch:(?P<epoch>\d+),"
)
_OFFLINE_IN_KRAFT = re.compile(
    _TIME + rf" DEBUG .*artition change for {_PARTITION} with topic ID [^:]*: .*\bleader: \d+ -> -1, "
    r".*\bleaderEpoch: \d+ -> (?P<epoch>\d+)"
)
_CHANGED = (
    re.compile(
        _TIME + r".*\(topicName='(?P<topic>[^']+)', partitionIndex=(?P<partition>\d+), .*?\bisr=\[(?P<isr>[\d, ]*)\], "
        r"(?:partitionEpoch|zkVersion)=(?P<number>\d+)"
    ),
    re.compile(
        _TIME + rf".*Partition {_PARTITION} state changed to \(Leader:-?\d+,ISR:(?P<isr>[\d,]*),.*"
        r"(?:PartitionEpoch|ZkVersion):(?P<number>\d+)"
    ),
    re.compile(
        _TIME + rf".*\[Partition {_PARTITION} broker=\d+\] ISR updated to \[?(?P<isr>[\d,]*).*? and version updated to "
        r"\[?(?P<number>\d+)"
    ),
    re.compile(
        _TIME + rf".*Leader {_PARTITION} with topic id .* with partition epoch (?P<number>\d+), high watermark \d+, "
        r"ISR \[(?P<isr>[\d,]*)\]"
    ),
    re.compile(
        _TIME + rf".*artition change for {_PARTITION} with topic ID [^:]*: (?:.*\bisr: \[[\d, ]*\] -> "
        r"\[(?P<isr>[\d, ]*)\])?.*\bpartitionEpoch: \d+ -> (?P<number>\d+)"
    ),
)
"""Patterns of log lines that name the number of a partition's state, and its ISR."""
_REASON = re.compile(rf"Truncating partition {_PARTITION} (?:to offset|with TruncationState)(?P<reason>.*)")
_MARKS = ("runcating", " starts at ", "artitionState(", "(Leader:", "partitionEpoch: ", "ISR updated to ")


def read_broker_log(
    lines: Iterable[str], *, broker: int, lanes: Collection[str], monotonic_at_epoch_ns: int
) -> Iterator[Event]:
    """The events of one node's log, a broker's or a controller's, for the lanes' topics only.

    `monotonic_at_epoch_ns`: add it to a wall-clock time, in nanoseconds since the epoch, to get the monotonic clock's
    time.
    """
    reasons: dict[tuple[str, int], str] = {}
    log_ends: dict[tuple[str, int], int] = {}
    requested: dict[tuple[str, int, int], str] = {}
    states: set[PartitionChanged] = set()
    for line in lines:
        if not any(mark in line for mark in _MARKS):
            continue
        change = next((found for pattern in _CHANGED if (found := pattern.match(line)) is not None), None)
        if change is not None and change["topic"] in lanes:
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
                yield state
        why = _REASON.search(line)
        if why is not None:
            reasons[why["topic"], int(why["partition"])] = why["reason"].split(" (")[0].strip(" :")
        follows = _FOLLOWS.match(line)
        if follows is not None:
            log_ends[follows["topic"], int(follows["partition"])] = int(follows["offset"])
        request = _REQUESTED.search(line)
        if request is not None:
            topic, number = (request["topic"] or request["named"], request["partition"] or request["number"])
            requested[topic, int(number), int(request["epoch"])] = request["isr"]
        match = _truncated(line) or _elected(line) or _offline(line)
        if match is None or match["topic"] not in lanes:
            continue
        ts_ns = _nanoseconds(match["time"]) + monotonic_at_epoch_ns
        place = (match["topic"], int(match["partition"]))
        if match.re in (_TRUNCATED, _TRUNCATED_BEFORE_1_0):
            yield LogTruncated(
                ts_ns=ts_ns,
                broker=broker,
                lane=place[0],
                partition=place[1],
                offset=int(match["offset"]),
                reason=reasons.get(place, "not given"),
                # A new follower truncates before it fetches. What a second truncation drops, it fetched since.
                log_end=log_ends.pop(place, None),
            )
        elif match.re in (_OFFLINE, _OFFLINE_IN_KRAFT):
            yield PartitionOffline(
                ts_ns=ts_ns, controller=broker, lane=place[0], partition=place[1], leader_epoch=int(match["epoch"])
            )
        else:
            log_ends.pop(place, None)
            epoch = int(match["epoch"])
            isr = match["isr"] if match.re is _ELECTED else requested.get((*place, epoch), "")
            yield LeaderElected(
                ts_ns=ts_ns,
                broker=broker,
                lane=place[0],
                partition=place[1],
                leader_epoch=epoch,
                start_offset=int(match["offset"]),
                isr=_brokers(isr),
            )


def _brokers(isr: str) -> tuple[int, ...]:
    return tuple(int(number) for number in isr.split(",") if number.strip())


def _truncated(line: str) -> re.Match[str] | None:
    return _TRUNCATED.match(line) or _TRUNCATED_BEFORE_1_0.match(line)


def _elected(line: str) -> re.Match[str] | None:
    return _ELECTED.match(line) or _ELECTED_BEFORE_2_8.match(line)


def _offline(line: str) -> re.Match[str] | None:
    return _OFFLINE.match(line) or _OFFLINE_IN_KRAFT.match(line)


def _nanoseconds(time: str) -> int:
    moment = datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000) * 1_000_000
