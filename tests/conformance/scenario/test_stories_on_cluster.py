"""Twenty stories of different kinds, as the model tells them tonight, on brokers."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.conformance.scenario.registry import scenarios_in
from kafka_chaos.conformance.scenario.runner import run_scenario
from kafka_chaos.contract.anomalies import Verdict
from tests.reference_model.stories.standard_stories import playable, varied

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", varied(20))
def test_brokers_take_the_steps_of_a_story(name: str, pool: ClusterPool, tmp_path: Path) -> None:
    file = tmp_path / "story.yaml"
    YAML().dump(playable()[name], file)
    (scenario,) = scenarios_in(file)
    record = run_scenario(scenario, pool)
    assert record.verdict == Verdict.CONFORMS, record.reason
    assert any("The log is the story's" in one.text and one.holds for act in record.acts for one in act.expectations)
