"""The guide's programs in Java and Go, as written: they speak the protocol, and are under test from pytest.

Broken ones, each with one change, are told what is wrong.
"""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_chaos.conformance.clients.checks import CHECKS, TRANSACTIONS
from kafka_chaos.harness.clients.fetching import required
from kafka_chaos.harness.clients.kinds import ChosenClient, OwnClient, chosen
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from tests.conformance.clients.kits import kit_for, played

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAMS = Path(__file__).parents[3] / "docs/guides/own-client"
WRITES, READS = "identities and offsets of a producer", "identities that a consumer reads"
IN_DOUBT, ORPHAN = "errors that leave the outcome open", "end of the harness"
Build = Callable[[str, Path], list[str]]


def fetched(name: str) -> Path:
    client = chosen(name)
    assert isinstance(client, ChosenClient)
    return client.fetch()


def in_java(text: str, folder: Path) -> list[str]:
    jars = fetched("java 3.9.1") / "jars"
    (folder / "Example.java").write_text(text)
    (compiler,) = jars.glob("ecj-*.jar")
    command = [required("java"), "-jar", str(compiler), "-source", "17", "-target", "17", "-nowarn"]
    path = ":".join(map(str, jars.glob("*.jar")))
    subprocess.run([*command, "-cp", path, "-d", str(folder), str(folder / "Example.java")], check=True)
    return [required("java"), "-cp", f"{folder}:{jars}/*", "Example"]


def in_go(text: str, folder: Path) -> list[str]:
    for name in ("go.mod", "go.sum"):
        shutil.copy(fetched("franz-go") / name, folder)
    (folder / "example.go").write_text(text)
    subprocess.run([required("go"), "build", "-o", "service", "."], check=True, cwd=folder)
    return [str(folder / "service")]


BUILDS: dict[str, Build] = {"Example.java": in_java, "example.go": in_go}


def built(program: str, folder: Path, before: str = "", after: str = "") -> OwnClient:
    """The program, with a change of its text if there is one."""
    text = (PROGRAMS / program).read_text()
    assert text.count(before) >= 1
    return OwnClient(tuple(BUILDS[program](text.replace(before, after, 1) if before else text, folder)))


@pytest.mark.parametrize("program", BUILDS)
def test_the_program_speaks_the_protocol(program: str, cluster: Cluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    names = [name for name in CHECKS if name != TRANSACTIONS]
    kit = kit_for(built(program, tmp_path), cluster, admin, tmp_path)
    assert played(kit, cluster, *names) == dict.fromkeys(names, "")


BROKEN = {
    "Java: another lane's checksum": (
        "Example.java",
        'crc.update(begin.getString("lane").getBytes());',
        'crc.update("other".getBytes());',
        (WRITES, "carry no identity"),
    ),
    "Java: an outcome without a send": (
        "Example.java",
        "producer.send(new",
        'if (seq == first) tell("outcome", "outcome", "ok", "seq", List.of(number), "offset", List.of(0)); '
        "else producer.send(new",
        (WRITES, "is not in the log"),
    ),
    "Java: the offset of another record": (
        "Example.java",
        "(Object) at.offset()",
        "(Object) (at.offset() + 1)",
        (WRITES, "was said to be at offset 1: it is at 0"),
    ),
    "Java: a log on standard output": (
        "Example.java",
        "System.setOut(System.err);",
        'System.out.println("INFO starting");',
        (WRITES, "said 'INFO starting', which is no event"),
    ),
    "Go: an offset that no broker told": (
        "example.go",
        'if begin.Acks == "0" {',
        "if false {",
        ("outcomes that no broker answers", "no broker answers to acks=0"),
    ),
    "Java: an error that it takes for certain": (
        "Example.java",
        '"outcome", "info"',
        '"outcome", "fail"',
        (IN_DOUBT, "was said to have failed for certain"),
    ),
    "Go: all records in one partition": (
        "example.go",
        "begin.FirstPartition + seq%begin.Partitions",
        "begin.FirstPartition",
        (WRITES, "is in partition 0: expected 1"),
    ),
    "Go: silence": (
        "example.go",
        "} else {\n\t\t\t\t\t\ttell(",
        "} else if seq < 0 {\n\t\t\t\t\t\ttell(",
        (WRITES, "200 of 200 records got no outcome"),
    ),
    "Go: a flush that waits for nothing": (
        "example.go",
        "client.Flush(context.Background())",
        'tell("flushed", fields{})',
        ("flush", "said that it has flushed while"),
    ),
    "Go: no ear for SIGTERM": (
        "example.go",
        'orders <- Order{Order: "leave"}',
        "",
        ("SIGTERM", "sent SIGTERM, and runs still"),
    ),
    "Go: life without the harness": ("example.go", "os.Exit(130)", "select {}", (ORPHAN, "it runs still")),
    "Go: headers that it does not read": (
        "example.go",
        '"kafka-chaos-id"',
        '"id"',
        (READS, "expected (3, 200) as (producer_id, seq)"),
    ),
}
"""By change: the program, the old text and the new, and the check with its words."""


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_program_is_told_what_is_wrong(
    what: str, cluster: Cluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    program, before, after, (check, problem) = BROKEN[what]
    client = built(program, tmp_path, before, after)
    kit = replace(kit_for(client, cluster, admin, tmp_path), answered_within=20.0, gone_within=5.0)
    assert problem in played(kit, cluster, check)[check]


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
