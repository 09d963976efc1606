"""Compose files in the forms of Apache (the guide's), Bitnami and Confluent: started by Compose, broken, and judged.

The broker image stands in for theirs, under their names, without iptables. Compose is the real one: `docker-compose`
of Debian, or the plugin of the Docker command.
"""

import json
import re
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from kafka_chaos.contract.command.journal import journaled_runs
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.containers.cleanup import remove_run
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.containers.labels import run_labels
from tests.harness.leftovers import left_of
from tests.test_docs import DOCS, blocks

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FILES = Path(__file__).parent / "compose"
APACHE, PROBE = blocks(DOCS / "guides" / "existing-cluster.md", "yaml")[-2:]
"""The Compose file of the guide, and the experiment beside it."""
TAG = "kafka-chaos-test"
"""The tag of the images, which no image of theirs has."""
FORMS = {
    "apache": ("4.3.1", ["apache/kafka"]),
    "bitnami": ("3.9.1", ["bitnami/kafka"]),
    "confluent": ("3.9.1", ["confluentinc/cp-kafka", "confluentinc/cp-zookeeper"]),
}


@pytest.fixture(params=FORMS)
def started(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Path]]:
    """The version and the Compose file of a cluster that runs; all that it is made of has the labels of a run."""
    version, repositories = FORMS[request.param]
    run_id = f"test-compose-{secrets.token_hex(4)}"
    compose = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    environment = {"KAFKA_TAG": TAG, "NAMES": run_id, "COMPOSE_COMPATIBILITY": "true"}
    for name, value in {**environment, "KAFKA_CHAOS_STATE": str(tmp_path / "state")}.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / run_id / "docker-compose.yml"
    file.parent.mkdir()
    file.write_text(APACHE if request.param == "apache" else (FILES / f"{request.param}.yml").read_text())
    written = YAML(typ="safe").load(file)
    labels = {"labels": run_labels(run_id, keep=False)}
    override = {kind: dict.fromkeys(written.get(kind, ()), labels) for kind in ("services", "volumes")}
    (tmp_path / "labels.yml").write_text(json.dumps({**override, "networks": {"default": labels}}))
    client = docker_client()
    image, _ = client.images.build(path=str(FILES), buildargs={"BROKER_IMAGE": ensure_image(version)}, rm=True)
    for repository in repositories:
        image.tag(repository, TAG)
    try:
        command = [*compose, "-f", str(file), "-f", str(tmp_path / "labels.yml"), "up", "-d"]
        subprocess.run(command, check=True, timeout=120)
        yield version, file
    finally:
        remove_run(client, run_id)
        for repository in repositories:
            client.images.remove(f"{repository}:{TAG}")
    assert left_of(run_id) == []


def test_a_compose_file_is_broken_as_it_is_and_judged(started: tuple[str, Path], tmp_path: Path) -> None:
    version, file = started
    ensure_image()
    nodes = tmp_path / "nodes.yaml"
    said = CliRunner().invoke(cli, ["nodes", "compose", str(file), "--out", str(nodes)], catch_exceptions=False).output
    command = shlex.split(re.findall("kafka-chaos (run .*)", said)[0])
    cluster = re.findall("cluster: .*(?=})", said)[0]
    experiment = tmp_path / "probe.yaml"
    experiment.write_text(re.sub("cluster: .*", f"{cluster}, kafka_version: {version}}}", PROBE))
    admin = ClusterAdmin(command[command.index("--attach") + 1])
    admin.await_brokers(3, timeout=90)
    replicas = [sorted(admin.live_brokers() or ())] * 6
    admin.create_topic("kafka-chaos-probe", replica_assignment=replicas, configs={"min.insync.replicas": 2})
    admin.await_full_isr(["kafka-chaos-probe"])

    arguments = [str(experiment) if word == "EXPERIMENT" else word for word in command]
    done = CliRunner().invoke(cli, [*arguments, "--engine", "duckdb", "--out", str(tmp_path / "runs")])

    assert done.exit_code == 0, (done.exception, done.output)
    events = (tmp_path / "runs" / "latest" / "events.jsonl").read_text()
    assert events.count('"fault_proven"') == events.count('"fault_healed"') == 4, events
    assert list(journaled_runs("attached")) == []
    # No command is shown to those who read the run directory.
    for path in (tmp_path / "runs" / "latest").rglob("*"):
        assert path.is_dir() or b"docker kill" not in path.read_bytes(), path
    names = command[command.index("--allow-faults") + 1].split(",")
    assert {docker_client().containers.get(name).status for name in names} == {"running"}
    assert docker_client().containers.list(all=True, filters={"label": "kafka-chaos.role=network"}) == []
