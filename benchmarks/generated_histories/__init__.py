"""Histories of any size beyond those of plain lanes, for benchmarks and tests: transactions, groups, planted anomalies.

What `kafka_chaos.verification.generate` guarantees, they guarantee, too: every anomaly that they hold can be named
beforehand, and the same shape and seed give the same rows.
"""

from generated_histories.groups import GroupShape, with_group
from generated_histories.planting import planted
from generated_histories.transactions import TransactionsShape, transaction_tables

__all__ = ["GroupShape", "TransactionsShape", "planted", "transaction_tables", "with_group"]
