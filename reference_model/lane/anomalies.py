"""Which anomalies a state shows if the run ends in it: one function per anomaly, all registered in `CHECKS`.

A run may end wherever a leader serves and has read all requests, awaited (`LaneReplica.awaited`) or not (`unawaited`).
Brokers that are down come back and follow, which no longer changes the leader's log, and a record without an answer has
the outcome `info`. The definitions are those of docs/anomalies.md, which the verification applies to real histories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.state import FOLLOWER, INFO, NOWHERE, OK, LaneState, Record, pairs, record_of


class Ending(NamedTuple):
    """The evidence of a run: the final log, and the (record, offset) pairs acknowledged and read.

    `log` holds the records in offset order; an acknowledgement without an offset names `NOWHERE`; `diverged`
    says whether some live follower's log is not a prefix of the leader's.
    """

    log: list[int]
    acknowledged: list[tuple[int, int]]
    read: list[tuple[int, int]]
    diverged: bool


def final_log(state: LaneState) -> tuple[int, ...] | None:
    """The log with which a run ends in this state; None if nobody leads, or the leader has requests left to read."""
    leader = state.leader
    if leader < 0 or state.replicas[leader].awaited or state.replicas[leader].unawaited:
        return None
    return state.replicas[leader].log


def ending(state: LaneState) -> Ending | None:
    """The evidence of a run that ends in this state, or None if it can't end here."""
    if (log := final_log(state)) is None:
        return None
    acknowledged = [(index, record.offset) for index, record in enumerate(state.records) if record.status == OK]
    return Ending([record_of(entry) for entry in log], acknowledged, pairs(state.reads), diverged(state, log))


def is_resolved(state: LaneState) -> bool:
    """Whether every record has its outcome, so that nothing of the load is left to happen."""
    return final_log(state) is not None and all(record.status in (OK, INFO) for record in state.records)


def diverged(state: LaneState, leader_log: tuple[int, ...]) -> bool:
    """Whether some live follower's log is not a prefix of the leader's."""
    return any(replica.role == FOLLOWER and replica.log != leader_log[: len(replica.log)] for replica in state.replicas)


def lost_write(end: Ending) -> bool:
    """A record was acknowledged and is not in the final log."""
    return any(record not in end.log for record, _ in end.acknowledged)


def duplicate(end: Ending) -> bool:
    """A record is in the final log twice."""
    return len(set(end.log)) < len(end.log)


def inconsistent_offset(end: Ending) -> bool:
    """Acknowledgements, reads and the final log name two records for one offset."""
    record_at: dict[int, int] = dict(enumerate(end.log))
    acknowledged_and_read = [pair for pair in end.acknowledged if pair[1] != NOWHERE] + end.read
    return any(record_at.setdefault(offset, record) != record for record, offset in acknowledged_and_read)


def offset_mismatch(end: Ending) -> bool:
    """A record is in the final log, but not at the offset it was acknowledged at."""
    return any(
        offset != NOWHERE and record in end.log and end.log[offset : offset + 1] != [record]
        for record, offset in end.acknowledged
    )


def truncated_read(end: Ending) -> bool:
    """A record was read and is not in the final log."""
    return any(record not in end.log for record, _ in end.read)


def reordered(end: Ending) -> bool:
    """The first occurrences of the records in the final log are not in the order of sending."""
    firsts = list(dict.fromkeys(end.log))
    return firsts != sorted(firsts)


def replica_divergence(end: Ending) -> bool:
    """A live follower's log is not a prefix of the leader's log."""
    return end.diverged


CHECKS: Mapping[Anomaly, Callable[[Ending], bool]] = {
    Anomaly.LOST_WRITE: lost_write,
    Anomaly.DUPLICATE: duplicate,
    Anomaly.INCONSISTENT_OFFSET: inconsistent_offset,
    Anomaly.OFFSET_MISMATCH: offset_mismatch,
    Anomaly.TRUNCATED_READ: truncated_read,
    Anomaly.REORDERED: reordered,
    Anomaly.REPLICA_DIVERGENCE: replica_divergence,
}
"""The anomalies that the search of a lane decides. The others rest on axioms (`protocol/axioms.py`)."""


class Form(NamedTuple):
    """What a search has to keep of a state, besides the logs, while some anomalies are still searched for.

    It may keep what consumers have read, which records were acknowledged, and the offsets that acknowledgements name.
    Of these, only acknowledgements to an idempotent producer affect what can happen next, and then they are kept. So
    states that are equal in this form lead to the same answers.
    """

    keeps_reads: bool
    keeps_acknowledgements: bool
    keeps_offsets: bool

    @classmethod
    def needed_for(cls, wanted: Set[Anomaly], lane: Lane) -> Form:
        """The form that a search for the `wanted` anomalies needs."""
        about_offsets = wanted & {Anomaly.INCONSISTENT_OFFSET, Anomaly.OFFSET_MISMATCH}
        return cls(
            keeps_reads=bool(wanted & {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET}),
            keeps_acknowledgements=lane.idempotence or bool(about_offsets) or Anomaly.LOST_WRITE in wanted,
            keeps_offsets=bool(about_offsets),
        )

    def reduce(self, state: LaneState) -> LaneState:
        """The state reduced to this form. If acknowledgements do not matter, acknowledged records count as `info`."""
        if not self.keeps_reads and state.reads:
            state = state._replace(reads=0)
        if not self.keeps_offsets and OK in [record.status for record in state.records]:
            status = OK if self.keeps_acknowledgements else INFO
            reduced = Record(status, 0, NOWHERE)
            records = tuple([reduced if record.status == OK else record for record in state.records])
            state = state._replace(records=records)
        return state


WHOLE = Form(keeps_reads=True, keeps_acknowledgements=True, keeps_offsets=True)
"""The form that keeps everything."""
