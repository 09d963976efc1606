"""One warm Spark session for all tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka_chaos.verification import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session(with_kafka_source=False)
