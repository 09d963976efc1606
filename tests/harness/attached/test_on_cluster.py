"""Faults by commands on a cluster that a script made: by plain `docker` commands, with properties of its own.

With ZooKeeper: the cluster of Confluent's form in `test_compose_on_cluster.py`.
"""

import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.journal import journaled_runs
from kafka_chaos.harness.attached.nodes_file import load_allowed
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.containers.cleanup import remove_run
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.containers.labels import run_labels
from kafka_chaos.harness.cluster.containers.network import create_network, free_ports, node_addresses
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.attach import ClusterAccess, run_attached
from tests.harness.leftovers import left_of

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

IDS = (1, 2, 3)
JAVA = "java -Xmx256m -cp '/opt/kafka/jars/*'"
BROKER = f"exec {JAVA} kafka.Kafka /server.properties"
NODES = """\
commands:
  state: >-
    docker inspect -f
    '{{{{if .State.Paused}}}}frozen{{{{else if .State.Running}}}}running{{{{else}}}}down{{{{end}}}}' $NODE
  kill: docker kill -s KILL $NODE
  stop: docker stop -t 60 $NODE
  start: docker start $NODE
  pause: docker pause $NODE
  thaw: docker unpause $NODE
  isolate: docker network disconnect {network} $NODE
  cut: >-
    for peer in $PEERS; do
    docker exec $NODE iptables -A INPUT -s $peer -j DROP && docker exec $NODE iptables -A OUTPUT -d $peer -j DROP;
    done
  stopped: docker exec $NODE iptables -nvxL | awk '/DROP/ {{ sum += $1 }} END {{ print sum + 0 }}'
  mend: >-
    docker inspect -f '{{{{json .NetworkSettings.Networks}}}}' $NODE | grep -q {network}
    || docker network connect --ip $NODE_ADDRESS {network} $NODE;
    docker exec $NODE iptables -F
brokers:
"""
EXPERIMENT = """\
name: staging
cluster: {kafka_version: 4.3.1, metadata_mode: kraft}
workload: {rate: 200, duration: 34}
lanes:
  - {lane: safe, acks: all, min_insync_replicas: 2, idempotence: true}
  - {lane: quick, acks: "1"}
schedule:
  - {fault: kill, target: leader(safe), at: 2, duration: 4}
  - {fault: pause, target: leader(quick), at: 12, duration: 3}
  - {fault: partition, target: "broker:2", at: 19, duration: 4}
  - {fault: isolate, target: "broker:3", at: 27, duration: 4}
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

    def nodes_file(self, folder: Path) -> Path:
        path = folder / "nodes.yaml"
        entries = zip(IDS, self.addresses, strict=True)
        brokers = "".join(f"  {number}: {{name: {self.name(number)}, address: {ip}}}\n" for number, ip in entries)
        path.write_text(NODES.format(network=self.run_id) + brokers)
        return path


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


def test_faults_by_commands_are_proven_healed_and_judged(scripted: Scripted, tmp_path: Path) -> None:
    names = ",".join(scripted.name(number) for number in IDS)
    file, allowed = load_allowed(scripted.nodes_file(tmp_path), names)

    attached = ClusterAccess(scripted.bootstrap_servers, {}, file, allowed)
    result = run_attached(parse_experiment(EXPERIMENT, "a.yaml"), attached, root=tmp_path / "runs")

    events = (result.path / "events.jsonl").read_text()
    reasons = [reason for lane in result.verdict.lanes for reason in lane.reasons]
    assert result.verdict.verdict is Verdict.CONFORMS, (reasons, events)
    assert events.count('"fault_proven"') == events.count('"fault_healed"') == 4, events
    assert result.verdict.lane("safe").acknowledged > 1000
    assert list(journaled_runs("attached")) == []
    for number in IDS:
        assert docker("inspect", "-f", "{{.State.Status}}", scripted.name(number)) == "running"
    # No command is shown to those who read the run directory.
    for path in result.path.rglob("*"):
        if path.is_file():
            assert b"docker kill" not in path.read_bytes(), path


def test_a_node_that_is_not_named_is_never_broken(scripted: Scripted, tmp_path: Path) -> None:
    experiment = tmp_path / "a.yaml"
    experiment.write_text(EXPERIMENT)
    arguments = ["run", str(experiment), "--attach", scripted.bootstrap_servers, "--out", str(tmp_path / "runs")]
    nodes = ["--nodes", str(scripted.nodes_file(tmp_path)), "--allow-faults", scripted.name(1)]
    refused = CliRunner().invoke(cli, [*arguments, *nodes])
    assert f"leader(safe) may be {scripted.name(2)}, which --allow-faults does not name" in str(refused.exception)
    assert not (tmp_path / "runs").exists()
