"""Lanes whose promise depends on the version, in docs/versions.md: as brokers showed them and as the model has them."""

import json
from collections.abc import Iterator
from itertools import product

import pytest
import version_differences as benchmark

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model import predict_cached
from kafka_chaos.reference_model.compare import Cluster
from tests.night import a_third_by_day

ROWS = json.loads(benchmark.RESULTS.read_text())
PRODUCERS = {"acks0": {"acks": "0"}, "acks1": {"acks": "1"}, "all": {}, "all-idempotent": {"idempotence": True}}


def lanes(name: str) -> Iterator[tuple[str, Lane]]:
    """Each cluster with each lane of an experiment."""
    for cluster in benchmark.CLUSTERS:
        for _, _, lane in benchmark.experiment(name, cluster).lanes:
            yield cluster, lane


@pytest.mark.parametrize("name", a_third_by_day(benchmark.EXPERIMENTS))
@pytest.mark.parametrize("replicas", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_statuses_are_those_of_the_model(name: str, replicas: int) -> None:
    recorded = {row["cluster"]: row["lanes"] for row in ROWS if row["experiment"] == name}
    for cluster, lane in lanes(name):
        if cluster in recorded and lane.replication_factor == replicas and lane.transactional is None:
            shown = recorded[cluster][lane.lane]
            assert shown.keys() <= set(Anomaly)
            found = {anomaly: Status(shown.get(anomaly, benchmark.NOTHING)[0]) for anomaly in Anomaly}
            assert {anomaly: predict_cached(lane).status(anomaly) for anomaly in Anomaly} == found, (cluster, lane)


@pytest.mark.parametrize("fault", a_third_by_day(["kill", "stop", "partition"]))
def test_without_unclean_election_only_a_loss_of_power_makes_a_difference(fault: str) -> None:
    for settings, minimum in product(PRODUCERS.values(), (1, 2)):
        lane = Lane(lane="asked", replication_factor=2, min_insync_replicas=minimum, faults=(fault,), **settings)
        clusters = (Cluster.parse(cluster) for cluster in benchmark.CLUSTERS)
        answers = [predict_cached(cluster.place(lane)) for cluster in clusters]
        assert all(len({answer.status(anomaly) for answer in answers}) == 1 for anomaly in Anomaly)
