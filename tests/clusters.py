"""One pool of clusters for a session of tests: a cluster of each layout, started when a test first asks for it.

Guarantee: a test module gets a cluster in which every node runs, nothing is frozen and every disk is whole, whatever
the module before did to it. By day four layouts are all that is needed, at night the one that was asked for longest ago
makes room.
"""

import json
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.faults.links.on_frames import why_no_links
from kafka_chaos.faults.storage.disks import why_no_disks
from kafka_chaos.harness.cluster.broker.client import BrokerUnreachable
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.containers.labels import run_labels
from kafka_chaos.harness.run.shared_cluster import restore

# An admin client keeps asking the controller that it learned of first, and tests end broker 1.
PLAIN = ClusterLayout(controller=3)
"""ZooKeeper and three brokers."""
EQUIPMENT: Any = {"links": True, "disk_mib": 512, "clocks": True, "broker_configs": {"replica.lag.time.max.ms": 4000}}
EQUIPPED = ClusterLayout(controller=3, **EQUIPMENT)
"""The same behind links, with disks of their own and clocks that can be moved."""
IN_KRAFT = ClusterLayout(metadata_mode=KRAFT)
"""Three brokers that are controllers, too."""
NEWEST = ClusterLayout(metadata_mode=KRAFT, kafka_version="4.3.1")
"""The same in the newest version of Kafka, whose image is built at night."""
NEWEST_EQUIPPED = replace(NEWEST, controllers=1, **EQUIPMENT)
needs_links, needs_disks = (
    pytest.mark.skipif(lacks is not None, reason=f"{what}: {lacks}")
    for what, lacks in (("links", why_no_links()), ("storage faults", why_no_disks()))
)
"""For what this machine may not be able to do."""
MOST_AT_ONCE = 4
"""A cluster takes about 1.3 GB."""


def mode_of(layout: ClusterLayout) -> str:
    """The metadata mode, as a name of a test has it."""
    return layout.metadata_mode


class SharedClusters:
    """Running clusters by layout."""

    def __init__(self) -> None:
        self._running: dict[str, Cluster] = {}

    def of(self, layout: ClusterLayout) -> Cluster:
        """The cluster of this layout, whole."""
        key = repr(layout)
        cluster = self._running.pop(key, None)
        if cluster is None:
            while len(self._running) >= MOST_AT_ONCE:
                self._remove(next(iter(self._running)))
            cluster = Cluster(layout, run_id=f"test-{secrets.token_hex(4)}")
            cluster.__enter__()
        self._running[key] = cluster
        restore(cluster)
        numbers = set(cluster.brokers)
        wait_until(
            lambda: cluster.registered_brokers() == numbers,
            "all brokers of a shared cluster to be registered",
            timeout=30,
            seen=lambda: str(cluster.registered_brokers()),
        )
        return cluster

    def close(self) -> None:
        """Remove all of them."""
        with ExitStack() as stack:
            for key in list(self._running):
                stack.callback(self._remove, key)

    def _remove(self, key: str) -> None:
        self._running.pop(key).__exit__(None, None, None)


def produced_in_network(cluster: Cluster, topic: str, configs: Mapping[str, str] | None = None) -> list[int]:
    """The offsets of three records that a producer with these configs has written, in a container of its own that has
    joined the cluster's network."""
    option = "--bootstrap-server" if cluster.spec.at_least("2.5") else "--broker-list"
    producer = f"java -Xmx128m -cp '/opt/kafka/jars/*' org.apache.kafka.tools.VerifiableProducer --topic {topic}"
    command = f"{producer} --max-messages 3 --producer.config /tmp/p {option} {cluster.bootstrap_servers_in_network}"
    lines = [f"{key}={value}".replace("\n", "\\n") for key, value in (configs or {}).items()]
    output: bytes = docker_client().containers.run(
        ensure_image(cluster.spec.kafka_version), ["-c", f'printf %s "$PROPERTIES" >/tmp/p; {command}'],
        entrypoint="sh", environment={"PROPERTIES": "\n".join(lines)}, network=cluster.network,
        labels=run_labels(cluster.run_id, keep=False), remove=True,
    )  # fmt: skip
    # Kafka 4.4 warns there of an option whose new name older versions lack.
    events = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
    return [event["offset"] for event in events if event["name"] == "producer_send_success"]


def await_known(cluster: Cluster, topic: str) -> None:
    """Wait until every broker knows who leads a topic. One that was away until just now may know the topic, and not
    yet that its leader lives."""

    def all_know() -> bool:
        try:
            for broker in cluster.brokers:
                with cluster.broker_client(broker) as client:
                    if client.metadata(topic).leader is None:
                        return False
        except BrokerUnreachable:
            return False
        return True

    wait_until(all_know, f"every broker to know who leads {topic}", timeout=15)
