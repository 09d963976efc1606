"""What reports say of a proof: in the words of its kind, or as keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_chaos.faults.network.packet_filter import chain_name
from kafka_chaos.faults.network.partition import Isolate, Partition
from kafka_chaos.faults.network.queued import PacketLoss
from kafka_chaos.faults.process.ended import Kill, Pause, Stop
from kafka_chaos.faults.registry import describe_evidence
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster

TARGET = Target.parse("broker:1")
GONE = {"Status": "exited", "OOMKilled": False, "FinishedAt": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("kind", "evidence", "words"),
    [
        ("kill", {**GONE, "ExitCode": 137}, "process gone with exit code 137 (SIGKILL)"),
        ("stop", {**GONE, "ExitCode": 143}, "process gone with exit code 143 (SIGTERM)"),
        ("pause", {"Status": "paused", "Paused": True, "Pid": 7, "freezer": "FROZEN"}, "frozen by the cgroup freezer"),
        ("pause", {"Status": "paused", "Paused": True, "Pid": 7}, "frozen, as Docker reports"),
        ("partition", {"packets": {"in": 400, "out": 31}, "action": "drop"}, "431 packets dropped"),
        ("partition", {"packets": {"in": 1}, "action": "reject"}, "1 packet rejected"),
        ("partition", {"packets": {"in": 4}}, "4 packets stopped"),
        ("no such kind", {"overlimits": 3, "of": ["a", "b"]}, "overlimits 3, of a, b"),
        ("kill", {"Status": "exited"}, "Status exited"),
    ],
)
def test_a_kind_describes_its_own_evidence(kind: str, evidence: Mapping[str, Any], words: str) -> None:
    assert describe_evidence(kind, {"broker-1": evidence}) == words


def test_several_containers_are_named() -> None:
    evidence = {f"broker-{number}": {**GONE, "ExitCode": 137} for number in (1, 2)}
    gone = "process gone with exit code 137 (SIGKILL)"
    assert describe_evidence("kill", evidence) == f"broker-1: {gone}; broker-2: {gone}"


def test_evidence_that_is_not_kept_per_container_is_shown_as_it_is() -> None:
    assert describe_evidence("lockstep", {"steps": ["append", "elect"]}) == "steps append, elect"
    assert describe_evidence("kill", {}) == ""


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
        node.answers[f"iptables -w -nvx -L {chain_name(fault)}-{direction}"] = (0, listing)
    fault.inject(cluster, (node,))
    proof = fault.proof(cluster, (node,))
    assert proof.took_effect
    assert fault.describe_evidence(proof.evidence["broker-1"]) == words
