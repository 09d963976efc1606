"""The time-outs of lanes: an experiment's own, the harness's, and the defaults of Kafka and librdkafka."""

from typing import Any

import pytest

from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly, Timings
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.harness.clients.kinds import KINDS
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.experiment.file import experiment_of, parse_experiment
from kafka_chaos.harness.experiment.lives import LifeSpec
from kafka_chaos.harness.experiment.timings import broker_timeouts, patience_of, timings_document
from kafka_chaos.reference_model.recovery import bounds_of


def timings(lane: str = "", cluster: str = "") -> Timings:
    text = f"name: timed\ncluster: {{{cluster}}}\nlanes: [{{lane: orders{lane}}}]\n"
    document = timings_document(parse_experiment(text, "a.yaml"), ())
    return Timings.from_json(document["lanes"]["orders"])


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        # Session and election 3 s each, lag 45 s, request 60 s, connection 30 s, reconnect 15 s, retry 1 s.
        ("", {"orders": 157.0}),
        (", consumer_configs: {socket.timeout.ms: 10000}", {"orders": 107.0}),
        # Before 3.0 it waits 305 s for the answer to a fetch.
        (", client: kafka-python 2.2.15", {}),
        (", group: {members: 2}", {}),
        (", transactional: {size: 2}", {}),
    ],
)
def test_consumers_are_awaited_for_as_long_as_they_may_stall(lane: str, expected: dict[str, float]) -> None:
    experiment = parse_experiment(f"name: timed\nlanes: [{{lane: orders{lane}}}]\n", "a.yaml")
    assert patience_of(experiment.phases[0].lanes, experiment.cluster.as_layout()) == expected


def test_the_harness_s_own_defaults_go_before_those_of_kafka() -> None:
    found = timings()
    assert (found.session_ms, found.election_ms) == (3_000, 3_000)
    assert (found.lag_ms, found.request_ms, found.reconnect_ms) == (30_000, 30_000, 10_000)
    # A lock-step phase has to be faster than the most impatient leader.
    layout = ClusterLayout(configs_of={2: {"replica.lag.time.max.ms": 4_000}})
    assert broker_timeouts(layout, "replica.lag.time.max.ms") == [30_000, 4_000, 30_000]
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
        (", client: aiokafka, producer_configs: {linger_ms: 5000}", "", {"linger_ms": 5_000}),
        ("", "", {"linger_ms": None}),
        (", producer_configs: {message.timeout.ms: 0}", "", {"delivery_ms": 86_400_000}),  # never
        (", producer_configs: {request.timeout.ms: 1500}", "", {"request_ms": 1_500, "connect_ms": 30_000}),
        # Of both roles, the longest counts.
        (", consumer_configs: {socket.timeout.ms: 90000}", "", {"fetch_ms": 90_000, "request_ms": 30_000}),
        (", producer_configs: {socket.timeout.ms: 70000}, consumer_configs: {socket.timeout.ms: 20000}", "",
         {"fetch_ms": 70_000}),
        # A consumer in Java has one time-out for all requests.
        (", client: java, consumer_configs: {request.timeout.ms: 45000}", "",
         {"fetch_ms": 45_000, "request_ms": 30_000}),
        (", client: java, producer_configs: {request.timeout.ms: 1500}", "", {"request_ms": 1_500, "fetch_ms": 30_000}),
        (", client: kafka-python, producer_configs: {request_timeout_ms: 9000}", "", {"request_ms": 9_000}),
        (", client: java 2.8.2, producer_configs: {retry.backoff.ms: 15000}", "", {"retry_ms": 15_000}),
        (", client: kafka-python", "", {"fetch_ms": 30_000}),
        (", client: kafka-python 2.2.15", "", {"fetch_ms": 305_000}),
        (", client: aiokafka", "", {"request_ms": 60_000, "fetch_ms": 40_000}),
        (", client: librdkafka 2.3.0, producer_configs: {socket.timeout.ms: 4000}", "",
         {"fetch_ms": 4_000, "delivery_ms": None}),
    ],
)  # fmt: skip
def test_what_an_experiment_sets_counts_in_the_words_of_its_client(
    lane: str, cluster: str, expected: dict[str, Any]
) -> None:
    found = timings(lane, cluster)
    assert {name: getattr(found, name) for name in expected} == expected


def test_a_client_s_time_out_that_is_no_number_is_refused() -> None:
    with pytest.raises(LaneError, match=r"request\.timeout\.ms: '5s' is not valid: expected a number of millisec"):
        timings(", client: java, producer_configs: {request.timeout.ms: 5s}")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_client_has_a_bound_for_each_call_and_the_lane_its_own_goes_before_it(kind: str) -> None:
    """`recover_within` is nothing that brokers know of: an ISR is restored when they have restored it."""
    lane = Lane(lane="orders", transactional=Transactional(), group=Group(), idempotence=True)
    derived = bounds_of(lane, timings(f", client: {kind}"), ())
    assert derived.keys() == {*lane.recovery_anomalies}
    own = bounds_of(lane, timings(f", client: {kind}, recover_within: 20"), ())
    for anomaly, bound in own.items():
        if anomaly == RecoveryAnomaly.ISR_NOT_RESTORED:
            assert bound == derived[anomaly]
        else:
            allowed = derived[anomaly].described
            assert bound.described == f"20 s (recover_within 20 s; its time-outs allow {allowed})"
    unknown = bounds_of(lane, timings(", client: [./service], recover_within: 20"), ())
    assert unknown[RecoveryAnomaly.STALLED_PRODUCER].described == "20 s (recover_within 20 s)"


def drawn(seed: int, lane: str = "a", **bounds: Any) -> tuple[LifeSpec, ...]:
    values: dict[str, Any] = {"name": "x", "seed": seed, "workload": {"duration": 20}}
    values["lanes"] = [{"lane": lane, "lives": {"generate": bounds}}]
    return experiment_of(values, "file").phases[0].lanes[0].lives


def test_what_is_drawn_is_within_the_bounds() -> None:
    lives = drawn(1, count=100, first_at=5, lasts=[2, 3], ends=["kill"], returns=None)
    assert len(lives) == 100
    assert all(5 <= life.at < 20 and 2 <= (life.lasts or 0) <= 3 for life in lives)
    assert {(life.count, life.ends, life.returns) for life in lives} == {(1, "kill", None)}
    others = drawn(1, count=100)
    assert {life.ends for life in others} == {"kill", "leave"}
    assert all(0.5 <= (life.returns or 0) <= 4 for life in others)
