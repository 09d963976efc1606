"""The guide's programs in Java and Go, as written: they speak the protocol, and are under test from pytest."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_chaos.harness.clients.fetching import program_path
from kafka_chaos.harness.clients.kinds import ChosenClient, parse_client
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from tests.conformance.clients.checks import CHECKS, TRANSACTIONS, problems

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAMS = Path(__file__).parents[3] / "docs/guides/own-client"
Build = Callable[[str, Path], list[str]]


def fetched(name: str) -> Path:
    client = parse_client(name)
    assert isinstance(client, ChosenClient)
    return client.fetch()


def in_java(text: str, folder: Path) -> list[str]:
    jars = fetched("java 3.9.1") / "jars"
    (folder / "Example.java").write_text(text)
    (compiler,) = jars.glob("ecj-*.jar")
    command = [program_path("java"), "-jar", str(compiler), "-source", "17", "-target", "17", "-nowarn"]
    path = ":".join(map(str, jars.glob("*.jar")))
    subprocess.run([*command, "-cp", path, "-d", str(folder), str(folder / "Example.java")], check=True)
    return [program_path("java"), "-cp", f"{folder}:{jars}/*", "Example"]


def in_go(text: str, folder: Path) -> list[str]:
    for name in ("go.mod", "go.sum"):
        shutil.copy(fetched("franz-go") / name, folder)
    (folder / "example.go").write_text(text)
    subprocess.run([program_path("go"), "build", "-o", "service", "."], check=True, cwd=folder)
    return [str(folder / "service")]


BUILDS: dict[str, Build] = {"Example.java": in_java, "example.go": in_go}


def built(program: str, folder: Path) -> ChosenClient:
    client = parse_client(BUILDS[program]((PROGRAMS / program).read_text(), folder))
    assert client is not None
    return client


@pytest.mark.parametrize("program", BUILDS)
def test_the_program_speaks_the_protocol(program: str, cluster: Cluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    names = [name for name in CHECKS if name != TRANSACTIONS]
    assert problems(built(program, tmp_path), cluster, admin, tmp_path, names) == dict.fromkeys(names, "")


def test_the_programs_are_under_test_from_pytest(pytester: pytest.Pytester) -> None:
    commands = {}
    for program in BUILDS:
        (folder := pytester.path / program.partition(".")[2]).mkdir()
        commands[program.partition(".")[2]] = list(built(program, folder).command)
    pytester.makepyfile(f"""
        import pytest

        from kafka_chaos import kill, lane, load, pause

        @pytest.mark.kafka_chaos(brokers=3)
        def test_services_keep_what_is_acknowledged(kafka_chaos_cluster, kafka_chaos_run):
            run = kafka_chaos_run(
                lanes=[
                    lane(name, client=command, acks="all", idempotence=True, min_insync_replicas=2)
                    for name, command in {commands!r}.items()
                ],
                faults=[kill("leader(java)").at(3).lasting(4), pause("leader(go)").at(12).lasting(6)],
                load=load(rate=200, seconds=20),
            )
            run.assert_conforms()
            for name in ("java", "go"):
                run.assert_none(name, "lost_write")
                run.assert_none(name, "duplicate")
    """)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
