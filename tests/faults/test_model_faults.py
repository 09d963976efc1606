"""What a fault tells the reference model to expect: one entry for each broker that it hits."""

from __future__ import annotations

import pytest

from kafka_chaos.contract.fault_kinds import COUNTS_AS, FAULT_KINDS
from kafka_chaos.faults.fault import build
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.experiment.file import parse_experiment


def model_faults(kind: str, target: str, brokers: int) -> tuple[str, ...]:
    fault = build(fault_kinds()[kind], target=Target.parse(target), at=1.0, duration=1.0, keys={})
    return fault.model_faults(brokers)


@pytest.mark.parametrize("kind", ["kill", "stop", "pause", "partition"])
@pytest.mark.parametrize(
    ("target", "brokers", "hit"),
    [
        ("leader(orders)", 3, 1),
        ("follower(orders)", 3, 1),
        ("controller", 3, 1),
        ("broker:2", 3, 1),
        ("random", 3, 1),
        ("all", 3, 3),
        ("majority", 3, 2),
        ("majority", 5, 3),
        ("minority", 5, 2),
        ("minority", 2, 0),
    ],
)
def test_there_is_one_entry_for_each_broker_hit(kind: str, target: str, brokers: int, hit: int) -> None:
    assert model_faults(kind, target, brokers) == (kind,) * hit


@pytest.mark.parametrize("target", ["zookeeper", "zookeeper:1"])
@pytest.mark.parametrize("kind", ["kill", "stop", "pause", "partition"])
def test_what_hits_zookeeper_may_expire_every_session(kind: str, target: str) -> None:
    assert model_faults(kind, target, 3) == ("session-expiry",) * 3


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
    lanes = {lane.lane: lane.faults for _, _, lane in parse_experiment(text, "several.yaml").lanes()}
    assert lanes["three"] == ("kill",) * 3 + ("stop",) * 3 + ("session-expiry",) * 3
    assert lanes["five"] == ("kill",) * 3 + ("stop",) * 5 + ("session-expiry",) * 5
