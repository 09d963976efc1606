"""When controllers change, and who hears of it: links and ZooKeeper are made up."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.conformance.reproduce.breaches import controllers
from kafka_chaos.conformance.reproduce.breaches.controllers import Controllers
from kafka_chaos.conformance.reproduce.breaches.stories import BROKERS, STORIES, BreachStep, BreachStory, read
from kafka_chaos.harness.cluster.metadata.protocol import PartitionRecord
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper


class Deeds(list[str]):
    """What was done, in its order."""


class FakeZooKeeper(ZooKeeper):
    """Elects whom it is asked for: the first of the replicas."""

    def __init__(self, deeds: Deeds) -> None:
        self.deeds = deeds
        self.epoch = 1
        self.replicas: tuple[int, ...] = BROKERS
        self.record: PartitionRecord | None = None

    def assign(self, topic: str, replicas: Any, *, partition: int = 0) -> None:
        self.replicas = tuple(replicas)

    def elect_preferred(self, topic: str, *, partition: int = 0) -> None:
        assert self.record is not None
        self.deeds.append(f"elect {self.replicas[0]}")
        self.record = PartitionRecord(self.replicas[0], self.record.leader_epoch + 1, self.record.isr)

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        self.deeds.append("depose")
        self.epoch += 1

    def controller_epoch(self) -> int:
        return self.epoch

    def partition(self, topic: str, partition: int = 0) -> PartitionRecord | None:
        return self.record


class FakeLink:
    """Every controller has told whatever is asked for."""

    def __init__(self, broker: int, deeds: Deeds, zookeeper: FakeZooKeeper) -> None:
        self.broker, self.deeds, self.zookeeper = broker, deeds, zookeeper

    def apply(self, rule: str, **frames: Any) -> None:
        if frames["api"] == "UpdateMetadata":
            self.deeds.append(f"deafen {self.broker}")

    def lift(self, rule: str, *, release: bool) -> None:
        name = "undeafen" if rule.endswith("metadata") else f"tell {rule.rpartition('-')[2]} to"
        self.deeds.append(f"{name} {self.broker}")

    def tally(self, rule: str) -> Mapping[str, Any]:
        return {"told": [{"detail": {"controller_epoch": self.zookeeper.epoch}}]}


def played(story: BreachStory, monkeypatch: pytest.MonkeyPatch) -> Deeds:
    """What controllers and links do in a story, up to its last LeaderAndIsr request."""
    monkeypatch.setattr(Controllers, "_is_settled", lambda self: True)
    deeds = Deeds()
    zookeeper = FakeZooKeeper(deeds)

    def create_topic(topic: str, **_: object) -> None:
        deeds.append("create")
        zookeeper.record = PartitionRecord(1, 0, BROKERS)

    brokers = {
        broker: SimpleNamespace(name=f"broker-{broker}", link=FakeLink(broker, deeds, zookeeper)) for broker in BROKERS
    }
    lease: Any = SimpleNamespace(
        metadata=zookeeper,
        admin=SimpleNamespace(create_topic=create_topic),
        cluster=SimpleNamespace(brokers=brokers),
        make_controller=lambda broker: None,
    )
    monkeypatch.setattr(controllers, "has_taken", lambda *_: True)
    nothing: Any = SimpleNamespace(cut=lambda broker: None)
    steps = list(read(story).steps)
    told = Controllers(lease, "t", nothing, nothing, steps)
    told.begin()
    while steps:
        step: BreachStep = steps.pop(0)
        if step.name == controllers.ELECT:
            told.elect(step)
        elif step.name in controllers.LEARNS:
            told.learn(step)
        else:
            zookeeper.record = PartitionRecord(step.leader, step.leader_epoch, step.isr)
    return deeds


def story(variant: str, invariant: str) -> BreachStory:
    return next(one for one in STORIES if one.variant == variant and invariant in one.invariants)


def test_a_broker_that_is_to_skip_an_epoch_is_told_by_the_next_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    deeds = played(story("kip101", "followers_agree"), monkeypatch)
    assert deeds == [
        *("create", "depose", "tell 0 to 1"),
        *("elect 2", "depose", "tell 1 to 2"),
        # Broker 1 never learns of epoch 1: the controller after the one that has decided epoch 2 tells it of that.
        *("elect 1", "depose", "tell 2 to 1", "tell 2 to 2"),
    ]


def test_a_broker_that_learns_late_hears_of_no_later_controller_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    deeds = played(story("kip279", "weak_isr"), monkeypatch)
    assert deeds == [
        *("create", "depose", "tell 0 to 1", "tell 0 to 3"),
        *("elect 2", "depose", "tell 1 to 2"),
        *("elect 1", "deafen 3", "depose", "tell 2 to 1", "tell 1 to 3", "undeafen 3"),
    ]


def test_it_hears_of_later_ones_for_what_it_learns_next(monkeypatch: pytest.MonkeyPatch) -> None:
    deeds = played(story("kip279", "followers_agree"), monkeypatch)
    assert deeds == [
        *("create", "depose", "tell 0 to 1"),
        *("elect 2", "depose", "tell 1 to 2"),
        *("elect 1", "deafen 1", "depose", "tell 2 to 3", "tell 1 to 1", "undeafen 1", "tell 2 to 1"),
    ]


def test_controllers_do_not_change_once_nobody_needs_another(monkeypatch: pytest.MonkeyPatch) -> None:
    deeds = played(story("kip101", "committed_records_kept"), monkeypatch)
    assert deeds[-3:] == ["tell 1 to 3", "elect 3", "tell 2 to 3"]
