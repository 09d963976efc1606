"""A file of nodes is read whole, or refused with file, line and key."""

from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.attached.nodes_file import Command, load_allowed, load_nodes
from tests.harness.attached.shell_cluster import NAMES, nodes_file


def test_a_node_has_its_own_commands_before_those_of_all(tmp_path: Path) -> None:
    file = load_nodes(nodes_file(tmp_path))
    assert file.names() == list(NAMES)
    assert file.entry("brokers", 3).kill == Command(run="sleep 60", timeout=0.2)
    assert file.entry("brokers", 1).kill == file.commands.kill
    assert file.entry("zookeepers", 1).start == file.commands.start


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("brokers: {}", "nodes.yaml:1: brokers: expected at least 1 entry, got {}"),
        ("commands: {}", "nodes.yaml:1: brokers: missing, but required"),
        ("brokers:\n  1: {kil: x}", "nodes.yaml:2: brokers[1].kil: no such key; expected state, kill, stop"),
        ("brokers:\n  one: {}", "nodes.yaml:2: brokers.one: expected a whole number, got 'one'"),
        (
            "brokers:\n  1:\n    kill: {run: x, timeout: 0}",
            "nodes.yaml:3: brokers[1].kill.timeout: expected more than 0",
        ),
        ("brokers:\n  1:\n    kill: 9", "nodes.yaml:3: brokers[1].kill: expected a mapping of keys, got 9"),
        ("brokers:\n  1: {name: a}\n  2: {name: a}", "nodes.yaml:1: 'a' names two nodes"),
        ("- 1", "nodes.yaml:1: expected a mapping with the keys of a file of nodes"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(UsageFailure) as refusal:
        load_nodes(path)
    assert expected in str(refusal.value)


def test_only_nodes_of_the_file_can_be_allowed(tmp_path: Path) -> None:
    path = nodes_file(tmp_path)
    assert load_allowed(path, "broker-1, third")[1] == ("broker-1", "third")
    with pytest.raises(UsageFailure, match=r"'broker-3' is not a node of .*; expected some of broker-1, broker-2, th"):
        load_allowed(path, "broker-1,broker-3")
