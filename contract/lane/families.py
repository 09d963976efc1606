"""All families of anomalies: of every lane, of transactions, of groups and loops, of share groups, and of recovery.

Also here: the causes of lost, moved, duplicated and overtaken records. docs/ledger.md says which evidence assigns each
cause.
"""

from enum import StrEnum

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.lane.share import ShareAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly

AnyAnomaly = Anomaly | TransactionAnomaly | GroupAnomaly | ShareAnomaly | RecoveryAnomaly
ALL_ANOMALIES: tuple[AnyAnomaly, ...] = (*Anomaly, *TransactionAnomaly, *GroupAnomaly, *ShareAnomaly, *RecoveryAnomaly)
FAMILY_KEYS = ("anomalies", "transactions", "groups", "shares")
"""The keys of families in a prediction's JSON: every lane has the first, and the others where they apply. Recovery
is not predicted."""


def anomaly_named(name: str) -> AnyAnomaly:
    """The anomaly of this name, of whichever family; raises `ValueError` if there is none."""
    anomaly: AnyAnomaly | None = next((anomaly for anomaly in ALL_ANOMALIES if anomaly == name), None)
    return anomaly or Anomaly(name)  # Raises for an unknown name.


class Cause(StrEnum):
    """The cause of a record's loss, move, duplication or overtaking. In findings/, details follow it after a colon.

    `unobserved`: no observed event explains it, but some events may have gone unseen. `unexplained`: no event explains
    it, and all were observed.
    """

    TRUNCATION = "truncation"
    ELECTION = "election"
    UNCLEAN_ELECTION = "unclean_election"
    FAULT = "fault"
    RETRY = "retry"
    PRODUCER_EPOCH = "producer_epoch"
    UNOBSERVED = "unobserved"
    UNEXPLAINED = "unexplained"


RETRY_ANOMALIES = (Anomaly.DUPLICATE, Anomaly.REORDERED)  # the anomalies that a retry of the producer may explain
ANOMALIES_WITH_CAUSE = (
    *(Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ, Anomaly.OFFSET_MISMATCH, Anomaly.INCONSISTENT_OFFSET),
    *RETRY_ANOMALIES,
)
"""The anomalies that verification finds a cause for, case by case."""
