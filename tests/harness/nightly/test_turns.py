"""Nightly runs on versions that turn: each supported one comes, and experiments that name a cluster keep it."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.cluster.containers.versions import VERSIONS
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.nightly.command import DEFAULT_EXPERIMENTS
from kafka_chaos.harness.nightly.turns import Turn, of_day

DAY = date(2026, 11, 22)


def test_every_supported_cluster_has_its_day() -> None:
    month = {of_day(DAY + timedelta(days=day)) for day in range(31)}
    assert {(turn.kafka_version, turn.metadata_mode) for turn in month} == {
        (one.number, mode) for one in VERSIONS.values() if one.has_idempotence for mode in one.modes
    }


def test_a_cluster_may_be_named() -> None:
    assert Turn.parse("4.2.0/kraft", DAY) == Turn("4.2.0", "kraft")
    assert Turn.parse("turn", DAY) == of_day(DAY)


@pytest.mark.parametrize("text", ["4.2.0", "4.2.0/raft", "4.2.0/zookeeper", "9.9.9/kraft"])
def test_what_is_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(UsageFailure):
        Turn.parse(text, DAY)


@pytest.mark.parametrize("day", range(31))
def test_the_acks_matrix_is_valid_on_every_turn(day: int) -> None:
    turn = of_day(DAY + timedelta(days=day))
    experiment = turn.load(DEFAULT_EXPERIMENTS / "kill.yaml", 1)
    assert experiment.cluster.kafka_version == turn.kafka_version
    assert experiment.cluster.metadata_mode == turn.metadata_mode


def test_an_experiment_that_names_its_cluster_keeps_it() -> None:
    named = DEFAULT_EXPERIMENTS / "kraft-3.9.1.yaml"
    assert Turn("4.2.0", "kraft").load(named, 1).cluster == load_experiment(named).cluster
