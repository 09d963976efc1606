"""The nodes of an attached cluster, and the commands that break and heal them, from a YAML file.

Guarantee: in a file that is accepted, every key is valid; a refusal names file, line and key. No command is run here.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.file import load_yaml
from kafka_chaos.harness.experiment.values import Seconds, Spec


class Command(Spec):
    """A command of a node: what a shell runs on this machine, and how long it may take."""

    run: str = Field(min_length=1, description="what `sh -c` runs")
    timeout: Seconds = Field(default=30.0, gt=0, description="seconds that the command may take")


_Command = Annotated[Command | None, BeforeValidator(lambda value: {"run": value} if isinstance(value, str) else value)]
"""A command with its keys, or only what the shell runs."""


class Commands(Spec):
    """The commands that break and heal a node.

    The shell finds the node in the variables NODE (its name), NODE_ID and NODE_ADDRESS, and for `cut` the addresses of
    its peers in PEERS, separated by spaces. A command has to end with exit code 0.
    """

    state: _Command = Field(default=None, description="prints `running`, `frozen` or `down` as its last line")
    kill: _Command = Field(default=None, description="end the process at once (SIGKILL), and keep it down")
    stop: _Command = Field(default=None, description="shut the process down (SIGTERM), and keep it down")
    start: _Command = Field(default=None, description="start the process again, on the same data")
    pause: _Command = Field(default=None, description="freeze the process (SIGSTOP, or a cgroup's freezer)")
    thaw: _Command = Field(default=None, description="thaw the process")
    isolate: _Command = Field(default=None, description="cut the node off from everybody, clients included")
    cut: _Command = Field(default=None, description="cut the node off from PEERS, in both directions")
    stopped: _Command = Field(default=None, description="prints the number of packets that `cut` has dropped so far")
    mend: _Command = Field(default=None, description="undo `isolate` and `cut`; does nothing where nothing is cut")


class NodeEntry(Commands):
    """A node of the file. Commands that it does not name are taken from the key `commands`."""

    name: str | None = Field(default=None, min_length=1, description="the node's name; by default like `broker-1`")
    address: str = Field(default="", description="the address by which other nodes reach the node, for `cut`")


class NodesFile(Spec):
    """A whole file of nodes; keys of `brokers` and `controllers` are node ids, of `zookeepers` any numbers."""

    commands: Commands = Field(default=Commands(), description="each command for the nodes that do not name their own")
    brokers: dict[int, NodeEntry] = Field(min_length=1, description="the brokers by id")
    controllers: dict[int, NodeEntry] = Field(default_factory=dict, description="KRaft's dedicated controllers by id")
    zookeepers: dict[int, NodeEntry] = Field(default_factory=dict, description="ZooKeeper's servers by number")

    @model_validator(mode="before")
    @classmethod
    def _plain_nodes(cls, value: Any) -> Any:
        """Turn nodes without keys, which may be written as `1:`, into empty mappings."""
        if not isinstance(value, dict):
            return value
        by_kind = {kind: value[kind] for kind in _KINDS if isinstance(value.get(kind), dict)}
        return value | {kind: {number: keys or {} for number, keys in nodes.items()} for kind, nodes in by_kind.items()}

    def names(self) -> list[str]:
        """The names of all nodes."""
        return [self.name_of(kind, number) for kind in _KINDS for number in self.nodes_of(kind)]

    def nodes_of(self, kind: str) -> Mapping[int, NodeEntry]:
        """The nodes of a kind: `brokers`, `controllers` or `zookeepers`."""
        nodes: Mapping[int, NodeEntry] = getattr(self, kind)
        return nodes

    def name_of(self, kind: str, number: int) -> str:
        """A node's name: as the file gives it, or its kind and number, such as `broker-1`."""
        return self.nodes_of(kind)[number].name or f"{kind.removesuffix('s')}-{number}"

    def entry(self, kind: str, number: int) -> NodeEntry:
        """A node of the file, with the commands that it takes from the key `commands`."""
        node = self.nodes_of(kind)[number]
        inherited = {key: getattr(self.commands, key) for key in COMMANDS if getattr(node, key) is None}
        return node.model_copy(update=inherited)


COMMANDS = tuple(Commands.model_fields)
_KINDS = ("brokers", "controllers", "zookeepers")


def load_nodes(path: Path) -> NodesFile:
    """The nodes in a file; raises `UsageFailure`."""
    nodes = load_yaml(path, NodesFile, "a file of nodes")
    for name, count in Counter(nodes.names()).items():
        if count > 1:
            raise UsageFailure(f"{path}:1: {name!r} names two nodes")
    return nodes


def load_allowed(path: Path, allow_faults: str) -> tuple[NodesFile, tuple[str, ...]]:
    """The nodes in a file, and the names of the nodes that may be broken. `allow_faults`: such as `broker-1,broker-2`.

    Raises `UsageFailure`.
    """
    file = load_nodes(path)
    names, allowed = file.names(), tuple(name.strip() for name in allow_faults.split(","))
    for name in allowed:
        if name not in names:
            raise UsageFailure(f"--allow-faults: {name!r} is not a node of {path}; expected some of {', '.join(names)}")
    return file, allowed
