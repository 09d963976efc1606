"""Histories of any size, for benchmarks and tests: of plain lanes, with transactions, groups, planted anomalies.

Guarantee: a generated run directory holds no anomaly but those that its shape asks for (retried copies, a truncated
tail of acknowledged records), and those that are planted; every anomaly that it holds can be named beforehand. The same
shape and seed give the same rows.
"""

from generated_histories.groups import GroupShape, with_group
from generated_histories.lanes import LaneShape, LaneTables, lane_tables
from generated_histories.planting import planted
from generated_histories.transactions import TransactionsShape, transaction_tables
from generated_histories.writing import write_run

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
