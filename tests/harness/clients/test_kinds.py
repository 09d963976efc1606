"""The kinds of clients: how they are named, refused, listed and fetched, without any registry."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, run
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.harness.cli.kinds_command import clients_command
from kafka_chaos.harness.clients import fetching
from kafka_chaos.harness.clients.fetching import ADAPTERS
from kafka_chaos.harness.clients.kinds import KINDS, ChosenClient, fetch_clients, parse_client
from kafka_chaos.harness.experiment.file import experiment_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAFKA_CHAOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("java 3.9.1", "java 3.9.1"), ("java:4.1.1", "java 4.1.1"),
        ("kafka-python 3.0", "kafka-python 3.0"), ("sarama", f"sarama {KINDS['sarama'].version}"),
        ("librdkafka 2.3.0", "librdkafka 2.3.0"), ("librdkafka", "None"),
    ],
)  # fmt: skip
def test_a_client_is_named_with_its_version_or_without(text: str, found: str) -> None:
    assert str(parse_client(text)) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jave 3.9.1", "did you mean java?"),
        ("kafka_python", "did you mean kafka-python or"),
        ("java three", "'java three' is not a client: expected librdkafka, kafka-python,"),
        ("", "'' is not a client"),
    ],
)
def test_an_unknown_client_is_refused_with_the_nearest_names(text: str, message: str) -> None:
    with pytest.raises(UsageFailure) as refused:
        parse_client(text)
    assert message in str(refused.value)


def experiment(**lane: Any) -> str:
    values = {"name": "x", "lanes": [{"lane": "a", **lane}]}
    with pytest.raises(UsageFailure) as refused:
        experiment_of(values, "file")
    return str(refused.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"client": "kafka-jav"}, "lanes[0].client: 'kafka-jav' is not a client"),
        (
            {"client": "aiokafka", "group": {}},
            "lanes[0].group: kafka-chaos can't run aiokafka 0.14.0 as a member of a group: expected librdkafka or a "
            "version of librdkafka, java, franz-go",
        ),
        ({"client": ["./service"], "group": {}},
         "can't run ./service as a member of a group"),
        ({"client": "java", "group": {"commits": "auto"}},
         "lanes[0].group.commits: expected after or before for members of java 3.9.1, got auto"),
        ({"client": "franz-go", "group": {"commits": "auto"}},
         "lanes[0].group.commits: expected after or before for members of franz-go 1.18.0, got auto"),
        ({"client": "sarama", "idempotence": True}, "lanes[0].max_in_flight: expected 1 with idempotence in sarama"),
        ({"client": "franz-go", "idempotence": True, "max_in_flight": 1}, "expected 5 with idempotence in franz-go"),
        ({"client": "sarama", "producer_configs": {"linger.ms": 1}}, "takes no configs from the lane: leave them out"),
    ],
)  # fmt: skip
def test_what_a_client_lacks_is_refused_by_name(keys: dict[str, Any], message: str) -> None:
    assert message in experiment(**keys)


@pytest.mark.parametrize(
    ("client", "cluster", "message"),
    [
        (
            "kafka-python 1.4.7",
            "4.3.1/kraft",
            "expected kafka-python 2.0.2 or later for brokers of 4.0 and later (KIP-896)",
        ),
        ("java 4.1.0", "0.11.0.3/zookeeper", "java 4.1.0 needs brokers of 2.1 or later (KIP-896)"),
    ],
)
def test_a_client_is_refused_whose_protocol_the_brokers_do_not_have(client: str, cluster: str, message: str) -> None:
    version, _, mode = cluster.partition("/")
    values = {"name": "x", "cluster": {"kafka_version": version, "metadata_mode": mode}}
    with pytest.raises(UsageFailure) as refused:
        experiment_of({**values, "lanes": [{"lane": "a", "client": client}]}, "file")
    assert message in str(refused.value)


def test_a_loop_is_of_a_client_that_can_be_one() -> None:
    lanes = [{"lane": "a"}, {"lane": "b", "client": "java", "loop": {"source": "a"}}]
    assert len(experiment_of({"name": "x", "lanes": lanes}, "file").phases[0].lanes) == 2
    lanes[1]["client"] = "kafka-python"
    with pytest.raises(UsageFailure, match=r"lanes\[1\].loop: kafka-chaos can't run kafka-python 3.0.12 as a loop"):
        experiment_of({"name": "x", "lanes": lanes}, "file")


def test_a_client_that_knows_no_security_here_is_refused_on_a_secured_cluster() -> None:
    values: dict[str, Any] = {"name": "x", "cluster": {"security": "mtls"}}
    for client in ("librdkafka", "librdkafka 2.3.0", "java", ["./service"]):
        experiment_of({**values, "lanes": [{"lane": "a", "client": client}]}, "file")
    with pytest.raises(UsageFailure, match=r"lanes\[0\].client: kafka-chaos can't secure connections of sarama"):
        experiment_of({**values, "lanes": [{"lane": "a", "client": "sarama"}]}, "file")


def test_a_client_of_one_s_own_is_a_command() -> None:
    values = {"name": "x", "lanes": [{"lane": "a", "client": ["no-such-service", "-v"]}]}
    lane = experiment_of(values, "file").phases[0].lanes[0]
    assert lane.client == ("no-such-service", "-v")
    for wrong in ([], 3, ["a", 3], {"java": 4}):
        assert "lanes[0].client: expected the name of a client, or a command as a list" in experiment(client=wrong)
    with pytest.raises(EnvironmentFailure, match="no-such-service is missing: install it, or name it with its path"):
        fetch_clients([lane.client], print)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], list[list[str]]]:
    """Lets the package managers end with this exit code and output; returns what was called."""

    def answers(code: int, said: str) -> list[list[str]]:
        called: list[list[str]] = []

        def run(command: list[str], **_: Any) -> CompletedProcess[str]:
            called.append(command)
            asks = ("install", "dependency:copy-dependencies", "dependency:get", "get", "list", "view")
            fails = code if any(word in command for word in asks) else 0
            return CompletedProcess(command, fails, said if fails else "", "")

        monkeypatch.setattr(fetching.subprocess, "run", run)
        monkeypatch.setattr(fetching.shutil, "which", lambda program: program)
        return called

    return answers


NO_VERSION = "there is no such version"


@pytest.mark.parametrize(
    ("client", "said", "message"),
    [
        (
            "kafka-python 9.9.9",
            "ERROR: Could not find a version that satisfies the requirement kafka-python==9.9.9 "
            "(from versions: 2.0.1, 2.0.2, 3.0.11, 3.0.12)\nERROR: No matching distribution found",
            "there is no such version; the newest are 2.0.2, 3.0.11, 3.0.12",
        ),
        ("java 3.9.99", "Could not find artifact org.apache.kafka:kafka-clients:pom:3.9.99 in central", NO_VERSION),
        ("sarama 99.0.0", "not found: github.com/IBM/sarama@v99.0.0: invalid version: unknown revision", NO_VERSION),
        ("kafkajs 99.0.0", "npm error code E404\nnpm error 404 No match found for version 99.0.0", NO_VERSION),
    ],
)
def test_a_version_that_is_not_there_is_refused_when_asked_for_and_when_fetched(
    registry: Callable[[int, str], object], cache: Path, client: str, said: str, message: str
) -> None:
    registry(1, said)
    found = parse_client(client)
    assert isinstance(found, ChosenClient)
    with pytest.raises(UsageFailure, match=f"{client}: {message}"):
        found.why_unconfirmed()
    with pytest.raises(UsageFailure, match=f"{found.version}: {message}"):
        fetch_clients([client], print)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("kind", "version", "program", "said"),
    [
        ("java", "3.9.99", "mvn", "Unknown host repo.maven.apache.org"),
        ("aiokafka", "0.13.99", sys.executable, "ERROR: Could not find a version that satisfies (from versions: none)"),
    ],
)
def test_a_registry_that_does_not_answer_refuses_nothing(
    registry: Callable[[int, str], object], cache: Path, kind: str, version: str, program: str, said: str
) -> None:
    registry(1, said)
    assert ChosenClient(KINDS[kind], version).why_unconfirmed() == f"{program} said: {said}"
    assert ChosenClient(KINDS[kind], KINDS[kind].version).why_unconfirmed() == "", "the usual version is not asked for"
    with pytest.raises(EnvironmentFailure, match=f"{version} could not be fetched"):
        fetch_clients([f"{kind} {version}"], print)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_client_is_fetched_once_and_its_folder_appears_whole(
    registry: Callable[[int, str], list[list[str]]], cache: Path
) -> None:
    called, said = registry(0, ""), list[str]()
    for _ in range(2):
        fetch_clients(["aiokafka 0.14", "aiokafka 0.14", "librdkafka", "kafkajs"], said.append)
    assert said == ["fetching the client aiokafka 0.14", "fetching the client kafkajs 2.2.4"]
    assert [command[-1] for command in called if "install" in command] == ["aiokafka==0.14.*", "kafkajs@2.2.4"]
    folders = sorted((cache / "clients").iterdir())
    assert [folder.name.rpartition("-")[0] for folder in folders] == ["aiokafka-0.14", "kafkajs-2.2.4"]
    assert (folders[1] / "kafkajs.mjs").read_text() == (ADAPTERS / "kafkajs.mjs").read_text()


def test_nothing_is_fetched_if_one_of_the_clients_is_none(registry: Callable[[int, str], list[list[str]]]) -> None:
    called = registry(0, "")
    with pytest.raises(UsageFailure):
        fetch_clients(["aiokafka", "perl"], print)
    assert called == []


FOUND_JARS = next((Path.home() / ".cache/kafka-chaos/clients").glob("java-3.9.1-*/jars"), None)
"""Kafka's client with Eclipse's compiler, where the machine has fetched them."""
MAVEN = """#!/bin/sh
for word; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done
mkdir -p "$to"
%s
"""
PREPARE = """
import pathlib, sys
from kafka_chaos.harness.clients import fetching
fetching.ADAPTERS = pathlib.Path(sys.argv.pop(1))
from kafka_chaos.harness.cli.main import main
main()
"""
CAPTURED: dict[str, Any] = {"capture_output": True, "text": True}
ECJ_SAYS = """#!/bin/sh
echo "1. ERROR in Client.java (at line 2)" >&2
echo "The method undefined() is undefined for the type Client" >&2
exit 255
"""

NEEDS_JARS = [pytest.mark.spark, pytest.mark.skipif(FOUND_JARS is None, reason="the compiler is not fetched")]


@pytest.mark.parametrize("is_real", [False, pytest.param(True, marks=NEEDS_JARS)])
def test_the_command_ends_with_70_and_the_compiler_s_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_real: bool, cache: Path
) -> None:
    broken, programs = tmp_path / "adapters", tmp_path / "bin"
    broken.mkdir()
    programs.mkdir()
    (broken / "Client.java").write_text("class Client {\n    void run() { undefined(); }\n}\n")
    for name in ("Member", "Sharer"):
        (broken / f"{name}.java").write_text(f"class {name} {{}}\n")
    (broken / "java-client.xml").write_text("<project/>\n")
    scripts = {"mvn": MAVEN % (f'cp "{FOUND_JARS}"/*.jar "$to"' if is_real else 'touch "$to/ecj-1.jar"')}
    if not is_real:
        scripts["java"] = ECJ_SAYS
    for name, text in scripts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    done = run(
        [sys.executable, "-c", PREPARE, str(broken), "prepare", "--client", "java:3.9.1"], check=False, **CAPTURED
    )
    assert done.returncode == 70
    assert "Client.java does not compile" in done.stderr
    assert "The method undefined() is undefined for the type Client" in done.stderr
    assert not list((cache / "clients").glob("java-*")), "what is not complete is not there"


def test_a_missing_toolchain_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match=r"mvn is missing: install Maven 3\.6 or later"):
        fetch_clients(["java"], print)


def test_the_list_says_what_each_can_do_and_what_is_lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(clients_command, ["--json"])
    found = {one["client"]: one for one in json.loads(result.output)}
    assert list(found) == list(KINDS)
    assert found["kafkajs"]["lacks"] == [
        f"{program} is missing: install Node 20.15 or later with npm" for program in ("node", "npm")
    ]
    assert found["aiokafka"]["lacks"] == []
    assert [name for name, one in found.items() if one["in_process"]] == ["librdkafka"]
    lines = CliRunner().invoke(clients_command, []).output.splitlines()
    assert lines[0].startswith(f"librdkafka {KINDS['librdkafka'].version}: producer, ")
    assert "mvn is missing: install Maven 3.6 or later; java is missing" in "\n".join(lines)
    assert os.environ["PATH"] == str(tmp_path)
