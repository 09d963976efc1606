"""Spark, DuckDB and the oracle agree, row by row, on random histories of every family."""

from collections.abc import Collection
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.share import ShareAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from tests.verification.samples.engines import found_by_both, verified_by_duckdb
from tests.verification.samples.random_runs import FAMILIES

pytestmark = [pytest.mark.usefixtures("everything_forbidden"), pytest.mark.parametrize("family", FAMILIES)]

_WITHOUT_LOG = ("lost_write", "unseen", "skipped_poll", "duplicate", "inconsistent_offset")
_FOUND: dict[str, Collection[str]] = {
    "plain": {*Anomaly} - {Anomaly.HIGH_WATERMARK_REGRESSION},  # No history has reports of brokers.
    "compacted": {*Anomaly} - {Anomaly.HIGH_WATERMARK_REGRESSION, Anomaly.OFFSET_GAP},
    "compacted transactions": ("lost_write", "truncated_read", "offset_mismatch", "reordered", "unseen"),
    "plain, without a log": _WITHOUT_LOG,
    "acks=0": ("lost_write", "duplicate", "phantom", "false_failure", "offset_gap"),
    "transactions": TransactionAnomaly,
    "transactions, without a log": (*_WITHOUT_LOG, "aborted_read", "precommitted_read"),
    "groups": GroupAnomaly,
    "shares": ShareAnomaly,
}
"""By family the anomalies that some of many histories have."""


def test_duckdb_and_the_oracle_agree(tmp_path: Path, family: str) -> None:
    verified_by_duckdb(FAMILIES[family](tmp_path / "run", Random(20), 12))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_spark_agrees_with_both(tmp_path: Path, spark: Any, family: str) -> None:
    """Spark takes minutes for a run directory, however small: hence the many histories in one."""
    found = found_by_both(FAMILIES[family](tmp_path / "run", Random(21), 500), spark=spark)
    assert {*_FOUND[family]} <= found.keys(), found
