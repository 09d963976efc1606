"""Experiments whose faults move clocks: the cluster they get, and what is refused."""

from __future__ import annotations

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.experiment.file import parse_experiment


def experiment(fault: str, *, lane: str = "", cluster: str = "") -> str:
    return f"""
name: clocks
cluster: {{{cluster}}}
lanes: [{{lane: orders{lane}}}]
schedule: [{{{fault}, target: broker:1, at: 1, duration: 5}}]
"""


def test_only_a_fault_of_clocks_gets_clocks_that_can_be_moved() -> None:
    assert parse_experiment(experiment("fault: clock-step"), "clocks.yaml").layout.clocks
    assert not parse_experiment(experiment("fault: kill"), "clocks.yaml").layout.clocks


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            experiment("fault: clock-step, seconds: -60", lane=", topic_configs: {retention.ms: 60000}"),
            r"schedule\[0\].seconds: 60 s is past the retention.ms of lane orders, 60000: brokers would delete",
        ),
        (
            experiment("fault: clock-drift, percent: 50", cluster="broker_configs: {log.retention.ms: 2000}"),
            r"schedule\[0\].percent: 2.5 s is past the retention.ms of lane orders, 2000",
        ),
        (
            experiment("fault: clock-step", lane=", transactional: {timeout_ms: 10000}"),
            r"seconds: 60 s is past the timeout_ms of lane orders, 10000: its coordinator would abort",
        ),
    ],
)
def test_clocks_that_would_delete_or_abort_are_refused(given: str, message: str) -> None:
    with pytest.raises(UsageFailure, match=message):
        parse_experiment(given, "clocks.yaml")


def test_clocks_within_these_limits_are_fine() -> None:
    lane = ", topic_configs: {retention.ms: 60001}, transactional: {timeout_ms: 5001}"
    assert parse_experiment(experiment("fault: clock-step, seconds: 5", lane=lane), "clocks.yaml")


@pytest.mark.parametrize(
    ("wanted", "lacking"),
    [
        (ClusterLayout(disk_mib=512), "start it with disk_mib=512"),
        (ClusterLayout(links=True), "start it with links"),
        (ClusterLayout(clocks=True), "start it with clocks"),
    ],
)
def test_a_cluster_that_runs_already_says_what_it_lacks(wanted: ClusterLayout, lacking: str) -> None:
    assert lacking in str(ClusterLayout().lacks(wanted))
    assert wanted.lacks(wanted) is None
    assert wanted.lacks(ClusterLayout()) is None
