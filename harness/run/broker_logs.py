"""Reads the nodes' own logs: elections with their epochs, epochs without a leader, and truncations with reasons
and what they dropped.

Brokers log elections and truncations in the same words with ZooKeeper and in KRaft mode, since 2.8. Before, the line of
an election lacks the ISR, which stands in the controller's request, and truncations have other words before 1.0. 0.10
has no leader epochs in its log, and does not say where one begins: it yields no elections. That a partition has no
leader is in the log of the controller with ZooKeeper, and of every controller that replays the change in KRaft mode.

Guarantee: each event has the time of its log line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from kafka_chaos.contract.events import Event, LeaderElected, LogTruncated, PartitionOffline

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
_REASON = re.compile(rf"Truncating partition {_PARTITION} (?:to offset|with TruncationState)(?P<reason>.*)")
_MARKS = ("runcating", " starts at ", "eceived LeaderAndIsr", "(Leader:-1,", " -> -1, ")


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
    for line in lines:
        if not any(mark in line for mark in _MARKS):
            continue
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
                isr=tuple(int(number) for number in isr.split(",") if number),
            )


def _truncated(line: str) -> re.Match[str] | None:
    return _TRUNCATED.match(line) or _TRUNCATED_BEFORE_1_0.match(line)


def _elected(line: str) -> re.Match[str] | None:
    return _ELECTED.match(line) or _ELECTED_BEFORE_2_8.match(line)


def _offline(line: str) -> re.Match[str] | None:
    return _OFFLINE.match(line) or _OFFLINE_IN_KRAFT.match(line)


def _nanoseconds(time: str) -> int:
    moment = datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000) * 1_000_000
