"""Fault kinds by name."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.lane.fault_kinds import COUNTS_AS, FAULT_KINDS
from kafka_chaos.faults.fault import build
from kafka_chaos.faults.network.packet_filter import chain_prefix
from kafka_chaos.faults.network.partition import Isolate, PacketLoss, Partition
from kafka_chaos.faults.process.ended import Kill, Pause, Stop
from kafka_chaos.faults.registry import describe_evidence, fault_kind, fault_kinds
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.experiment.file import parse_experiment
from tests.faults.fakes import FakeCluster

README = Path(__file__).parents[2] / "faults/README.md"
ROWS = re.findall(r"^\| ([^|]+) \| `(\{fault: [^`]+\})`", README.read_text(encoding="utf-8"), re.MULTILINE)
KRAFT = "{metadata_mode: kraft, controllers: 3}"


@pytest.mark.parametrize(("name", "entry"), ROWS, ids=[name for name, _ in ROWS])
def test_a_row_is_a_schedule(name: str, entry: str) -> None:
    cluster = KRAFT if "KRaft" in name else "{}"
    head = f"name: said\ncluster: {cluster}\nworkload: {{duration: 60}}\nlanes: [{{lane: orders}}]\n"
    text = f"{head}schedule:\n  - {entry}\n"
    assert parse_experiment(text, "said.yaml").phases[0].faults


def test_the_table_is_found() -> None:
    assert len(ROWS) >= 6


TARGET = Target.parse("broker:1")
GONE = {"Status": "exited", "OOMKilled": False, "FinishedAt": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("kind", "evidence", "words"),
    [
        ("pause", {"Status": "paused", "Paused": True, "Pid": 7, "freezer": "FROZEN"}, "frozen by the cgroup freezer"),
        ("partition", {"packets": {"in": 400, "out": 31}, "action": "drop"}, "431 packets dropped"),
        ("partition", {"packets": {"in": 1}, "action": "reject"}, "1 packet rejected"),
        ("partition", {"packets": {"in": 4}}, "4 packets stopped"),
        ("no such kind", {"overlimits": 3, "of": ["a", "b"]}, "overlimits 3, of a, b"),
        ("kill", {"Status": "exited"}, "Status exited"),
    ],
)
def test_a_kind_describes_its_own_evidence(kind: str, evidence: Mapping[str, Any], words: str) -> None:
    assert describe_evidence(kind, {"broker-1": evidence}) == words


def test_a_broker_that_the_oom_killer_ended_was_not_killed_by_the_fault() -> None:
    state = {**GONE, "Running": False, "ExitCode": 137, "OOMKilled": True}
    node: Any = SimpleNamespace(name="broker-1", state=lambda: state)
    proof = Kill(target=TARGET).proof(FakeCluster(), [node])
    assert (proof.took_effect, proof.reason) == (False, "broker-1: the OOM killer ended it")


def test_several_containers_are_named() -> None:
    evidence = {f"broker-{number}": {**GONE, "ExitCode": 137} for number in (1, 2)}
    gone = "process gone with exit code 137 (SIGKILL)"
    assert describe_evidence("kill", evidence) == f"broker-1: {gone}; broker-2: {gone}"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Kill(target=TARGET), "process gone with exit code 137 (SIGKILL)"),
        (Stop(target=TARGET), "process gone with exit code 143 (SIGTERM)"),
        (Pause(target=TARGET), "frozen, as Docker reports"),
        (Partition(target=TARGET, direction="in"), "5 packets dropped"),
        (Isolate(target=TARGET), "10 packets dropped"),
        (PacketLoss(target=TARGET), "5 packets dropped"),
    ],
)
def test_what_a_proof_records_is_what_its_kind_can_describe(fault: Any, words: str) -> None:
    cluster = FakeCluster()
    node = cluster.brokers[1]
    for direction in ("in", "out"):
        listing = "Chain\npkts bytes target\n5 300 DROP\n"
        node.answers[f"iptables -w -nvx -L {chain_prefix(fault)}-{direction}"] = (0, listing)
    fault.inject(cluster, (node,))
    proof = fault.proof(cluster, (node,))
    assert proof.took_effect
    assert fault.describe_evidence(proof.evidence["broker-1"]) == words


def model_faults(kind: str, target: str, brokers: int) -> tuple[str, ...]:
    fault = build(fault_kinds()[kind], target=Target.parse(target), at=1.0, duration=1.0, keys={})
    return fault.model_faults(brokers)


@pytest.mark.parametrize("kind", ["kill", "stop", "pause", "partition"])
@pytest.mark.parametrize(
    ("target", "brokers", "hit"),
    [
        ("leader(orders)", 3, 1), ("follower(orders)", 3, 1), ("controller", 3, 1), ("broker:2", 3, 1),
        ("random", 3, 1), ("all", 3, 3), ("majority", 3, 2), ("majority", 5, 3), ("minority", 5, 2), ("minority", 2, 0),
    ],
)  # fmt: skip
def test_there_is_one_entry_for_each_broker_hit(kind: str, target: str, brokers: int, hit: int) -> None:
    assert model_faults(kind, target, brokers) == (kind,) * hit


def test_verification_knows_what_every_kind_counts_as() -> None:
    assert set(FAULT_KINDS) <= set(COUNTS_AS)
    assert set(COUNTS_AS) <= {kind for kind, of in fault_kinds().items() if of.__module__.startswith("kafka_chaos.")}
    for kind, of_model in COUNTS_AS.items():
        assert model_faults(kind, "all", 3) == (() if of_model is None else (of_model,) * 3)


def test_a_lane_lives_through_no_more_than_its_replicas_can() -> None:
    text = """
name: several
cluster: {brokers: 5}
lanes:
  - {lane: three, replication_factor: 3}
  - {lane: five, replication_factor: 5}
schedule:
  - {fault: kill, target: majority, at: 1, duration: 1}
  - {fault: stop, target: all, at: 3, duration: 1}
  - {fault: pause, target: zookeeper, at: 5, duration: 1}
"""
    lanes = {lane.lane: lane.faults for _, _, lane in parse_experiment(text, "several.yaml").lanes}
    assert lanes["three"] == ("kill",) * 3 + ("stop",) * 3 + ("session-expiry",) * 3
    assert lanes["five"] == ("kill",) * 3 + ("stop",) * 5 + ("session-expiry",) * 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("klil", "'klil' is not a fault kind: expected kill, or another that `kafka-chaos faults` lists"),
        ("", "'' is not a fault kind: expected one that `kafka-chaos faults` lists"),
    ],
)
def test_another_name_is_refused_with_those_that_are_near(name: str, expected: str) -> None:
    with pytest.raises(ValueError, match="is not a fault kind") as refusal:
        fault_kind(name)

    assert str(refusal.value) == expected
