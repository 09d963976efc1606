"""The guide's file of nodes for Strimzi's pods, played with a stand-in for kubectl: there is no Kubernetes here.

The cluster is one that plain `docker` commands start, with properties of its own.
"""

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.attached.nodes_file import load_allowed
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.containers.cleanup import remove_run
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.containers.labels import run_labels
from kafka_chaos.harness.cluster.containers.network import create_network, free_ports, node_addresses
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.attach import ClusterAccess, run_attached
from tests.harness.leftovers import left_of
from tests.test_docs import DOCS, blocks

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

IDS = (1, 2, 3)
JAVA = "java -Xmx256m -cp '/opt/kafka/jars/*'"
BROKER = f"exec {JAVA} kafka.Kafka /server.properties"
EXPERIMENT = """\
name: staging
cluster: {kafka_version: 4.3.1, metadata_mode: kraft}
workload: {rate: 200, duration: 34}
lanes:
  - {lane: safe, acks: all, min_insync_replicas: 2, idempotence: true}
  - {lane: quick, acks: "1"}
schedule:
  - {fault: kill, target: leader(safe), at: 2, duration: 4}
  - {fault: pause, target: leader(quick), at: 18, duration: 3}
  - {fault: isolate, target: "broker:3", at: 26, duration: 4}
"""


def docker(*arguments: str) -> str:
    """The output of a `docker` command."""
    return subprocess.run(
        ["docker", *arguments], check=True, capture_output=True, text=True, timeout=120
    ).stdout.strip()


@dataclass
class Scripted:
    """A cluster of three brokers that plain `docker` commands start."""

    run_id: str = field(default_factory=lambda: f"test-attached-{secrets.token_hex(4)}")
    ports: list[int] = field(default_factory=lambda: free_ports(3))

    def name(self, number: int) -> str:
        return f"{self.run_id}-{number}"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self, folder: Path) -> None:
        labels = run_labels(self.run_id, keep=False)
        self.network = create_network(docker_client(), self.run_id, labels)
        self.addresses = node_addresses(self.network, 3)
        said = [option for key, value in labels.items() for option in ("--label", f"{key}={value}")]
        # The first process is not the JVM, as in pods: signals from inside reach it.
        common = ["create", "--init", "--network", self.run_id, "--cap-add", "NET_ADMIN", *said]
        format_it = f"{JAVA} kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c /server.properties"
        begin = [ensure_image("4.3.1"), "sh", "-c", f"{format_it} --ignore-formatted && {BROKER}"]
        for number, address, port in zip(IDS, self.addresses, self.ports, strict=True):
            properties = folder / f"{number}.properties"
            properties.write_text(self._properties(number, address, port))
            publish = ["-p", f"127.0.0.1:{port}:9094"]
            docker(*common, *publish, "--ip", address, "--name", self.name(number), *begin)
            docker("cp", str(properties), f"{self.name(number)}:/server.properties")
            docker("start", self.name(number))

    def _properties(self, number: int, address: str, port: int) -> str:
        voters = ",".join(f"{one}@{ip}:9093" for one, ip in zip(IDS, self.addresses, strict=True))
        lines = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "/var/lib/kafka",
            "listeners": "INSIDE://:9092,CLIENT://:9094,CONTROLLER://:9093",
            "advertised.listeners": f"INSIDE://{address}:9092,CLIENT://127.0.0.1:{port}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "offsets.topic.replication.factor": "3",
            "auto.create.topics.enable": "false",
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setenv("KAFKA_CHAOS_STATE", str(tmp_path / "state"))
    cluster = Scripted()
    try:
        cluster.start(tmp_path)
        admin = ClusterAdmin(cluster.bootstrap_servers)
        admin.await_brokers(3, timeout=90)
        for topic, minimum in (("safe", 2), ("quick", 1)):
            admin.create_topic(topic, replica_assignment=[[1, 2, 3]], configs={"min.insync.replicas": minimum})
        admin.await_full_isr(["safe", "quick"])
        yield cluster
    finally:
        remove_run(docker_client(), cluster.run_id)
    assert left_of(cluster.run_id) == []


def test_pods_are_killed_paused_and_isolated_as_the_guide_says(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [scripted.name(number) for number in IDS]
    for name in names:
        docker("update", "--restart", "always", name)
    pods = tmp_path / "pods.json"
    pods.write_text(json.dumps([{"metadata": {"name": name}} for name in names]))
    stand_in = Path(__file__).parent / "kubernetes"
    values = {"POD_SET": str(pods), "HOME": str(tmp_path), "PATH": f"{stand_in}{os.pathsep}{os.environ['PATH']}"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    (written,) = (text for text in blocks(DOCS / "guides" / "kubernetes.md", "yaml") if "commands:" in text)
    nodes = YAML(typ="safe").load(written)
    nodes["brokers"] = {number: {"name": scripted.name(number)} for number in IDS}
    YAML().dump(nodes, tmp_path / "nodes.yaml")
    file, allowed = load_allowed(tmp_path / "nodes.yaml", ",".join(names))

    attached = ClusterAccess(scripted.bootstrap_servers, {}, file, allowed)
    result = run_attached(
        parse_experiment(EXPERIMENT, "a.yaml"), attached, root=tmp_path / "runs", engine=Engine.DUCKDB
    )

    events = (result.path / "events.jsonl").read_text()
    assert result.verdict.verdict is Verdict.CONFORMS, ([lane.reasons for lane in result.verdict.lanes], events)
    assert events.count('"fault_proven"') == events.count('"fault_healed"') == 3, events
    assert sorted(pod["metadata"]["name"] for pod in json.loads(pods.read_text())) == names
