"""Every configuration key is classified once, in every supported version; what is not known is never harmless."""

import ctypes
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import confluent_kafka
import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane import configuration
from kafka_chaos.contract.lane.families import ALL_ANOMALIES
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.harness.cluster.configuration.keys import AUTHORIZER_KEYS, known_keys
from kafka_chaos.harness.cluster.containers.versions import VERSIONS


@cache
def of_librdkafka(folder: Path) -> Mapping[str, frozenset[str]]:
    """The properties of producers and consumers that the library in use lists."""
    (library,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*")
    libc, rdkafka = ctypes.CDLL(None), ctypes.CDLL(str(library))
    libc.fopen.restype = ctypes.c_void_p
    listed = folder / "properties"
    file = ctypes.c_void_p(libc.fopen(str(listed).encode(), b"w"))
    rdkafka.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    rows = re.findall(r"^(\S+) +\| +([PC*]) +\|", listed.read_text(), re.MULTILINE)
    return {
        kind: frozenset(name for name, scope in rows if scope in ("*", kind[0].upper()))
        for kind in ("producer", "consumer")
    }


@cache
def of_java_client() -> Mapping[str, frozenset[str]]:
    """The keys of producers and consumers that Kafka's own client has in an old version, in its default and in 4.3."""
    lines = Path(__file__).with_name("java_client_keys.txt").read_text().splitlines()
    keys = [line.split() for line in lines if not line.startswith("#")]
    return {one: frozenset(key for kind, key in keys if kind == one) for one in ("producer", "consumer")}


@pytest.mark.parametrize("version", list(VERSIONS))
@pytest.mark.parametrize("kind", ["broker", "topic"])
def test_every_key_of_every_version_is_classified_once(kind: str, version: str) -> None:
    keys = known_keys(kind, version)
    assert len(keys) > 20
    assert [key for key in keys if len(list(configuration.classifications(kind, key))) != 1] == []


@pytest.mark.parametrize("kind", ["producer", "consumer"])
@pytest.mark.parametrize("library", ["librdkafka", "java"])
def test_every_key_of_a_client_is_classified_once(library: str, kind: str, tmp_path: Path) -> None:
    of_library, least = (of_librdkafka(tmp_path), 130) if library == "librdkafka" else (of_java_client(), 100)
    keys = of_library[kind]
    assert len(keys) > least
    assert [key for key in keys if len(list(configuration.classifications(kind, key))) != 1] == []


def test_nothing_is_classified_that_no_version_has(tmp_path: Path) -> None:
    """A misspelt name would leave the right one to a pattern, or to nobody."""
    clients = {kind: keys | of_java_client()[kind] for kind, keys in of_librdkafka(tmp_path).items()}
    known = {kind: frozenset().union(*(known_keys(kind, one) for one in VERSIONS)) for kind in ("broker", "topic")}
    known["broker"] |= AUTHORIZER_KEYS | {"listener.name.client.ssl.keystore.type"}
    known |= clients | {"client": clients["producer"] & clients["consumer"]}
    for group in configuration._TABLE["group"]:
        assert group["status"] in (configuration.MODELLED, configuration.NEUTRAL, configuration.UNMODELLED)
        assert group["why"]
        assert (group["status"] == configuration.UNMODELLED) == bool(group.get("touches")), group
        assert group.keys() <= {"status", "why", "touches", "harmless", "client", *configuration.KINDS}
        for kind, names in group.items():
            for name in names if kind in known else ():
                pattern = re.compile(re.escape(name).replace(r"\*", ".*"))
                assert any(pattern.fullmatch(key) for key in known[kind]), (kind, name)


@pytest.mark.parametrize(
    ("kind", "key", "harmless", "harmful"),
    [
        ("broker", "offsets.retention.minutes", "10080", 59),
        ("broker", "replica.selector.class", "", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
        ("broker", "inter.broker.protocol.version", "3.5-IV2", "0.11.0-IV1"),
        ("broker", "connections.max.idle.ms", 0, 5000),
        ("broker", "transaction.two.phase.commit.enable", False, True),
        ("topic", "message.format.version", "2.8-IV1", "no version"),
        ("consumer", "auto.offset.reset", "earliest", "latest"),
        ("producer", "queuing.strategy", "fifo", "lifo"),
        ("producer", "socket.max.fails", 1, 0),
        ("producer", "internal.auto.downgrade.txn.commit", False, True),
        ("consumer", "internal.leave.group.on.close", True, False),
        ("broker", "group.initial.rebalance.delay.ms", 3000, 60000),
        ("broker", "quota.producer.default", 9223372036854775807, 1024),
        ("topic", "leader.replication.throttled.replicas", "none", "*"),
    ],
)
def test_values_that_do_no_harm_are_told_from_others(kind: str, key: str, harmless: object, harmful: object) -> None:
    assert configuration.classify(kind, key).status == configuration.UNMODELLED
    assert list(configuration.risky_keys(kind, {key: harmless}, ALL_ANOMALIES)) == []
    ((found, message),) = configuration.risky_keys(kind, {key: harmful}, ALL_ANOMALIES)
    assert found == key
    assert f"assume: [{key}]" in message


def test_a_key_that_touches_nothing_that_is_looked_for_is_allowed() -> None:
    configs = {"offsets.retention.minutes": 1}
    assert list(configuration.risky_keys("broker", configs, Anomaly)) == []
    assert [key for key, _ in configuration.risky_keys("broker", configs, GroupAnomaly)] == list(configs)


def test_a_key_that_nobody_classified_touches_everything() -> None:
    ((_, message),) = configuration.risky_keys("producer", {"of.another.client": 1}, Anomaly)
    assert "then no anomaly will be judged" in message
    assert configuration.unjudged_by("of.another.client").keys() == set(ALL_ANOMALIES)


def test_what_is_assumed_names_its_anomalies_with_the_reason() -> None:
    assert configuration.unjudged_by("linger.ms") == {}
    assert set(configuration.unjudged_by("queuing.strategy")) == {Anomaly.REORDERED}
    assert "strategy is assumed to do no harm" in configuration.unjudged_by("queuing.strategy")[Anomaly.REORDERED]
