"""Versions of Kafka: what is known of each, and what that changes in a cluster's properties."""

import runpy
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.metadata import KRAFT, ZOOKEEPER
from kafka_chaos.harness.cluster.cluster import ClusterLayout
from kafka_chaos.harness.cluster.configuration.keys import known_keys
from kafka_chaos.harness.cluster.configuration.server_properties import broker_properties, kraft_properties
from kafka_chaos.harness.cluster.containers.versions import VERSIONS
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.experiment.file import experiment_of

BENCHMARK = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "versions.py")))
OLD, NEW = VERSIONS["0.10.2.2"], VERSIONS["3.9.1"]

BROKER = Node("broker-1", "broker", 1, "", 15_001, "")


def test_versions_are_listed_from_the_newest_to_the_oldest() -> None:
    pairs = pairwise(VERSIONS.values())
    assert all(newer.at_least(older.number) and not older.at_least(newer.number) for newer, older in pairs)


@pytest.mark.parametrize("number", VERSIONS)
def test_a_broker_is_only_given_keys_that_its_version_has(number: str) -> None:
    version = VERSIONS[number]
    if ZOOKEEPER in version.modes:
        text = broker_properties(ClusterLayout(kafka_version=number), BROKER, version, {})
        assert {line.partition("=")[0] for line in text.splitlines()} <= known_keys("broker", number)
    if KRAFT in version.modes:
        layout = ClusterLayout(metadata_mode=KRAFT, kafka_version=number)
        text = kraft_properties(layout, BROKER, version, {})
        assert {line.partition("=")[0] for line in text.splitlines()} <= known_keys("broker", number)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"zookeepers": 2}, "zookeepers: 2 is not valid: expected 1 or 3"),
        ({"configs_of": {4: {}}}, "configs_of: 4 is not a broker"),
        ({"broker_versions": {4: "3.8.1"}}, "broker_versions: 4 is not a broker: expected 1 to 3"),
        ({"broker_versions": {1: "3.8"}}, "version '3.8' of Kafka is not known: expected one of 4.4.0, 4.3.1"),
        ({"broker_versions": {1: "4.3.1"}}, "has no ZooKeeper"),
        ({"metadata_mode": "kraft", "broker_versions": {2: "2.8.2"}}, "can't be run in KRaft mode by kafka-chaos"),
        ({"metadata_mode": "kraft", "kafka_version": "4.3.1", "broker_versions": {2: "3.9.1"}, "elr": True},
         "elr: true is not valid: Kafka 3.9.1 has no"),
        ({"metadata_mode": "kraft", "migration_controllers": 3}, "nowhere to migrate to"),
        ({"tiered_storage": True, "broker_versions": {1: "3.8.1"}}, "expected Kafka 3.9 or later"),
        ({"migration_controllers": 2}, "migration_controllers: 2 is not valid: expected 0, 1 or 3"),
        ({"migration_controllers": 3, "broker_versions": {1: "2.8.2"}}, "supports no KRaft mode of Kafka 2.8.2"),
        ({"migration_controllers": 3, "security": "mtls"}, "not valid with migration_controllers"),
        ({"advertise": "10.0.0.300"}, "advertise: '10.0.0.300' is not valid: expected a host name or an IPv4 address"),
        ({"advertise": "0.0.0.0"}, "advertise: '0.0.0.0' is not valid"),
        ({"advertise": "engine:9092"}, "expected a host name or an IPv4 address, without a port"),
        ({"advertise": "engine", "clocks": True}, "clocks: true is not valid with advertise: disks, links and clocks"),
        ({"migration_controllers": 3, "links": True}, "links: true is not valid with migration_controllers"),
        ({"broker_versions": {2: "2.4.1"}, "security": "mtls"}, "Kafka 2.4.1 reads no certificates in PEM"),
        ({"broker_versions": {2: "2.4.1"}, "broker_configs": {"socket.connection.setup.timeout.ms": 1}},
         "Kafka 2.4.1 has no such key"),
    ],
)  # fmt: skip
def test_a_cluster_that_can_not_be_is_refused(layout: dict[str, object], message: str) -> None:
    with pytest.raises(UsageFailure, match=message):
        ClusterLayout(**layout)  # type: ignore[arg-type]


def test_brokers_of_several_versions_speak_the_oldest_one_s_protocol() -> None:
    mixed = ClusterLayout(broker_versions={2: "0.10.2.2", 3: "2.8.2"})
    assert (mixed.oldest, mixed.version_of(1), mixed.version_of(2)) == (OLD, NEW, OLD)
    assert mixed.protocol_configs == {"inter.broker.protocol.version": "0.10.2", "log.message.format.version": "0.10.2"}
    assert ClusterLayout(broker_versions={2: "3.8.1"}).protocol_configs == {"inter.broker.protocol.version": "3.8"}
    assert ClusterLayout(broker_versions={2: "3.9.1"}).protocol_configs == {}
    assert mixed.described == "1 ZooKeeper and 3 brokers of Kafka 3.9.1 and 0.10.2.2 and 2.8.2"


def test_nodes_of_several_versions_in_kraft_mode_have_the_oldest_one_s_features() -> None:
    mixed = ClusterLayout(metadata_mode=KRAFT, kafka_version="4.3.1", controllers=3, broker_versions={2: "3.9.1"})
    assert (mixed.oldest, mixed.is_mixed, mixed.elects_from_elr) == (NEW, True, False)
    assert mixed.described == "3 controllers and 3 brokers of Kafka 4.3.1 and 3.9.1 (KRaft)"
    # The controllers count, too: no broker runs 3.9.1 here.
    newer = dict.fromkeys((1, 2, 3), "4.3.1")
    assert ClusterLayout(metadata_mode=KRAFT, controllers=1, broker_versions=newer).oldest == NEW
    assert not ClusterLayout(metadata_mode=KRAFT, broker_versions=newer).is_mixed


@pytest.mark.parametrize("cluster", [{"kafka_version": "0.10.2.2"}, {"broker_versions": {3: "0.10.2.2"}}])
def test_an_idempotent_producer_needs_brokers_that_know_it(cluster: dict[str, object]) -> None:
    lanes = [{"lane": "a"}, {"lane": "b", "idempotence": True}]
    with pytest.raises(UsageFailure, match=r"lanes\[1\]\.idempotence: Kafka 0\.10\.2\.2 has no idempotent"):
        experiment_of({"name": "x", "cluster": cluster, "lanes": lanes}, "test")


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("number", VERSIONS)
def test_the_known_keys_are_those_that_the_version_s_classes_list(number: str) -> None:
    for kind in ("broker", "topic"):
        # A key that one line in between does not list counts from its return on.
        assert known_keys(kind, number) <= BENCHMARK.listed_keys(number, kind)
