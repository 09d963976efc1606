"""Which faults commands can do, on which nodes, and what proves them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.fault import Fault, Nodes, parameters
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.network.partition import Isolate, PacketLoss, Partition
from kafka_chaos.faults.process.ended import Kill, Pause, Stop
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.attached.faults import injected_by_commands, require_commands
from kafka_chaos.harness.attached.node import AttachedNode
from kafka_chaos.harness.attached.nodes_file import load_nodes
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.faults.fakes import Notes
from tests.harness.attached.shell_cluster import NAMES, cluster_of, nodes_file

pytestmark = pytest.mark.usefixtures("own_state")


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bool]]:
    """By node, whether it answers clients; those that are not named do not."""
    answers: dict[str, bool] = {}
    monkeypatch.setattr(AttachedNode, "_answers", lambda node: answers.get(node.name, False))
    return answers


def broken(folder: Path, fault: Fault) -> tuple[Fault, ClusterView[AttachedNode], Nodes]:
    """The fault as commands do it, injected into its target."""
    cluster = cluster_of(folder)
    view = ClusterView[AttachedNode](cluster, None)  # type: ignore[arg-type]
    done = injected_by_commands(fault)
    nodes = done.target.resolve(view, seed=0)
    done.inject(view, nodes)
    return done, view, nodes


@pytest.mark.parametrize("kind", [Kill, Stop, Pause, Isolate])
def test_a_fault_is_proven_by_state_and_silence(tmp_path: Path, answering: dict[str, bool], kind: Any) -> None:
    fault, view, nodes = broken(tmp_path, kind(target=Target.parse("brokers:1,2"), at=1.0, duration=2.0))
    assert (fault.kind, fault.at, fault.duration, parameters(fault)) == (kind.kind, 1.0, 2.0, {})
    proof = fault.proof(view, nodes)
    assert proof.took_effect, proof.reason
    assert set(proof.evidence) == {"broker-1", "broker-2"}
    answering["broker-2"] = True
    assert fault.proof(view, nodes).reason == "broker-2: it answers clients"
    (tmp_path / "broker-1").write_text("down" if kind in (Pause, Isolate) else "running")
    assert fault.proof(view, nodes).reason.startswith("broker-1: it is ")
    (tmp_path / "broker-1").write_text({Pause: "frozen", Isolate: "running"}.get(kind, "down"))
    answering.update({"broker-1": True})
    fault.heal(view, nodes)
    assert [(tmp_path / node.name).read_text().strip() for node in nodes] == ["running", "running"]
    assert not list(tmp_path.glob("*.cut"))


def test_a_partition_is_proven_by_packets_and_knows_its_peers(tmp_path: Path, answering: dict[str, bool]) -> None:
    fault, view, nodes = broken(tmp_path, Partition(target=Target.parse("broker:1")))
    assert (tmp_path / "broker-1.cut").read_text() == "10.0.0.2 10.0.0.3\n"
    proof = fault.proof(view, nodes)
    assert proof.took_effect
    assert proof.evidence == {"broker-1": {"packets": 2}}
    (tmp_path / "broker-1.cut").write_text("")
    assert fault.proof(view, nodes).reason == "broker-1: no packet was stopped yet"
    fault.heal(view, nodes)
    assert not (tmp_path / "broker-1.cut").exists()


def test_a_broker_that_answers_the_second_request_is_not_isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(AttachedNode, "_answers", lambda node: next(answers))
    fault, view, nodes = broken(tmp_path, Isolate(target=Target.parse("broker:1")))
    assert fault.proof(view, nodes).reason == "broker-1: it answers clients"


def test_the_last_fault_to_end_mends_a_node(tmp_path: Path, answering: dict[str, bool]) -> None:
    view = ClusterView[AttachedNode](cluster_of(tmp_path), None)  # type: ignore[arg-type]
    target = Target.parse("broker:1")
    with Injector(view, Notes(), seed=1) as injector:
        isolated = injector.inject(injected_by_commands(Isolate(target=target)))
        cut = injector.inject(injected_by_commands(Partition(target=target)))
        injector.heal(isolated)
        assert (tmp_path / "broker-1.cut").exists(), "it is still cut off from its peers"
        injector.heal(cut)
        assert not (tmp_path / "broker-1.cut").exists()


def test_a_node_that_exits_while_it_starts_is_started_again(tmp_path: Path, answering: dict[str, bool]) -> None:
    """As a broker does that finds its former session with ZooKeeper alive."""
    fault, view, nodes = broken(tmp_path, Kill(target=Target.parse("broker:1")))
    tries = tmp_path / "tries"
    start = f'echo x >> {tries}; [ "$(wc -l < {tries})" -ge 3 ] && echo running > {tmp_path}/$NODE || true'
    (node,) = nodes
    assert isinstance(node, AttachedNode)
    command = node.entry.start
    assert command is not None
    node.entry = node.entry.model_copy(update={"start": command.model_copy(update={"run": start})})
    answering["broker-1"] = True
    fault.heal(view, nodes)
    assert tries.read_text() == "x\n" * 3


@pytest.mark.parametrize(
    ("fault", "allowed", "expected"),
    [
        (PacketLoss(target=Target.parse("broker:1")), NAMES, "packet-loss: an attached cluster has no command for it"),
        (Partition(target=Target.parse("broker:1"), direction="in"), NAMES, "leave out `direction`"),
        (
            Kill(target=Target.parse("broker:2")),
            ("broker-1",),
            "broker:2 may be broker-2, which --allow-faults does not",
        ),
        (Isolate(target=Target.parse("zookeeper")), NAMES, "isolate can't be proven for"),
        (Kill(target=Target.parse("leader(x)")), ("broker-1",), "leader(x) may be broker-2, which --allow-faults"),
        (Kill(target=Target.parse("minority")), ("broker-1", "broker-2"), "minority may be third, which"),
        (Kill(target=Target.parse("broker:9")), NAMES, "broker:9: the file of nodes names no broker 9"),
        (Kill(target=Target.parse("zookeeper:2")), NAMES, "zookeeper:2: the file of nodes names no such node"),
        (Kill(target=Target.parse("controllers")), NAMES, "controllers: the file of nodes names no such node"),
    ],
)
def test_what_is_not_allowed_or_not_possible_is_refused(
    tmp_path: Path, fault: Fault, allowed: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(UsageFailure) as refusal:
        require_commands(fault, load_nodes(nodes_file(tmp_path)), allowed)
    assert expected in str(refusal.value)


def test_a_command_or_an_address_that_a_fault_needs_has_to_be_there(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text("commands: {state: a, kill: b, cut: c, stopped: d, mend: e}\nbrokers: {1: {}, 2: {}}\n")
    file = load_nodes(path)
    with pytest.raises(UsageFailure, match="kill needs the command start of broker-1, which the file of nodes lacks"):
        require_commands(Kill(target=Target.parse("broker:1")), file, ("broker-1",))
    with pytest.raises(UsageFailure, match="partition needs the address of each of the brokers"):
        require_commands(Partition(target=Target.parse("broker:1")), file, ("broker-1",))


@pytest.mark.parametrize("target", ["broker:1", "random", "leader(x)", "majority", "zookeeper", "controller"])
def test_what_is_allowed_is_taken(tmp_path: Path, target: str) -> None:
    require_commands(Kill(target=Target.parse(target)), load_nodes(nodes_file(tmp_path)), NAMES)
