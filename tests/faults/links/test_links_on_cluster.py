"""The kinds that act on single requests, on real brokers: they hit what they name, prove so, and heal."""

import itertools
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.coordination.leader_transfer import LeaderTransfer
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.links.on_frames import Alter, Answer, Delay, Drop, Hold, Repeat, Stale
from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.clusters import EQUIPPED, NEWEST_EQUIPPED, mode_of, needs_links
from tests.faults.fakes import Notes, hit_by
from tests.faults.on_brokers import in_both_modes

pytestmark = [pytest.mark.cluster, needs_links]
BROKER = Target.parse("broker:1")
one_mode = pytest.mark.parametrize("layout", [EQUIPPED], indirect=True, ids=mode_of)
_topics = itertools.count(1)

layout = in_both_modes(EQUIPPED, NEWEST_EQUIPPED)


@pytest.fixture
def topic(admin: ClusterAdmin) -> str:
    """A topic that broker 1 leads."""
    name = f"linked-{next(_topics)}"
    admin.create_topic(name, replica_assignment=[[1, 2, 3]], configs={"min.insync.replicas": 1})
    admin.await_full_isr([name])
    return name


@pytest.fixture
def injector(cluster: Cluster, admin: ClusterAdmin) -> Iterator[Injector]:
    with Injector(ClusterView(cluster, admin), Notes(), seed=1) as running:
        yield running


@pytest.fixture
def producer(cluster: Cluster) -> Callable[..., Producer]:
    def make(**configs: object) -> Producer:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        return Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "log_level": 2, **named})

    return make


class Sending:
    """One record on its way, and when its outcome came."""

    def __init__(self, client: Producer, topic: str) -> None:
        self._client = client
        self._began = time.monotonic()
        self.seconds: float | None = None
        self.error: Any = None
        client.produce(topic, b"record", on_delivery=self._ended)

    def _ended(self, error: Any, _: Any) -> None:
        self.error, self.seconds = error, time.monotonic() - self._began

    def is_over(self, timeout: float = 20.0) -> bool:
        deadline = time.monotonic() + timeout
        while self.seconds is None and time.monotonic() < deadline:
            self._client.poll(0.05)
        return self.seconds is not None


def end_of(admin: ClusterAdmin, topic: str) -> int:
    return admin.end_offsets(topic, [0])[0]


def test_a_request_is_held_until_the_fault_ends_and_no_other(
    cluster: Cluster, admin: ClusterAdmin, injector: Injector, topic: str, producer: Callable[..., Producer]
) -> None:
    other = f"{topic}-other"
    admin.create_topic(other, replica_assignment=[[1, 2, 3]], configs={})
    clients = producer(acks="all"), producer(acks="all")
    assert all(Sending(client, name).is_over() for client, name in zip(clients, (topic, other), strict=True))
    fault = Hold(target=BROKER, api="Produce", lane=topic, duration=10)
    hit_by(fault, ClusterView(cluster, admin))
    held, free = Sending(clients[0], topic), Sending(clients[1], other)
    assert free.is_over(5)
    assert not held.is_over(1.5)
    occurrence = injector.inject(fault)
    proof = fault.proof(ClusterView(cluster, admin), occurrence.nodes)
    assert proof.evidence["broker-1"]["frames"] == 1
    assert "1 Produce request held" in fault.describe_evidence(proof.evidence["broker-1"])
    assert end_of(admin, topic) == 1
    injector.heal(occurrence)
    assert held.is_over(5)
    assert held.error is None
    assert end_of(admin, topic) == 2
    assert not fault.proof(ClusterView(cluster, admin), occurrence.nodes).took_effect


@pytest.mark.slow
def test_the_nth_request_alone_gets_lost_and_is_sent_again(
    cluster: Cluster, admin: ClusterAdmin, injector: Injector, topic: str, producer: Callable[..., Producer]
) -> None:
    client = producer(acks="all", request_timeout_ms=3000, socket_timeout_ms=3500, retry_backoff_ms=50)
    patient = producer(acks="all")
    assert Sending(client, topic).is_over()
    assert Sending(patient, topic).is_over()
    fault = Drop(target=BROKER, api="Produce", lane=topic, nth=2, duration=10)
    hit_by(fault, ClusterView(cluster, admin))
    # What a busy broker answers too late is sent again: the first request is one of a client that waits.
    assert Sending(patient, topic).is_over()
    before = end_of(admin, topic)
    second = Sending(client, topic)
    assert second.is_over()
    assert second.error is None
    assert second.seconds is not None
    assert second.seconds > 3.0, "it was sent again after the client's time-out"
    assert end_of(admin, topic) == before + 1, "what was lost was never written"
    proof = fault.proof(ClusterView(cluster, admin), (cluster.brokers[1],))
    assert proof.evidence["broker-1"]["frames"] == 1
    injector.heal(injector.inject(fault))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "idempotent", "copies"),
    [(Answer, False, 2), (Answer, True, 1), (Repeat, False, 2), (Repeat, True, 1), (Alter, False, 1), (Alter, True, 1)],
)
def test_a_record_is_written_once_for_each_time_that_its_broker_cannot_tell_it_from_a_copy(
    cluster: Cluster,
    admin: ClusterAdmin,
    injector: Injector,
    topic: str,
    producer: Callable[..., Producer],
    kind: type[Answer | Repeat | Alter],
    idempotent: bool,
    copies: int,
) -> None:
    client = producer(acks="all", enable_idempotence=idempotent, retry_backoff_ms=50)
    assert Sending(client, topic).is_over()
    before = end_of(admin, topic)
    fault = kind(target=BROKER, lane=topic, nth=1, duration=10)
    hit_by(fault, ClusterView(cluster, admin))
    for number in (1, 2):
        sending = Sending(client, topic)
        assert sending.is_over()
        assert sending.error is None
        # What comes behind a request is written after its copy.
        assert end_of(admin, topic) >= before + number
    assert end_of(admin, topic) == before + copies + 1
    proof = fault.proof(ClusterView(cluster, admin), (cluster.brokers[1],))
    assert proof.evidence["broker-1"]["frames"] == 1
    injector.heal(injector.inject(fault))


@pytest.mark.slow
def test_clients_are_told_who_led_before_and_the_harness_who_leads(
    cluster: Cluster, admin: ClusterAdmin, injector: Injector, topic: str, producer: Callable[..., Producer]
) -> None:
    client = producer()

    def leader() -> int:
        return client.list_topics(topic, timeout=10).topics[topic].partitions[0].leader

    assert leader() == 1
    stale = injector.inject(Stale(target=Target.parse("all"), duration=60))
    injector.heal(injector.inject(LeaderTransfer(target=BROKER, lane=topic)))
    assert admin.partitions(topic)[0].leader != 1
    assert leader() == 1
    injector.heal(stale)
    assert leader() == admin.partitions(topic)[0].leader


@pytest.mark.slow
@one_mode
def test_a_broker_that_starts_again_has_its_link_and_its_rules(
    cluster: Cluster, admin: ClusterAdmin, injector: Injector, topic: str
) -> None:
    kill = injector.inject(Kill(target=BROKER, duration=1))
    fault = Delay(target=BROKER, api="Metadata", sender="clients", seconds=0.3, duration=60)
    hit_by(fault, ClusterView(cluster, admin))
    injector.heal(kill)
    with cluster.broker_client(1) as client:
        began = time.monotonic()
        client.metadata(topic)
        assert time.monotonic() - began >= 0.3
    injector.heal(injector.inject(fault))
    admin.await_full_isr([topic])


@pytest.mark.slow
@one_mode
def test_nothing_is_left_of_links_whose_harness_was_killed(cluster: Cluster, topic: str) -> None:
    """A broker of its own, since its own links would be in the way."""
    layout = ClusterLayout(brokers=1)
    with Cluster(layout, run_id=f"test-links-{secrets.token_hex(4)}") as plain:
        node = plain.brokers[1]
        script = (
            "import sys, time; from kafka_chaos.faults.links.relay.links import Links;"
            "links = Links({}, (9094,)); links.link_to('broker-1').attach(int(sys.argv[1])); print('there', flush=1);"
            "time.sleep(60)"
        )
        pid = str(node.state()["Pid"])
        harness = subprocess.Popen([sys.executable, "-c", script, pid], stdout=subprocess.PIPE, text=True)
        assert harness.stdout is not None
        assert harness.stdout.readline() == "there\n"
        assert "REDIRECT --to-ports" in node.must_execute("iptables-save", "-t", "nat")
        os.kill(harness.pid, signal.SIGKILL)
        harness.wait()
        wait_until(
            lambda: "REDIRECT --to-ports" not in node.must_execute("iptables-save", "-t", "nat"),
            "the rules to be gone",
            timeout=10,
        )
        assert "REJECT" not in node.must_execute("iptables-save", "-t", "filter")
        plain.admin().await_brokers(1)
