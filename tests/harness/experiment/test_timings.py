"""The time-outs of lanes: an experiment's own, the harness's, and the defaults of Kafka and librdkafka."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_chaos.contract.recovery import Timings
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.timings import timings_document


def timings(lane: str = "", cluster: str = "", applications: tuple[str, ...] = ()) -> Timings:
    text = f"name: timed\ncluster: {{{cluster}}}\nlanes: [{{lane: orders{lane}}}]\n"
    document = timings_document(parse_experiment(text, "a.yaml"), applications)
    return Timings.from_json(document["lanes"]["orders"])


def test_the_harness_s_own_defaults_go_before_those_of_kafka() -> None:
    found = timings()
    assert (found.session_ms, found.election_ms) == (3_000, 3_000)
    assert (found.lag_ms, found.request_ms, found.reconnect_ms) == (30_000, 30_000, 10_000)
    in_kraft = timings(cluster="metadata_mode: kraft")
    # The quorum misses its leader after 2 s, elects for 0.5 s, and may have to wait for 1 s before it tries again.
    assert (in_kraft.session_ms, in_kraft.election_ms) == (3_000, 3_500)


@pytest.mark.parametrize(
    ("lane", "cluster", "expected"),
    [
        ("", "broker_configs: {zookeeper.session.timeout.ms: 6000}", {"session_ms": 6_000, "election_ms": 6_000}),
        # Whichever broker it is: the longest counts.
        ("", "configs_of: {2: {replica.lag.time.max.ms: 40000}}", {"lag_ms": 40_000}),
        ("", "configs_of: {2: {replica.lag.time.max.ms: 4000}}", {"lag_ms": 30_000}),
        ("", "broker_configs: {replica.lag.time.max.ms: 4000}", {"lag_ms": 4_000}),
        (", producer_configs: {linger.ms: 1500.5}", "", {"linger_ms": 1_501}),
        ("", "", {"linger_ms": None}),
        (", producer_configs: {request.timeout.ms: 1500}", "", {"request_ms": 1_500, "connect_ms": 30_000}),
    ],
)
def test_what_an_experiment_sets_counts(lane: str, cluster: str, expected: dict[str, Any]) -> None:
    found = timings(lane, cluster)
    assert {name: getattr(found, name) for name in expected} == expected


def test_nobody_knows_the_time_outs_of_applications_and_of_other_libraries() -> None:
    for found in (timings(applications=("orders",)), timings(", client: java")):
        assert found.request_ms is found.reconnect_ms is found.fetch_ms is None
        assert found.session_ms == 3_000
