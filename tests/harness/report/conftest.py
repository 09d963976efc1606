"""One warm Spark session, and the helpers beside the tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    from kafka_chaos.verification import spark_session

    return spark_session()
