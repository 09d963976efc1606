"""Verification, by Spark or by DuckDB: a run directory in, findings and verdicts out.

    from kafka_chaos.verification import verify
    verdict = verify("runs/latest")

Importing this package imports neither PySpark nor PyArrow; the first call does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.spark.session import SparkUnavailableError, spark_session

if TYPE_CHECKING:
    from kafka_chaos.verification.checker import verify
    from kafka_chaos.verification.frames import verify_frames

__all__ = [
    "LaneVerdict",
    "Observation",
    "RunDirectoryError",
    "RunVerdict",
    "SparkUnavailableError",
    "spark_session",
    "verify",
    "verify_frames",
]


_BY_FIRST_CALL = {"verify": f"{__name__}.checker", "verify_frames": f"{__name__}.frames"}


def __getattr__(name: str) -> Any:
    if name not in _BY_FIRST_CALL:
        raise AttributeError(name)
    return getattr(import_module(_BY_FIRST_CALL[name]), name)
