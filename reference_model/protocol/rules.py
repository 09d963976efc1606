"""What a variant may choose: how a new follower truncates, and whether requests carry the leader epoch.

A log is a tuple of entries whose leader epoch is `entry >> EPOCH_SHIFT`; epochs never decrease along a log. A
leader's epoch cache is its log's, and its own epoch starts at its log end at the latest, because a leader
notes its epoch when it is elected and not with its first record (KIP-101).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

EPOCH_SHIFT = 3

Log = tuple[int, ...]
Truncation = Callable[[Log, int, Log], int]
"""(follower's log, follower's high watermark, leader's log) → the follower's new log end offset."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A variant: `asks_leader` says whether truncation needs an answer from the leader, `fenced` whether
    fetches and that question are refused unless both sides are in the same leader epoch (KIP-320)."""

    name: str
    summary: str
    truncation: Truncation
    asks_leader: bool
    fenced: bool


def may_join_isr(log_end: int, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower has caught up: it holds all below the leader's high watermark and has reached the start of the
    leader's epoch, before which the leader can't know how far its predecessor's high watermark went (KIP-101)."""
    return log_end >= max(high_watermark, epoch_start)


def end_offset_for(log: Log, leader_epoch: int) -> int:
    """Where the first larger epoch starts: the leader's answer to OffsetsForLeaderEpoch (KIP-101)."""
    for offset, entry in enumerate(log):
        if entry >> EPOCH_SHIFT > leader_epoch:
            return offset
    return len(log)


def to_high_watermark(log: Log, high_watermark: int, leader_log: Log) -> int:
    """What lies above the high watermark is dropped, whoever leads."""
    return min(high_watermark, len(log))


def to_end_of_last_epoch(log: Log, high_watermark: int, leader_log: Log) -> int:
    """One question: where does my last epoch end with you? (KIP-101)"""
    if not log:
        return 0
    return min(len(log), end_offset_for(leader_log, log[-1] >> EPOCH_SHIFT))


def to_last_common_epoch(log: Log, high_watermark: int, leader_log: Log) -> int:
    """Ask again, until the epoch that the leader's answer is about is one that the follower has (KIP-279)."""
    end = len(log)
    while end > 0:
        asked = log[end - 1] >> EPOCH_SHIFT
        leader_end = end_offset_for(leader_log, asked)
        found = leader_log[leader_end - 1] >> EPOCH_SHIFT if leader_end else -1
        if found == asked:
            return min(end, leader_end)
        end = min(end, end_offset_for(log, found))
    return 0
