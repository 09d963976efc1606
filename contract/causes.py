"""The names of the causes that findings and verdict.json give for lost and duplicated records.

docs/ledger.md says on what evidence each is named.
"""

from __future__ import annotations

from enum import StrEnum

from kafka_chaos.contract.anomalies import Anomaly


class Cause(StrEnum):
    """Why a record was lost or stored twice. In findings/, details follow the name after a colon."""

    TRUNCATION = "truncation"
    ELECTION = "election"
    UNCLEAN_ELECTION = "unclean_election"
    FAULT = "fault"
    RETRY = "retry"
    PRODUCER_EPOCH = "producer_epoch"
    UNEXPLAINED = "unexplained"


LOST = (Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ)
CAUSED = (*LOST, Anomaly.DUPLICATE)
"""The anomalies whose every case has a cause."""
