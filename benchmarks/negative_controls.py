"""The protocols of transactions and of groups, each without one rule: negative controls of the reference model.

A model that finds nothing wrong with them checks nothing. Tests search them, and docs/model.md lists what they show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafka_chaos.contract.lane.groups import AFTER, IN_TRANSACTION, GroupAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.groups import rules as groups
from kafka_chaos.reference_model.groups.rules import CONSUMER_RULES, COOPERATIVE_RULES, EAGER_RULES
from kafka_chaos.reference_model.transactions import rules as transactions
from kafka_chaos.reference_model.transactions.rules import V1, V1_UNVERIFIED, V2, Kind

ABORTED_READ = TransactionAnomaly.ABORTED_READ
TORN_TRANSACTION = TransactionAnomaly.TORN_TRANSACTION
LOST_TRANSACTION = TransactionAnomaly.LOST_TRANSACTION
HANGING_TRANSACTION = TransactionAnomaly.HANGING_TRANSACTION


@dataclass(frozen=True, slots=True)
class BrokenTransactions:
    """A protocol without one rule: the anomalies that it shows, with as many late requests and failovers."""

    rules: transactions.Rules
    shows: tuple[TransactionAnomaly, ...]
    late: int = 0
    failovers: int = 0


TRANSACTIONS_WITHOUT: Mapping[str, BrokenTransactions] = {
    "fencing of producers at the coordinator": BrokenTransactions(
        replace(V1, coordinator_fences_producers=False), (TORN_TRANSACTION, ABORTED_READ)
    ),
    "fencing of producers at the leader": BrokenTransactions(
        replace(V1_UNVERIFIED, leader_fences_producers=False), (HANGING_TRANSACTION,)
    ),
    "fencing of coordinators that were replaced": BrokenTransactions(
        replace(V1, leader_fences_coordinators=False), (TORN_TRANSACTION, ABORTED_READ), failovers=1
    ),
    "markers that a new coordinator writes again": BrokenTransactions(
        replace(V1, writes_markers_again=False), (HANGING_TRANSACTION, LOST_TRANSACTION, TORN_TRANSACTION), failovers=1
    ),
    "the abort by InitProducerId": BrokenTransactions(replace(V1, aborts_on_init=False), (HANGING_TRANSACTION,)),
    "the last stable offset": BrokenTransactions(replace(V1, reads_below_last_stable_offset=False), (ABORTED_READ,)),
    "the abort by time-out": BrokenTransactions(replace(V1, aborts_on_time_out=False), (HANGING_TRANSACTION,)),
    "an epoch for each transaction": BrokenTransactions(
        replace(V1, late_kinds=frozenset(Kind)), (TORN_TRANSACTION, ABORTED_READ), late=1
    ),
    "verification by the leader": BrokenTransactions(replace(V1, verifies=False), (HANGING_TRANSACTION,), late=1),
    "the epoch of open records (KAFKA-18575)": BrokenTransactions(
        replace(V2, compares_open_epochs=False), (TORN_TRANSACTION, LOST_TRANSACTION, ABORTED_READ)
    ),
}
"""The protocols of transactions by what they lack."""


@dataclass(frozen=True, slots=True)
class BrokenGroups:
    """A protocol without one rule: the anomalies that it shows, in a group that commits so, or in a loop."""

    rules: groups.Rules
    shows: tuple[GroupAnomaly, ...]
    commits: str = AFTER
    is_loop: bool = False
    failovers: int = 0


GROUPS_WITHOUT: Mapping[str, BrokenGroups] = {
    "fencing of members": BrokenGroups(replace(EAGER_RULES, fences=False), (GroupAnomaly.COMMIT_REGRESSED,)),
    "fencing of members (KIP-848)": BrokenGroups(
        replace(CONSUMER_RULES, fences=False), (GroupAnomaly.COMMIT_REGRESSED,)
    ),
    "commits that a new coordinator reads": BrokenGroups(
        replace(COOPERATIVE_RULES, replays=False),
        (GroupAnomaly.COMMIT_LOST, GroupAnomaly.COMMIT_REGRESSED),
        failovers=1,
    ),
    "the owner that gives back first": BrokenGroups(
        replace(COOPERATIVE_RULES, revokes_first=False), (GroupAnomaly.OWNED_TWICE, GroupAnomaly.COMMIT_REGRESSED)
    ),
    "fencing of offsets in transactions": BrokenGroups(
        replace(EAGER_RULES, fences_transactions=False), (GroupAnomaly.PROCESSED_TWICE,), IN_TRANSACTION, is_loop=True
    ),
    "waiting for the end of a transaction": BrokenGroups(
        replace(EAGER_RULES, waits_for_stable=False),
        (GroupAnomaly.PROCESSED_TWICE, GroupAnomaly.COMMIT_LOST),
        IN_TRANSACTION,
        is_loop=True,
    ),
}
"""The rules of groups by what they lack."""
