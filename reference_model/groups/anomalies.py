"""Which anomalies of groups and loops a state shows if the run ends in it: one function per anomaly.

A run may end wherever no member is in the middle of a batch and no transaction is open: members that have not crashed
finish their batches. The definitions are those of docs/anomalies.md, which the verification applies to real
histories.
"""

from collections.abc import Callable, Mapping

from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.reference_model.groups.state import ACTIVE, NONE, Setup, State


def ending(state: State, setup: Setup) -> State | None:
    """The evidence of a run that ends in this state, or None if it can't end here."""
    is_open = any(offset != NONE for offset in state.coordinator.pending)
    is_over = not is_open and all(member.phase != ACTIVE or member.record == NONE for member in state.members)
    return state if is_over else None


def processed_twice(end: State) -> bool:
    """Two outputs of a loop are of the same input."""
    return any(count > 1 for count in end.outputs)


def not_processed(end: State) -> bool:
    """An input of a loop has no output, and the committed offset is past it."""
    return any(not count for count in end.outputs[: end.coordinator.committed])


def commit_lost(end: State) -> bool:
    """A member began to read below the offset of an acknowledged commit, or the last committed offset lies below it."""
    return end.is_commit_lost or end.coordinator.committed < end.acknowledged


def commit_regressed(end: State) -> bool:
    """A commit was acknowledged with a lower offset than an earlier acknowledged commit."""
    return end.is_commit_regressed


def skipped_after_rebalance(end: State) -> bool:
    """No member has processed a record, and the committed offset is past it."""
    return any(not end.processed >> offset & 1 for offset in range(end.coordinator.committed))


def owned_twice(end: State) -> bool:
    """Two members of one generation read records of one partition."""
    return end.is_owned_twice


CHECKS: Mapping[GroupAnomaly, Callable[[State], bool]] = {
    GroupAnomaly.PROCESSED_TWICE: processed_twice,
    GroupAnomaly.NOT_PROCESSED: not_processed,
    GroupAnomaly.COMMIT_LOST: commit_lost,
    GroupAnomaly.COMMIT_REGRESSED: commit_regressed,
    GroupAnomaly.SKIPPED_AFTER_REBALANCE: skipped_after_rebalance,
    GroupAnomaly.OWNED_TWICE: owned_twice,
}
