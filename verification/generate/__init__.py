"""Generates histories of plain lanes, of any size: Spark's warm-up verifies one.

Guarantee: a generated run directory holds no anomaly but those that its shape asks for (retried copies, a truncated
tail of acknowledged records); every anomaly that it holds can be named beforehand. The same shape and seed give the
same rows.
"""

from kafka_chaos.verification.generate.lanes import LaneShape, LaneTables, lane_tables
from kafka_chaos.verification.generate.writing import write_run

__all__ = ["LaneShape", "LaneTables", "lane_tables", "write_run"]
