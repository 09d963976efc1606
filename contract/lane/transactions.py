"""Transactions of a lane: their settings, and the names of what may go wrong with them.

Sources: KIP-98 (transactions), KIP-890 (their protocol since 4.0), documentation of `transactional.id`,
`transaction.timeout.ms` and `isolation.level`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_chaos.contract.anomalies import AnomalyName, Trait
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.settings import Settings, setting

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
ISOLATION_LEVELS = (READ_COMMITTED, READ_UNCOMMITTED)

DATA, COMMIT, ABORT = "data", "commit", "abort"
RECORD_KINDS = (DATA, COMMIT, ABORT)
"""The kinds of entries in a broker's log: a record, or the marker that ends a producer's transaction.

In `replicas/`, a marker has seq −1 and ends the open transaction of a producer in its partition. Its `producer_id`, a
number of the harness, is taken from the last record before it with the same Kafka producer id, or else −1.
"""

COMMITTED, ABORTED, IN_DOUBT = "committed", "aborted", "info"
TRANSACTION_OUTCOMES = (COMMITTED, ABORTED, IN_DOUBT)
"""The outcomes of a transaction for its producer: committed, aborted, or neither.

A transaction whose commit nobody ever asked for counts as aborted, even if its producer never saw its end, because
nothing may commit it.
"""


class TransactionAnomaly(AnomalyName):
    """A named deviation from what transactions promise. docs/anomalies.md says what counts as a case."""

    ABORTED_READ = (
        "aborted_read",
        "a record of an aborted transaction, given to a read_committed consumer",
        Trait.BY_READS,
    )
    PRECOMMITTED_READ = (
        "precommitted_read",
        "a record given to a read_committed consumer before its commit was asked for",
        Trait.BY_READS,
    )
    TORN_TRANSACTION = (
        "torn_transaction",
        "a transaction committed in part, or given in part",
        Trait.BY_LOG | Trait.BY_READS,
    )
    LOST_TRANSACTION = (
        "lost_transaction",
        "commit acknowledged, but nothing of it is committed in the log",
        Trait.BY_LOG,
    )
    ZOMBIE_COMMIT = "zombie_commit", "a commit by an incarnation that a later one had fenced"
    HANGING_TRANSACTION = "hanging_transaction", "a transaction that stays open past its time-out", Trait.BY_LOG
    DEPENDENCY_CYCLE = "dependency_cycle", "committed transactions that depend on each other in a cycle", Trait.BY_LOG


def transactional_id(lane: str, number: int) -> str:
    """The `transactional.id` of the lane's producer of this number, counted from 0."""
    return f"{lane}-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactional(Settings):
    """How a lane's producers use transactions; raises `LaneError` for values that no producer could have.

    Each producer writes one transaction after the other, over the lane's partitions.
    """

    KEY = "transactional"

    size: int = setting(
        10,
        "records of each transaction, over all partitions; a producer that is behind the rate of the load writes a "
        "multiple of it, since a commit takes equally long for any size",
        le=10_000,
    )
    abort: float = setting(0.0, "share of the transactions that are aborted, 0 to 1")
    producers: int = setting(1, "producers, each with a transactional id of its own", le=100)
    timeout_ms: int = setting(
        60_000, "`transaction.timeout.ms` of the producers, at most what brokers allow by default", ge=1_000, le=900_000
    )
    reads: bool = setting(
        False, "whether each transaction also reads what is committed in the topic, between its own records"
    )
    restarts: int = setting(
        0,
        "how often, evenly over the load, one of the producers is abandoned in the middle of a transaction and another "
        "begins under its transactional id; the former goes on as a zombie, and asks for its commit, to be refused",
        least=0,
        le=1_000,
    )

    @property
    def described(self) -> str:
        """The settings in words, for people."""
        texts = [
            counted(self.producers, "transactional producer"),
            f"transactions of {counted(self.size, 'record')}",
            f"{self.abort:.0%} aborted",
            f"time-out {self.timeout_ms / 1000:g} s",
        ]
        texts += ["reads within transactions"] if self.reads else []
        return ", ".join([*texts, counted(self.restarts, "restart")] if self.restarts else texts)
