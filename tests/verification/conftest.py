"""One warm Spark session for all tests of this folder, and `verified`, by which a test runs on either engine."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification import LaneVerdict, RunVerdict, spark_session
from tests.verification.samples.engines import ENGINES, Verified, verified_by_both, verified_by_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session(rows=0)


@pytest.fixture(params=ENGINES, scope="session")
def verified(request: pytest.FixtureRequest) -> Verified:
    """`verify` by DuckDB beside the oracle; at night also with rows filtered first, and by Spark: all say the same."""
    if request.param == "duckdb":
        return partial(verified_by_duckdb, filtered_too=False)
    return partial(verified_by_both, spark=request.getfixturevalue("spark"))


@pytest.fixture(scope="module")
def run_verdict(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, verified: Verified
) -> RunVerdict:
    """The verdict on the run of all histories that the module has put `TOGETHER`."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.TOGETHER.is_all_forbidden:
            forbid_everything(patch)
        return verified(request.module.TOGETHER.run.write(tmp_path_factory.mktemp("together")))


@pytest.fixture
def lane(request: pytest.FixtureRequest, run_verdict: RunVerdict) -> LaneVerdict:
    """The verdict on a case of `Together.each`."""
    return run_verdict.lane(request.param)


def forbid_everything(patch: pytest.MonkeyPatch) -> None:
    """Every anomaly that a lane can have is forbidden, without a search of the model."""
    forbidden = SimpleNamespace(status=Status.FORBIDDEN, known_defects=())

    def answer(lane: Lane, **_: object) -> SimpleNamespace:
        answers = dict.fromkeys(lane.anomalies, forbidden)
        return SimpleNamespace(anomalies=answers)

    patch.setattr(import_module("kafka_chaos.reference_model.predict.cache"), "predict_cached", answer)


@pytest.fixture
def everything_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_everything(monkeypatch)
