"""Verification, by Spark or by DuckDB: a run directory in, findings and verdicts out.

    from kafka_chaos.verification import verify
    verdict = verify("runs/latest")

Importing this package imports neither PySpark nor PyArrow; the first call does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.spark.jars import SparkUnavailableError
from kafka_chaos.verification.spark.session import spark_session

if TYPE_CHECKING:
    from kafka_chaos.verification.checker import verify
    from kafka_chaos.verification.frames import verify_frames, verify_topics

__all__ = [
    "LaneVerdict",
    "Observation",
    "RunDirectoryError",
    "RunVerdict",
    "SparkUnavailableError",
    "spark_session",
    "verify",
    "verify_frames",
    "verify_topics",
]


def __getattr__(name: str) -> Any:
    if name == "verify":
        from kafka_chaos.verification.checker import verify

        return verify
    if name in ("verify_frames", "verify_topics"):
        from kafka_chaos.verification import frames

        return getattr(frames, name)
    raise AttributeError(name)
