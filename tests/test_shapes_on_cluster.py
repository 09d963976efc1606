"""Experiments of unusual load run and conform on brokers: `experiments/shapes`."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.run.runner import run_experiment

SHAPES = sorted((Path(__file__).parents[1] / "experiments/shapes").glob("*.yaml"))

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_a_load_of_any_shape_conforms(tmp_path: Path, path: Path) -> None:
    result = run_experiment(experiment_of(YAML(typ="safe").load(path), path.name), root=tmp_path)
    assert {lane.lane: lane.reasons for lane in result.verdict.lanes if lane.verdict is not Verdict.CONFORMS} == {}
    assert all(lane.acknowledged for lane in result.verdict.lanes)
