"""The model allows all that scenarios expect of brokers, and with a broken rule it does not."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
from negative_controls import TRANSACTIONS_WITHOUT

from kafka_chaos.conformance.scenario.groups import stage as group_stage
from kafka_chaos.conformance.scenario.lockstep import ScenarioViolation
from kafka_chaos.conformance.scenario.record import ScenarioRecord
from kafka_chaos.conformance.scenario.registry import all_scenarios
from kafka_chaos.conformance.scenario.script import play_acts
from kafka_chaos.conformance.scenario.transactions import stage as transactions_stage
from kafka_chaos.reference_model.groups.rules import COOPERATIVE_RULES
from kafka_chaos.reference_model.lockstep import clients as cluster_clients
from kafka_chaos.reference_model.lockstep import controller as cluster_controller
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState
from tests.conformance.scenario.on_model import ModelPlay, ModelPool, player

PlayOnModel = Callable[..., ScenarioRecord]
SCRIPTS = [one.id for one in all_scenarios().values() if one.file.endswith(".yaml")]


@pytest.fixture
def play_on_model(monkeypatch: pytest.MonkeyPatch) -> PlayOnModel:
    return player(monkeypatch)


@pytest.mark.parametrize("scenario_id", SCRIPTS)
def test_what_is_expected_holds_in_the_model(scenario_id: str, play_on_model: PlayOnModel) -> None:
    record = play_on_model(scenario_id)
    assert record.acts
    assert all(act.steps and act.expectations for act in record.acts)


def careless_election(state: ClusterState, config: ClusterConfig, *, excluded: int = 0) -> ClusterState:
    live = [one.broker for one in state.replicas if one.registered and one.broker != excluded]
    return cluster_controller.decide(state, config, live[0], (live[0],)) if live else state


@pytest.mark.parametrize(
    ("scenario_id", "rule", "broken", "expected"),
    [
        ("acks-all-recovery", (cluster_clients, "check_batch"), lambda *_: None, "There is no duplicate"),
        ("unclean-election", (cluster_controller, "elect"), careless_election, "No broker leads"),
        (
            "txn-commit-abort",
            (transactions_stage, "v1_in"),
            lambda version: TRANSACTIONS_WITHOUT["the last stable offset"].rules,
            "The first record is there for read_uncommitted only",
        ),
        (
            "txn-coordinator-failover",
            (transactions_stage, "v1_in"),
            lambda version: TRANSACTIONS_WITHOUT["fencing of coordinators that were replaced"].rules,
            "The late marker is refused",
        ),
        (
            "group-zombie-member",
            (group_stage, "rules_of_group"),
            lambda group: replace(COOPERATIVE_RULES, fences=False),
            "The commit of offset 2 is refused",
        ),
    ],
)
def test_without_a_rule_an_expectation_fails(
    scenario_id: str,
    rule: tuple[ModuleType, str],
    broken: Callable[..., object],
    expected: str,
    play_on_model: PlayOnModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(*rule, broken)
    with pytest.raises(ScenarioViolation, match=expected):
        play_on_model(scenario_id)


def test_what_is_neither_a_step_nor_a_part_is_refused(play_on_model: PlayOnModel) -> None:
    play = ModelPlay(ModelPool(), ScenarioRecord("any", "", ""))
    with pytest.raises(LookupError, match="'kil' is neither a step nor a part"):
        play_acts(play, [{"act": "a typing error", "steps": [{"kil": 1}]}], {})
