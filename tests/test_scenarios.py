"""The documented behaviours on the model and on real brokers: each scenario is a test."""

from dataclasses import replace

import pytest

from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.conformance.scenario.registry import all_scenarios
from kafka_chaos.conformance.scenario.runner import run_scenario
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState

pytestmark = pytest.mark.cluster

QUICK = "acks-1-recovery"
"""The scenario of `make test`: a leader is killed, and its log truncated. All others are slow."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "scenario_id", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in all_scenarios()]
)
def test_kafka_and_the_model_agree(scenario_id: str, pool: ClusterPool) -> None:
    record = run_scenario(all_scenarios()[scenario_id], pool)
    assert record.verdict == Verdict.CONFORMS, record.reason
    assert record.acts
    assert all(act.steps and act.expectations for act in record.acts)


def without_truncation(config: ClusterConfig, states: frozenset[ClusterState]) -> ClusterModel:
    """The model with a rule broken: a new follower never truncates."""
    careless = replace(config.protocol, truncation=lambda log, watermark, leader_log: len(log))
    return ClusterModel(replace(config, protocol=careless), states=states)


@pytest.mark.slow
def test_a_broken_rule_in_the_model_is_found_and_the_replica_named(
    pool: ClusterPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Brokers that agree with the model do so within seconds; these never will.
    monkeypatch.setattr("kafka_chaos.conformance.scenario.lockstep.SETTLE_TIMEOUT", 12.0)
    record = run_scenario(all_scenarios()["acks-1-recovery"], pool, make_model=without_truncation)
    assert record.verdict == Verdict.VIOLATION
    assert record.reason is not None
    assert "broker 1, log:" in record.reason
    assert record.acts[-1].steps[-1].sentence == "X (broker 1) is restarted."
    differences = record.acts[-1].steps[-1].differences
    assert {(difference.broker, difference.field) for difference in differences} >= {(1, "log")}
