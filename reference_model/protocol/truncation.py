"""Where a new follower truncates its log: the rules of before KIP-101, of KIP-101, and of KIP-279.

A log is a tuple of entries (`entries.py`). Leader epochs never decrease along a log, except without fencing, where a
follower may fetch from a leader of a later epoch than its own and then lead in an earlier one. A leader's epoch cache
is its log's, and its own epoch starts at its log end at the latest, because a leader notes its epoch when it is elected
and not with its first record (KIP-101).
"""

from collections.abc import Callable

from kafka_chaos.reference_model.protocol.entries import leader_epoch_of

Log = tuple[int, ...]
Truncation = Callable[[Log, int, Log], int]
"""(follower's log, follower's high watermark, leader's log) → the follower's new log end offset."""


def end_offset_for(log: Log, leader_epoch: int) -> int:
    """Where the first larger epoch starts: the leader's answer to OffsetsForLeaderEpoch (KIP-101)."""
    for offset, entry in enumerate(log):
        if leader_epoch_of(entry) > leader_epoch:
            return offset
    return len(log)


def to_high_watermark(log: Log, high_watermark: int, leader_log: Log) -> int:
    """Drops all entries above the high watermark, whoever leads."""
    return min(high_watermark, len(log))


def to_end_of_last_epoch(log: Log, high_watermark: int, leader_log: Log) -> int:
    """One question: where does my last epoch end with you? (KIP-101)"""
    if not log:
        return 0
    return min(len(log), end_offset_for(leader_log, leader_epoch_of(log[-1])))


def to_last_common_epoch(log: Log, high_watermark: int, leader_log: Log) -> int:
    """Ask again, until the epoch that the leader's answer is about is one that the follower has (KIP-279)."""
    end = len(log)
    while end > 0:
        asked = leader_epoch_of(log[end - 1])
        leader_end = end_offset_for(leader_log, asked)
        found = leader_epoch_of(leader_log[leader_end - 1]) if leader_end else -1
        if found == asked:
            return min(end, leader_end)
        end = min(end, end_offset_for(log, found))
    return 0
