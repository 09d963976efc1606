"""Which anomalies a state shows if the run ends in it: each anomaly one function, all of them in one registry.

A run may end wherever a leader serves and no unread request is left in its socket: whatever is down comes back
and follows, which no longer changes the leader's log; a record with no answer is `info`. The definitions are
those of docs/anomalies.md, which the verification applies to real histories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.lane_state import (
    FOLLOWER,
    INFO,
    NOWHERE,
    OK,
    RECORDS,
    LaneState,
    entry_record,
    leader_index,
)


def final_log(state: LaneState) -> tuple[int, ...] | None:
    """The log a run would end with in this state, or None if it can't end here."""
    leader = leader_index(state.replicas)
    if leader < 0 or state.replicas[leader].socket or state.replicas[leader].abandoned:
        return None
    return state.replicas[leader].log


def is_resolved(state: LaneState) -> bool:
    """Whether every record has its outcome, so that nothing of the load is left to happen."""
    return final_log(state) is not None and all(record.status in (OK, INFO) for record in state.records)


def read_pairs(reads: int) -> list[tuple[int, int]]:
    """The (record, offset) pairs of a `LaneState.reads`."""
    pairs = []
    for position in range(reads.bit_length()):
        if reads & 1 << position:
            pairs.append((position % RECORDS, position // RECORDS))
    return pairs


def lost_write(state: LaneState, log: list[int]) -> bool:
    """A record was acknowledged and is not in the final log."""
    return any(record.status == OK and index not in log for index, record in enumerate(state.records))


def duplicate(state: LaneState, log: list[int]) -> bool:
    """A record is in the final log twice."""
    return len(set(log)) < len(log)


def inconsistent_offset(state: LaneState, log: list[int]) -> bool:
    """Acknowledgements, reads and the final log name two records for one offset."""
    seen: dict[int, int] = dict(enumerate(log))
    named = [(i, record.offset) for i, record in enumerate(state.records) if record.offset != NOWHERE]
    return any(seen.setdefault(offset, record) != record for record, offset in named + read_pairs(state.reads))


def offset_mismatch(state: LaneState, log: list[int]) -> bool:
    """A record is in the final log, but not at the offset it was acknowledged at."""
    return any(
        record.offset != NOWHERE and index in log and log[record.offset : record.offset + 1] != [index]
        for index, record in enumerate(state.records)
    )


def truncated_read(state: LaneState, log: list[int]) -> bool:
    """A record was read and is not in the final log."""
    return any(record not in log for record, _ in read_pairs(state.reads))


def reordered(state: LaneState, log: list[int]) -> bool:
    """The first occurrences are not in the order they were sent in."""
    return log != [] and 0 in log and 1 in log and log.index(1) < log.index(0)


def replica_divergence(state: LaneState, log: list[int]) -> bool:
    """A live follower's log is not a prefix of the leader's."""
    leader_log = state.replicas[leader_index(state.replicas)].log
    return any(replica.role == FOLLOWER and replica.log != leader_log[: len(replica.log)] for replica in state.replicas)


Check = Callable[[LaneState, list[int]], bool]

CHECKS: Mapping[Anomaly, Check] = {
    Anomaly.LOST_WRITE: lost_write,
    Anomaly.DUPLICATE: duplicate,
    Anomaly.INCONSISTENT_OFFSET: inconsistent_offset,
    Anomaly.OFFSET_MISMATCH: offset_mismatch,
    Anomaly.TRUNCATED_READ: truncated_read,
    Anomaly.REORDERED: reordered,
    Anomaly.REPLICA_DIVERGENCE: replica_divergence,
}
"""Anomalies that depend on what brokers and producer do."""

NEVER: Mapping[Anomaly, str] = {
    Anomaly.FALSE_FAILURE: "the producer says `fail` only of a record that it handed to no broker",
    Anomaly.PHANTOM: "a log holds only what a producer sent: append and fetch are the only ways in",
    Anomaly.UNSEEN: "a consumer that reads to the end passes every offset below the high watermark",
    Anomaly.NONMONOTONIC_POLL: "a consumer's position only grows within one assignment",
    Anomaly.SKIPPED_POLL: "a consumer's position grows by one record at a time, and logs have no holes",
    Anomaly.OFFSET_GAP: "a leader appends at its log end offset, a follower fetches from its own: no holes",
    Anomaly.HIGH_WATERMARK_REGRESSION: (
        "within a leader epoch the ISR admits only replicas that hold all below the high watermark, "
        "and none of its members' logs gets shorter"
    ),
}
"""Anomalies that a correct broker and client can never show, and the rule of the model that excludes each."""


def shown(state: LaneState) -> frozenset[Anomaly]:
    """The anomalies of a run that ends in this state; none if it can't end here."""
    entries = final_log(state)
    if entries is None:
        return frozenset()
    log = [entry_record(value) for value in entries]
    return frozenset(anomaly for anomaly, check in CHECKS.items() if check(state, log))
