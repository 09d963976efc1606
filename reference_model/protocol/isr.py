"""The in-sync replicas: who joins, who leaves, what their logs commit, and what min.insync.replicas asks of them.

Sources: Kafka's documentation ("Replication", `replica.lag.time.max.ms`, `min.insync.replicas`), KIP-101, KIP-497,
KAFKA-15583.
"""

from collections.abc import Sequence


def may_join_isr(log_end: int, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower has caught up: it has reached the leader's high watermark and the start of the leader's epoch.

    Before that start the leader can't know how far its predecessor's high watermark went (KIP-101).
    """
    return log_end >= max(high_watermark, epoch_start)


def may_leave_isr(isr_size: int) -> bool:
    """Whether a dead or slow member may be taken out: the last member stays, so that it can lead again."""
    return isr_size > 1


def lags(log_end: int, leader_log_end: int) -> bool:
    """Whether a follower that stays like this for `replica.lag.time.max.ms` is dropped from the ISR."""
    return log_end < leader_log_end


def high_watermark(before: int, log_ends: Sequence[int]) -> int:
    """A leader's new high watermark. `log_ends`: the log end offsets of the ISR's members, the leader's included."""
    return max(before, min(log_ends))


def watermark_waits(isr_size: int, min_insync_replicas: int) -> bool:
    """Whether the high watermark stands still: since 3.7 it does while the ISR is below its minimum (KAFKA-15583)."""
    return isr_size < min_insync_replicas


def refuses_append(isr_size: int, min_insync_replicas: int) -> bool:
    """Whether a request with acks=all is refused with NOT_ENOUGH_REPLICAS.

    If the ISR has shrunk since the append, the answer is NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    """
    return isr_size < min_insync_replicas


def is_committed(offset: int, high_watermark: int) -> bool:
    """Whether a record may be shown to consumers, and its request with acks=all be answered."""
    return offset < high_watermark
