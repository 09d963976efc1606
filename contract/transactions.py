"""Transactions of a lane: their settings, and the names of what may go wrong with them.

Sources: KIP-98 (transactions), KIP-890 (their protocol since 4.0), documentation of `transactional.id`,
`transaction.timeout.ms` and `isolation.level`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.errors import LaneError, counted

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
ISOLATION_LEVELS = (READ_COMMITTED, READ_UNCOMMITTED)

DATA, COMMIT, ABORT = "data", "commit", "abort"
RECORD_KINDS = (DATA, COMMIT, ABORT)
"""What an offset of a broker's log holds: a record, or the marker that ends a producer's transaction.

In `replicas/`, a marker has seq −1 and the `producer_id` of the last record before it, in its partition, that was
written under the same id of Kafka; −1 if there is none. So it names whose open transaction it ends there.
"""

COMMITTED, ABORTED, IN_DOUBT = "committed", "aborted", "info"
TRANSACTION_OUTCOMES = (COMMITTED, ABORTED, IN_DOUBT)
"""What a producer learned about a transaction: that it is committed, that it is aborted, or neither.

One whose commit nobody ever asked for is aborted, too, even if its producer never saw its end: nothing may commit it.
"""


class TransactionAnomaly(StrEnum):
    """A named deviation from what transactions promise. docs/anomalies.md says what counts as one."""

    ABORTED_READ = "aborted_read"
    TORN_TRANSACTION = "torn_transaction"
    LOST_TRANSACTION = "lost_transaction"
    ZOMBIE_COMMIT = "zombie_commit"
    HANGING_TRANSACTION = "hanging_transaction"
    DEPENDENCY_CYCLE = "dependency_cycle"


AnyAnomaly = Anomaly | TransactionAnomaly
ALL_ANOMALIES: tuple[AnyAnomaly, ...] = (*Anomaly, *TransactionAnomaly)


def anomaly_named(name: str) -> AnyAnomaly:
    """The anomaly of that name; `ValueError` if there is none."""
    return TransactionAnomaly(name) if name in set(TransactionAnomaly) else Anomaly(name)


def transactional_id(lane: str, number: int) -> str:
    """The `transactional.id` of the lane's producer of this number, counted from 0."""
    return f"{lane}-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactional:
    """How a lane's producers use transactions.

    Each of `producers` has a transactional id of its own and writes transactions of `size` records, one after the
    other, over the lane's partitions. It aborts the share `abort` of them. `timeout_ms` is their
    `transaction.timeout.ms`. So many `restarts`, evenly over the load, kill one of them, in turn, in the middle of a
    transaction: it comes back under its transactional id, and the former incarnation then asks for its commit, too.
    Raises `LaneError` for any other value.
    """

    size: int = 10
    abort: float = 0.0
    producers: int = 1
    timeout_ms: int = 60_000
    restarts: int = 0

    def __post_init__(self) -> None:
        for key, least in {"size": 1, "producers": 1, "timeout_ms": 1, "restarts": 0}.items():
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise LaneError(f"transactional.{key}", value, f"a whole number of at least {least}")
        share: object = self.abort
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise LaneError("transactional.abort", share, "a share from 0 to 1")

    @classmethod
    def from_json(cls, entry: object) -> Transactional:
        """The settings from `transactional` of a lane; unknown keys raise `LaneError`, too."""
        names = [field.name for field in fields(cls)]
        if not isinstance(entry, Mapping):
            raise LaneError("transactional", entry, f"a mapping of {', '.join(names)}")
        for key in entry:
            if key not in names:
                raise LaneError(f"transactional.{key}", entry[key], f"no such key; the keys are {', '.join(names)}")
        return cls(**entry)

    @property
    def described(self) -> str:
        """The settings in words, for people."""
        texts = [
            counted(self.producers, "transactional producer"),
            f"transactions of {counted(self.size, 'record')}",
            f"{self.abort:.0%} aborted",
            f"time-out {self.timeout_ms / 1000:g} s",
        ]
        return ", ".join([*texts, counted(self.restarts, "restart")] if self.restarts else texts)

    def to_json(self) -> dict[str, Any]:
        """The form of `lanes.json`."""
        return asdict(self)
