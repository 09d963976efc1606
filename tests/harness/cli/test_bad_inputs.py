"""Every mistake on the command line ends with its exit code and a line that helps, never a traceback."""

from pathlib import Path

import pytest

from kafka_chaos.harness.cli.main import cli
from tests.commands import ended

GOOD = "name: good\nworkload: {rate: 10, duration: 5}\nlanes:\n  - lane: one\n    acks: all\n"
FILES = {
    "good.yaml": GOOD,
    "acks.yaml": GOOD.replace("all", "'2'"),
    "list.yaml": "- a\n- b\n",
    "huge.yaml": GOOD.replace("rate: 10, duration: 5", "rate: 1000000, duration: 900000"),
    "long.yaml": GOOD.replace("acks: all", f"partitions: {'x' * 5000}"),
    "run/lanes.json": "{",
    "odd/lanes.json": '{"format_version": 1, "lanes": [{"lane": 3}]}',
    "history.jsonl": "3\n",
    "web.yml": "services:\n  web: {image: nginx}\n",
    "twice.yml": "services:\n  a: {environment: &e [KAFKA_NODE_ID=1, KAFKA_PROCESS_ROLES=broker]}\n"
    "  b: {environment: *e}\n",
    "five.yml": "services:\n  a: {environment: 5}\n",
    "env.yml": "services:\n  a:\n    env_file: 5\n",
    "deploy.yml": "services:\n  a:\n    deploy: [x]\n    environment: [KAFKA_PROCESS_ROLES=broker]\n",
    "file": "",
}
NO_ENGINE = "no Docker engine answers at DOCKER_HOST=unix:///nowhere/docker.sock"
INPUTS = [
    ("nonsense", 64, "No such command 'nonsense'"),
    ("run", 64, "Missing argument 'EXPERIMENT'"),
    ("run acks.yaml", 64, "acks.yaml:5: lanes[0].acks: '2': expected one of"),
    ("clean", 3, NO_ENGINE),
    ("image", 3, NO_ENGINE),
    ("prepare", 3, NO_ENGINE),
    ("run nowhere.yaml", 64, "nowhere.yaml: can't be read: No such file or directory"),
    ("run .", 64, ".: can't be read: Is a directory"),
    ("run latin.yaml", 64, "latin.yaml: can't be read: byte 9 is not UTF-8"),
    ("run list.yaml", 64, "list.yaml:1: expected a mapping"),
    ("run huge.yaml", 3, "--out runs: the run may write "),
    ("run long.yaml", 64, "long.yaml:5: lanes[0].partitions: expected a whole number, got 'xxx"),
    ("run web.yml", 64, "web.yml:1: services: this is a Compose file, not an experiment: `kafka-chaos nodes comp"),
    ("nodes compose nowhere.yml", 64, "nowhere.yml: can't be read: No such file or directory"),
    ("nodes compose web.yml", 64, "web.yml:1: services: no Kafka broker with a known id in web: expected KAFKA_NODE"),
    ("nodes compose twice.yml", 64, "twice.yml:3: services.b: the service a has the same id, 1"),
    ("nodes compose five.yml", 64, "five.yml:2: services.a.environment: expected a mapping or a list of variables"),
    ("nodes compose env.yml", 64, "env.yml:3: services.a.env_file: expected the path of a file, or a list of paths"),
    ("nodes compose deploy.yml", 64, "deploy.yml:3: services.a.deploy: expected a mapping"),
    ("nodes compose good.yaml", 64, "good.yaml:1: services: expected a mapping of services"),
    ("run good.yaml --out file", 64, "'file' is a file"),
    ("run good.yaml --out file/runs", 64, "file is not a folder: choose another path"),
    ("run good.yaml --out /proc/runs", 3, "--out /proc/runs: /proc can't be written"),
    ("run good.yaml --junit nowhere/x.xml", 64, "--junit: nowhere/x.xml: there is no folder nowhere"),
    ("run good.yaml --attach x:1 --client-config nowhere", 64, "nowhere: "),
    ("image --kafka-version 9.9.9", 64, "version '9.9.9' of Kafka is not known: expected one of 4.4.0, 4.3.1, 4.2.2"),
    ("verify nowhere[1]", 64, "nowhere[1]"),
    ("verify run", 64, "lanes.json: not valid JSON"),
    ("verify odd", 64, "odd"),
    ("report nowhere[1]", 64, "'nowhere[1]' does not exist"),
    ("report run", 64, "verdict.json"),
    ("runs show nowhere", 64, "nowhere: not a run directory, expected one with a lanes.json"),
    ("runs show odd/lanes.json", 64, "not a run directory"),
    ("runs show run", 64, "run/lanes.json: not valid JSON"),
    ("nightly good.yaml --out file/of/mine", 64, "file is not a folder"),
    ("nightly .", 64, "acks.yaml:5: lanes[0].acks"),
    ("cluster up Big", 64, "Big: expected a name of lower-case letters"),
    ("cluster up --brokers 12", 64, "brokers: expected at most 9, got 12"),
    ("cluster up --brokers 0", 64, "brokers: expected at least 1, got 0"),
    ("cluster up --version 9.9.9", 64, "version '9.9.9' of Kafka is not known"),
    ("cluster down nothing", 64, "nothing: no such cluster; standing clusters: none: `kafka-chaos cluster up` starts"),
    ("break pause broker:1", 64, "expected the name of a cluster (--on NAME, or `down NAME`); standing clusters: none"),
    ("run good.yaml --on nothing", 64, "nothing: no such cluster"),
    ("import jepsen history.jsonl --out imported", 64, "history.jsonl, line 1: expected an operation"),
    ("import jepsen history.jsonl --faults kill,bomb --out imported", 64, "'bomb': expected fault kinds out of"),
    ("import verifiable file --out imported", 64, "Missing option '--consumer'"),
    ("known kafka-15591 --json", 64, "--json: expected without an ID"),
    ("known KAFKA-15591 kafka-1", 64, "'kafka-1': expected known defects out of aiokafka-kip-320, "),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "latin.yaml").write_bytes(b"name: caf\xe9")
    return folder


# Whatever gets past the checks would ask for an engine, and end with another message.
@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(("line", "code", "message"), INPUTS, ids=[line for line, *_ in INPUTS])
def test_a_bad_input_has_its_exit_code_and_a_line_that_helps(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, message: str
) -> None:
    monkeypatch.chdir(folder)
    done = ended(cli, *line.split())
    assert (done.exit_code, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert "should be" not in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 600
    assert not (folder / "runs").exists()
    assert not (folder / "nodes.yaml").exists()
