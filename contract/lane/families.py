"""All families of anomalies, side by side: those of every lane, of transactions, of groups and loops, of share groups,
of recovery; and the causes of lost, moved, duplicated and overtaken records (docs/ledger.md says on what evidence each
is named).
"""

from enum import StrEnum

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.lane.share import ShareAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly

AnyAnomaly = Anomaly | TransactionAnomaly | GroupAnomaly | ShareAnomaly | RecoveryAnomaly
ALL_ANOMALIES: tuple[AnyAnomaly, ...] = (*Anomaly, *TransactionAnomaly, *GroupAnomaly, *ShareAnomaly, *RecoveryAnomaly)


def anomaly_named(name: str) -> AnyAnomaly:
    """The anomaly of that name; `ValueError` if there is none."""
    found = next((anomaly for anomaly in ALL_ANOMALIES if anomaly == name), None)
    return Anomaly(name) if found is None else found


class Cause(StrEnum):
    """Why a record was lost, moved, stored twice or overtaken. In findings/, details follow the name after a colon.

    `unobserved`: no event that was seen explains it, and what was not seen may. `unexplained`: all of these were seen.
    """

    TRUNCATION = "truncation"
    ELECTION = "election"
    UNCLEAN_ELECTION = "unclean_election"
    FAULT = "fault"
    RETRY = "retry"
    PRODUCER_EPOCH = "producer_epoch"
    UNOBSERVED = "unobserved"
    UNEXPLAINED = "unexplained"


REPEATED = (Anomaly.DUPLICATE, Anomaly.REORDERED)
CAUSED = (Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ, Anomaly.OFFSET_MISMATCH, Anomaly.INCONSISTENT_OFFSET, *REPEATED)
"""The anomalies whose every case has a cause."""
