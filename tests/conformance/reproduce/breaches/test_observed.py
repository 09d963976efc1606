"""What differs between brokers and model after a step, and which requests brokers have taken."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kafka_chaos.conformance.reproduce.breaches.controllers import has_taken
from kafka_chaos.conformance.reproduce.breaches.observed import Observed, ObservedReplica, differs
from kafka_chaos.conformance.reproduce.breaches.stories import BreachStep, Replica

LEADER = Replica(("m0",), 0, leader=1, leader_epoch=2)
FOLLOWER = Replica(("m0",), 0, leader=1, leader_epoch=2)
NEW = Replica((), 0, leader=0, leader_epoch=-1)
STEP = BreachStep("Broker 2 fetches …", "fetch", 2, 1, 0, (LEADER, FOLLOWER, NEW), 1, 2, (1, 2, 3))
ADVANCED = replace(
    STEP, name="advance_high_watermark", broker=1, replicas=(replace(LEADER, high_watermark=1), FOLLOWER, NEW)
)
SHRUNK = replace(STEP, name="shrink_isr", isr=(1, 2))
HELD = ObservedReplica((("m0", 2),), 0, leads=False)
SEEN = Observed({1: replace(HELD, leads=True), 2: HELD, 3: ObservedReplica((), 0, leads=False)}, 1, 2, (1, 2, 3))


def with_replica(broker: int, replica: ObservedReplica) -> Observed:
    return replace(SEEN, replicas={**SEEN.replicas, broker: replica})


def test_brokers_that_hold_what_the_model_tells_agree() -> None:
    assert differs(SEEN, STEP, ADVANCED) is None
    assert differs(SEEN, STEP, None) is None


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (replace(SEEN, leader=2), "leader, leader epoch and ISR are (2, 2, (1, 2, 3))"),
        (replace(SEEN, isr=(1, 2)), "leader, leader epoch and ISR are (1, 2, (1, 2))"),
        (with_replica(2, ObservedReplica((), 0, leads=False)), "broker 2 holds ()"),
        (with_replica(2, replace(HELD, leads=True)), "broker 2 leads, the model's has leader 1 in epoch 2"),
        (with_replica(1, HELD), "broker 1 does not lead"),
        (with_replica(2, replace(HELD, high_watermark=1)), "broker 2 has high watermark 1, the model's 0"),
    ],
)
def test_what_differs_is_named(seen: Observed, expected: str) -> None:
    assert str(differs(seen, STEP, ADVANCED)).startswith(expected)


def test_a_leader_s_high_watermark_may_be_ahead_until_its_step_and_the_end() -> None:
    ahead = with_replica(1, ObservedReplica((("m0", 2),), 1, leads=True))
    assert differs(ahead, STEP, ADVANCED) is None
    assert differs(ahead, STEP, None) == "broker 1 has high watermark 1, the model's 0"
    assert differs(SEEN, ADVANCED, STEP) == "broker 1 has high watermark 0, the model's 1"
    assert differs(ahead, ADVANCED, STEP) is None


def test_a_leader_may_have_changed_the_isr_if_the_next_step_says_so() -> None:
    assert differs(replace(SEEN, isr=(1, 2)), STEP, SHRUNK) is None
    assert differs(SEEN, SHRUNK, None) is not None


def test_requests_count_as_taken_once_they_are_answered_without_an_error(tmp_path: Path) -> None:
    trace = tmp_path / "requests.jsonl"
    taken = partial(has_taken, trace, "a")
    assert not taken("broker-1", 0)
    line = {"api": "LeaderAndIsr", "node": "broker-1", "answered_ns": 5, "leader_epochs": [["a", 0, 0]]}
    others = [
        {**line, "node": "broker-2", "answered_ns": None},
        {**line, "node": "broker-3", "errors": [11]},
        {**line, "leader_epochs": [["b", 0, 1]]},
        {**line, "api": "UpdateMetadata", "leader_epochs": [["a", 0, 2]]},
        {**line, "leader_epochs": [["b", 0, 3], ["a", 0, 4]]},
    ]
    text = "".join(json.dumps(one) + "\n" for one in [line, *others])
    trace.write_text(text + json.dumps({**line, "leader_epochs": [["a", 0, 6]]}))
    assert taken("broker-1", 0)
    assert taken("broker-1", 4)
    for node, epoch in [("broker-2", 0), ("broker-3", 0), ("broker-1", 1), ("broker-1", 2), ("broker-1", 3)]:
        assert not taken(node, epoch)
    # A line is read when all of it is there.
    assert not taken("broker-1", 6)
    with trace.open("a") as file:
        file.write("\n")
    assert taken("broker-1", 6)
