"""Clusters whose clients need a password or a certificate: who gets in, who does not, and where no secret appears."""

import contextlib
import json
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import APIError

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.lane.metadata import METADATA_MODES
from kafka_chaos.harness.clients.java_client import java_client_configs, read_client_config
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import BrokerClient, BrokerUnreachable
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.containers import labels
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import scratch
from kafka_chaos.harness.cluster.containers.labels import (
    RUN,
    SecretFolder,
    remove_abandoned_secrets,
    remove_secrets,
    run_labels,
)
from kafka_chaos.harness.cluster.security import MTLS, SASL_SSL, make_certificates
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.attach import ClusterAccess, run_attached
from tests.clusters import produced_in_network
from tests.harness.leftovers import left_of

LANE = "- {lane: orders, topic: probe, replication_factor: 1, acks: all}"
ATTACHED = f"name: secured\nworkload: {{rate: 200, duration: 2}}\nlanes:\n  {LANE}\n"
OWN = """\
name: secured
cluster: {{brokers: 2, security: {mode}, metadata_mode: {metadata}}}
workload: {{rate: 200, duration: 4}}
lanes:
  - {{lane: orders, replication_factor: 2, acks: all}}
schedule:
  - {{fault: kill, target: leader(orders), at: 1, duration: 2}}
"""


def test_secrets_are_readable_by_their_owner_only_and_go_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, other = SecretFolder("run-1"), SecretFolder("run-1-2")
    file = Path(folder.write("client.properties", "sasl.password=x\n"))
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    remove_secrets("run-1")
    assert not folder.path.exists()
    assert other.path.exists(), "another run's"


def test_secrets_of_dead_processes_are_removed_unless_their_cluster_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    alive = SecretFolder("alive")
    alive_owner = labels.current_owner()
    monkeypatch.setattr(labels, "current_owner", lambda: alive_owner.rpartition(":")[0] + ":1")
    kept, dead = SecretFolder("kept"), SecretFolder("dead")
    remove_abandoned_secrets(in_use=["kept"])
    assert alive.path.exists()
    assert kept.path.exists()
    assert not dead.path.exists()


def test_an_answer_that_is_not_kafka_s_is_an_unreachable_broker() -> None:
    alert = bytes.fromhex("15 0303 0002 0250")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(alert)

        listener = threading.Thread(target=answer, daemon=True)
        listener.start()
        with (
            pytest.raises(BrokerUnreachable, match="did not answer ApiVersionsRequest in Kafka's protocol"),
            BrokerClient(f"127.0.0.1:{server.getsockname()[1]}") as client,
        ):
            client.controller()
        listener.join()


@pytest.fixture(scope="module", params=[(mode, metadata) for metadata in METADATA_MODES for mode in (SASL_SSL, MTLS)])
def secured(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One broker with the topic `probe`, in each metadata mode."""
    mode, metadata_mode = request.param
    run_id = f"test-{mode.replace('_', '-')}-{metadata_mode}"
    with Cluster(ClusterLayout(brokers=1, security=mode, metadata_mode=metadata_mode), run_id=run_id) as running:
        running.admin().create_topic("probe", replica_assignment=[[1]], configs={})
        yield running
    assert left_of(run_id) == []
    assert running.client_config_file is not None
    assert not running.client_config_file.parent.exists()


@pytest.fixture(scope="module")
def foreign(secured: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Client configs with a wrong password, or with a certificate that another authority issued."""
    configs = dict(secured.client_configs)
    if "sasl.password" in configs:
        return {**configs, "sasl.password": "not-the-password"}
    pem = tmp_path_factory.mktemp("foreign") / "client.pem"
    with scratch(run_labels(f"{secured.run_id}-foreign", keep=False)) as maker:
        pem.write_bytes(make_certificates(maker)[2])
    return {**configs, "ssl.certificate.location": str(pem), "ssl.key.location": str(pem)}


@pytest.mark.slow
@pytest.mark.cluster
def test_only_clients_with_them_get_in_also_in_containers(secured: Cluster, foreign: dict[str, str]) -> None:
    address = secured.addresses[1]
    # TLS without a password or a certificate of one's own.
    nobody = {"security.protocol": "SSL", "ssl.ca.location": secured.client_configs["ssl.ca.location"]}
    for configs in ({}, nobody, foreign):
        assert ClusterAdmin(address, configs=configs).live_brokers() == frozenset()
        with pytest.raises(ClusterFailure), BrokerClient(address, configs=configs) as client:
            client.controller()
    with pytest.raises(BrokerUnreachable, match="does not take a connection"):
        BrokerClient(address, configs={"security.protocol": "SSL"})
    # In a container on the cluster's network, too.
    offsets = produced_in_network(secured, "probe", java_client_configs(secured.client_configs))
    assert offsets == list(range(offsets[0], offsets[0] + 3))
    assert produced_in_network(secured, "probe", {"max.block.ms": "3000"}) == []


@pytest.mark.slow
@pytest.mark.cluster
def test_a_wrong_password_or_certificate_is_one_line_and_exit_code_3(
    secured: Cluster, foreign: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "attached.yaml").write_text(ATTACHED)
    (tmp_path / "client.properties").write_text("".join(f"{key}={value}\n" for key, value in foreign.items()))
    command = [sys.executable, "-m", "kafka_chaos.harness.cli.main", "run", "attached.yaml"]
    command += ["--attach", secured.bootstrap_servers, "--client-config", "client.properties"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    (line,) = done.stderr.splitlines()
    reason = "uthentication failed" if "sasl.password" in foreign else "SSL"
    assert line.startswith("kafka-chaos: the attached cluster refuses this client: ")
    assert reason in line
    assert line.endswith("check the --client-config")
    assert "not-the-password" not in done.stdout + done.stderr
    assert not (tmp_path / "runs").exists(), "nothing was begun"


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_attach_mode_verifies_topics_behind_it(secured: Cluster, tmp_path: Path) -> None:
    assert secured.client_config_file is not None
    configs = read_client_config(secured.client_config_file)
    assert configs == dict(secured.client_configs)
    cluster = ClusterAccess(secured.bootstrap_servers, configs)
    text = f"{ATTACHED}cluster: {{metadata_mode: {secured.spec.metadata_mode}}}\n"
    result = run_attached(parse_experiment(text, "attached.yaml"), cluster, root=tmp_path)
    assert result.verdict.verdict is Verdict.CONFORMS, result.verdict.lane("orders").reasons
    assert result.verdict.lane("orders").produced > 100
    assert found_in(secrets_of(configs), files_below(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.parametrize("metadata", METADATA_MODES)
@pytest.mark.parametrize("mode", [SASL_SSL, MTLS])
def test_a_run_of_its_own_conforms_and_shows_its_secrets_nowhere(mode: str, metadata: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN.format(mode=mode, metadata=metadata))
    command = [sys.executable, "-m", "kafka_chaos.harness.cli.main", "run", "own.yaml", "--out", "runs"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watcher = Watcher(process.pid, tmp_path / "runs")
    watcher.start()
    try:
        output, _ = process.communicate(timeout=240)
    finally:
        process.kill()
        watcher.stop()
    assert process.returncode == 0, output
    run = (tmp_path / "runs" / "latest").resolve()
    assert json.loads((run / "verdict.json").read_text())["verdict"] == "conforms"
    assert watcher.looks > 3, "the run was watched while it went on"
    assert watcher.shown == []
    assert found_in(watcher.secrets, [("output", output.encode()), *files_below(tmp_path)]) == []
    assert list(Path(tempfile.gettempdir()).glob(f"kafka-chaos.{run.name}.*")) == []
    assert left_of(run.name) == []


class Watcher(threading.Thread):
    """Searches for a run's secrets, during the run, in all command lines and in `docker inspect`."""

    def __init__(self, pid: int, runs: Path) -> None:
        super().__init__(name="watcher", daemon=True)
        self.secrets: set[bytes] = set()
        self.shown: list[str] = []
        self.looks = 0
        self._runs = runs
        self._ended = threading.Event()

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.wait(0.3):
            for run in self._runs.glob("*-secured-*"):
                for file in Path(tempfile.gettempdir()).glob(f"kafka-chaos.{run.name}.*/client.properties"):
                    self.secrets |= secrets_of(read_client_config(file))
                if self.secrets:
                    self.looks += 1
                    self.shown += found_in(self.secrets, [*command_lines(), *inspected(run.name)])


def secrets_of(configs: dict[str, str]) -> set[bytes]:
    """The password, or the lines of the private key."""
    if "sasl.password" in configs:
        return {configs["sasl.password"].encode()}
    key = Path(configs["ssl.key.location"]).read_bytes().partition(b"-----END PRIVATE KEY")[0]
    return {line for line in key.splitlines() if b"-----" not in line}


def found_in(secrets: set[bytes], contents: list[tuple[str, bytes]]) -> list[str]:
    """Names of the contents that hold a secret."""
    assert secrets
    return [name for name, content in contents for secret in secrets if secret in content]


def files_below(folder: Path) -> list[tuple[str, bytes]]:
    return [(str(path), path.read_bytes()) for path in folder.rglob("*") if path.is_file()]


def command_lines() -> list[tuple[str, bytes]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append((str(path), path.read_bytes()))
    return found


def inspected(run_id: str) -> list[tuple[str, bytes]]:
    """Keeps the output of `docker inspect` and `docker logs` for a run's containers, as long as these are there."""
    found = []
    for container in docker_client().containers.list(filters={"label": f"{RUN}={run_id}"}, ignore_removed=True):
        found.append((f"docker inspect {container.name}", json.dumps(container.attrs).encode()))
        with contextlib.suppress(APIError):
            found.append((f"docker logs {container.name}", bytes(container.logs())))
    return found
