"""All families of anomalies, side by side: those of every lane, of transactions, of groups and loops, of recovery."""

from __future__ import annotations

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.groups import GroupAnomaly
from kafka_chaos.contract.recovery import RecoveryAnomaly
from kafka_chaos.contract.transactions import TransactionAnomaly

AnyAnomaly = Anomaly | TransactionAnomaly | GroupAnomaly | RecoveryAnomaly
ALL_ANOMALIES: tuple[AnyAnomaly, ...] = (*Anomaly, *TransactionAnomaly, *GroupAnomaly, *RecoveryAnomaly)


def anomaly_named(name: str) -> AnyAnomaly:
    """The anomaly of that name; `ValueError` if there is none."""
    found = next((anomaly for anomaly in ALL_ANOMALIES if anomaly == name), None)
    return Anomaly(name) if found is None else found
