"""The nodes of Compose files. What is refused, with file and line: tests/harness/cli/test_bad_inputs.py."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.attached.compose import nodes_file_text
from kafka_chaos.harness.attached.nodes_file import NodesFile, load_nodes
from kafka_chaos.harness.cli.main import cli

FILES = Path(__file__).parent / "compose"
KAFKA = "{image: apache/kafka, volumes: [d:/d], environment: {KAFKA_NODE_ID: 1, KAFKA_PROCESS_ROLES: broker}}"
HOST = {"KAFKA_NODE_ID": 1, "KAFKA_PROCESS_ROLES": "broker", "KAFKA_ADVERTISED_LISTENERS": "A://10.0.0.1:9092"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the Compose file; the environment names no project."""
    for name in ("COMPOSE_PROJECT_NAME", "COMPOSE_COMPATIBILITY", "KAFKA_TAG"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "Stag.ing"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def nodes_of(text: str, project: str | None = None) -> tuple[NodesFile, list[str]]:
    """The nodes of a Compose file, and what stands against a proof."""
    Path("docker-compose.yml").write_text(text)
    written = Path("nodes.yaml")
    written.write_text(nodes_file_text(Path("docker-compose.yml"), written, project))
    against = written.read_text().partition("# What stands against")[2].partition("\ncommands:")[0]
    return load_nodes(written), [line.removeprefix("# - ") for line in against.splitlines()[1:]]


def service(**keys: Any) -> str:
    """A Compose file whose service `kafka` has these keys."""
    keys = {"environment": ["KAFKA_CFG_NODE_ID=1", "KAFKA_CFG_PROCESS_ROLES=broker"], "volumes": ["d:/d"], **keys}
    return f"services: {{kafka: {keys}}}"


def test_bitnami_s_lists_ids_from_0_and_a_controller_of_its_own() -> None:
    text = nodes_file_text(FILES / "bitnami.yml", Path("nodes.yaml"), "Stage_1")
    assert '  0: {name: "stage_1-kafka0-1", address: "stage_1-kafka0-1"}' in text
    assert 'controllers:\n  10: {name: "stage_1-controller-1", address: "stage_1-controller-1"}' in text
    assert "create-topic" not in text
    assert "cluster: {brokers: 3, controllers: 1, metadata_mode: kraft}" in text
    assert "--attach 127.0.0.1:19192,127.0.0.1:19193,127.0.0.1:19194 --nodes nodes.yaml" in text
    assert "# - controller, kafka0, kafka1, kafka2: has no volume" in text
    assert "# - controller, kafka0, kafka1, kafka2: comes back if it exits by itself (`restart`)" in text
    assert "# - kafka0, kafka1, kafka2: KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR is 1" in text


def test_confluent_s_anchors_names_of_containers_and_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMES", "mine")
    text = nodes_file_text(FILES / "confluent.yml", Path("nodes.yaml"))
    assert "--allow-faults mine-broker1,mine-broker2,mine-broker3" in text
    assert 'zookeepers:\n  1: {name: "mine-zookeeper", address: "mine-zookeeper"}' in text
    assert "cluster: {brokers: 3, zookeepers: 1, metadata_mode: zookeeper}" in text
    assert "kafka-setup" not in text


def test_a_service_without_roles_is_a_broker_by_its_image() -> None:
    text = f"services: {{kafka: {KAFKA}, other: {{image: 'IMAGE', environment: [KAFKA_BROKER_ID=2]}}}}"
    for image, ids in (("local:5000/our/cp-kafka:7.9@sha256:0", [1, 2]), ("confluentinc/cp-kafka-connect", [1])):
        assert list(nodes_of(text.replace("IMAGE", image))[0].brokers) == ids, image
    tool = text.replace("IMAGE", "apache/kafka").replace("ID=2]", "ID=2], command: kafka-topics --create")
    assert list(nodes_of(tool)[0].brokers) == [1], "it only uses the image"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$X ${X:-other} ${UNSET:-other} ${UNSET-}${EMPTY:-other}${EMPTY-none}", "x x other other"),
        ("${UNSET:-a ${X} b} ${X:+set}${UNSET+set}", "a x b set"),
        ("${OF_FILE}$UNSET $$X $5", "of .env $X $5"),
        ("${EMPTY:?wanted}", None),
        ("${UNSET?wanted}", None),
    ],
)
def test_variables_are_replaced_as_compose_does_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, written: str, value: str | None
) -> None:
    monkeypatch.setenv("X", "x")
    monkeypatch.setenv("EMPTY", "")
    (folder / ".env").write_text("# X=1\nX=of the file\nexport OF_FILE='of .env'\n")
    text = service(container_name=f"<{written}>")
    if value is None:
        with pytest.raises(
            UsageFailure, match=r"yml:1: services\.kafka\.container_name: the variable .* not set: want"
        ):
            nodes_of(text)
    else:
        assert nodes_of(text)[0].names() == [f"<{value}>"]


def test_variables_come_from_files_and_from_the_process_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NODE_ID", "4")
    (folder / "kafka.env").write_text('KAFKA_PROCESS_ROLES="broker"\nKAFKA_NODE_ID=9\n')
    assert list(nodes_of(service(env_file="kafka.env", environment=["KAFKA_NODE_ID"]))[0].brokers) == [4]
    assert list(nodes_of("services: {kafka: {env_file: [{path: kafka.env}]}}")[0].brokers) == [9]


def test_the_project_names_the_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nodes_of(service())[0].names() == ["staging-kafka-1"]
    assert nodes_of(f"name: ours\n{service()}")[0].names() == ["ours-kafka-1"]
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", "theirs")
    assert nodes_of(f"name: ours\n{service()}")[0].names() == ["theirs-kafka-1"]
    monkeypatch.setenv("COMPOSE_COMPATIBILITY", "true")
    assert nodes_of(service(), "given")[0].names() == ["given_kafka_1"]


def test_what_stands_against_a_proof_is_said_by_service() -> None:
    # The replicas of a topic do not matter where there is one broker.
    alone = {**HOST, "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": 1}
    assert nodes_of(service(environment=alone, restart="no"))[1] == []
    for address, objection in (
        ("A://kafka:9092", "kafka: advertises no address to this machine"),
        ("A://localhost:9092,B://a.example:9093", "kafka: advertises several addresses"),
    ):
        assert objection in nodes_of(service(environment={**HOST, "KAFKA_ADVERTISED_LISTENERS": address}))[1][0]
    file, against = nodes_of(service(environment=HOST, network_mode="host"))
    assert "kafka: has no network of its own (`network_mode`)" in against[0]
    assert (file.commands.isolate, file.commands.cut, file.commands.mend) == (None, None, None), "of the machine itself"


@pytest.mark.parametrize("keys", [{"deploy": {"replicas": 3}}, {"scale": 3}, {"environment": []}])
def test_a_broker_without_an_id_of_its_own_is_left_out(keys: dict[str, Any]) -> None:
    other = service(image="apache/kafka", **keys).partition("kafka: ")[2]
    file, against = nodes_of(f"services: {{many: {other[:-1]}, zero: {KAFKA.replace('ID: 1', 'ID: 0')}}}")
    assert file.names() == ["staging-zero-1"]
    assert against[0].startswith("many: no id of its own in its variables, so it is left out")


def test_the_command_says_how_to_run_and_replaces_no_file() -> None:
    Path("docker-compose.yml").write_text(service())
    command = ["nodes", "compose", "docker-compose.yml", "--project", "ours", "--out", "mine.yaml"]
    said = CliRunner().invoke(cli, command, catch_exceptions=False).output
    assert (
        "kafka-chaos run EXPERIMENT --attach HOST:PORT --nodes mine.yaml --allow-faults ours-kafka-1 --engine duckdb\n"
        in said
    )
    assert "- kafka: advertises no address to this machine" in said
    before = Path("mine.yaml").read_text()
    assert "mine.yaml: the file exists already: remove it" in str(CliRunner().invoke(cli, command).exception)
    assert Path("mine.yaml").read_text() == before
