"""A broken rule in the model of groups is found on real brokers, and named."""

from dataclasses import replace

import pytest

from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.conformance.scenario.groups import stage as group_stage
from kafka_chaos.conformance.scenario.registry import all_scenarios
from kafka_chaos.conformance.scenario.runner import run_scenario
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.reference_model.groups.rules import COOPERATIVE_RULES

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_model_that_does_not_fence_members_is_found(pool: ClusterPool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Brokers that agree with the model do so within seconds; these never will.
    monkeypatch.setattr("kafka_chaos.conformance.scenario.lockstep.SETTLE_TIMEOUT", 12.0)
    monkeypatch.setattr(group_stage, "rules_of_group", lambda group: replace(COOPERATIVE_RULES, fences=False))
    record = run_scenario(all_scenarios()["group-zombie-member"], pool)
    assert record.verdict == Verdict.VIOLATION
    assert "Member 1 commits." in (record.reason or "")
    assert "the group, committed: observed (3,), the model allows (2,)" in (record.reason or "")
