"""The in-sync replicas: who joins, who leaves, what their logs commit, and what min.insync.replicas asks of them.

Sources: Kafka's documentation ("Replication", `replica.lag.time.max.ms`, `min.insync.replicas`), KIP-101, KIP-497,
KAFKA-15583.
"""

from collections.abc import Sequence


def may_join_isr(log_end: int, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower has caught up: it holds all below the leader's high watermark and has reached the start of the
    leader's epoch, before which the leader can't know how far its predecessor's high watermark went (KIP-101)."""
    return log_end >= max(high_watermark, epoch_start)


def may_leave_isr(isr_size: int) -> bool:
    """Whether a member may be taken out, dead or slow: the last one stays, so that somebody may lead again."""
    return isr_size > 1


def lags(log_end: int, leader_log_end: int) -> bool:
    """Whether a follower that stays like this for `replica.lag.time.max.ms` is dropped from the ISR."""
    return log_end < leader_log_end


def high_watermark(before: int, log_ends: Sequence[int]) -> int:
    """A leader's new high watermark, given these log ends of its ISR, its own among them."""
    return max(before, min(log_ends))


def watermark_waits(isr_size: int, min_insync_replicas: int) -> bool:
    """Whether the high watermark stays where it is: while the ISR is below the minimum, since 3.7 (KAFKA-15583)."""
    return isr_size < min_insync_replicas


def refuses_append(isr_size: int, min_insync_replicas: int) -> bool:
    """Whether a request with acks=all is answered with NOT_ENOUGH_REPLICAS, or, where the ISR has shrunk since the
    append, with NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
    return isr_size < min_insync_replicas


def is_committed(offset: int, high_watermark: int) -> bool:
    """Whether a record may be shown to consumers, and its request with acks=all be answered."""
    return offset < high_watermark
