"""Where a new follower truncates its log: the rules before KIP-101, of KIP-101 and of KIP-279.

A log is a tuple of entries (`entries.py`). With fencing, leader epochs never decrease along a log. Without
fencing, a follower may fetch from a leader of a later epoch, and then itself lead in an earlier one. A leader's epoch
cache has the epochs of its log and, from the election on, its own epoch, even before it has a record (KIP-101).
"""

from collections.abc import Callable

from kafka_chaos.reference_model.protocol.entries import leader_epoch_of

Log = tuple[int, ...]
Truncation = Callable[[Log, int, Log], int]
"""(follower's log, follower's high watermark, leader's log) → the follower's new log end offset."""


def end_offset_for(log: Log, leader_epoch: int) -> int:
    """The leader's answer to OffsetsForLeaderEpoch: the offset where the first larger epoch starts (KIP-101)."""
    for offset, entry in enumerate(log):
        if leader_epoch_of(entry) > leader_epoch:
            return offset
    return len(log)  # The leader's own epoch, noted at its election, starts here at the latest.


def to_high_watermark(log: Log, high_watermark: int, leader_log: Log) -> int:
    """The follower drops all entries above its high watermark, whoever leads."""
    return min(high_watermark, len(log))


def to_end_of_last_epoch(log: Log, high_watermark: int, leader_log: Log) -> int:
    """The follower asks the leader once where the follower's last epoch ends, and truncates there (KIP-101)."""
    if not log:
        return 0
    return min(len(log), end_offset_for(leader_log, leader_epoch_of(log[-1])))


def to_last_common_epoch(log: Log, high_watermark: int, leader_log: Log) -> int:
    """The follower asks about ever earlier epochs, until its log has the epoch in the leader's answer (KIP-279)."""
    end = len(log)
    while end > 0:
        own_epoch = leader_epoch_of(log[end - 1])
        leader_end = end_offset_for(leader_log, own_epoch)
        answered_epoch = leader_epoch_of(leader_log[leader_end - 1]) if leader_end else -1
        if answered_epoch == own_epoch:
            return min(end, leader_end)
        end = min(end, end_offset_for(log, answered_epoch))
    return 0
