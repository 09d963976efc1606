"""PySpark verification: a run directory in, findings and verdicts out.

    from kafka_chaos.verification import verify
    verdict = verify("runs/latest")

Importing this package imports neither PySpark nor PyArrow; the first call does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_chaos.verification.contract import RunDirectoryError
from kafka_chaos.verification.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.session import SparkUnavailableError, spark_session

if TYPE_CHECKING:
    from kafka_chaos.verification.checker import verify
    from kafka_chaos.verification.kafka_log import collect_log

__all__ = [
    "LaneVerdict",
    "Observation",
    "RunDirectoryError",
    "RunVerdict",
    "SparkUnavailableError",
    "collect_log",
    "spark_session",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "verify":
        from kafka_chaos.verification.checker import verify

        return verify
    if name == "collect_log":
        from kafka_chaos.verification.kafka_log import collect_log

        return collect_log
    raise AttributeError(name)
