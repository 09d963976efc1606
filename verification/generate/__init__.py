"""Generates histories of any size: valid ones, and ones with anomalies planted at known places.

Guarantee: without plants, a generated run directory holds no anomaly but those that its shape asks for (retried
copies, a truncated tail of acknowledged records, transactions in opposite orders); every anomaly that it holds can be
named beforehand. The same shape and seed give the same rows.
"""

from kafka_chaos.verification.generate.groups import GroupShape, with_group
from kafka_chaos.verification.generate.lanes import LaneShape, LaneTables, lane_tables
from kafka_chaos.verification.generate.planting import planted
from kafka_chaos.verification.generate.transactions import TransactionsShape, transaction_tables
from kafka_chaos.verification.generate.writing import write_run

__all__ = [
    "GroupShape",
    "LaneShape",
    "LaneTables",
    "TransactionsShape",
    "lane_tables",
    "planted",
    "transaction_tables",
    "with_group",
    "write_run",
]
