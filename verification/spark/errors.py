"""The one error of the packages that need Spark."""

from __future__ import annotations

from kafka_chaos.contract.errors import EnvironmentFailure


class SparkUnavailableError(EnvironmentFailure):
    """No Spark session is possible here; the message says what to do."""
