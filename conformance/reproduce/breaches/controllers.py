"""The controllers of a breach: their decisions, and when each broker receives the LeaderAndIsr request of one.

Links hold every LeaderAndIsr request about the topic until its step. A controller sends a broker one request after the
other, each when the one before is answered: so a broker that is to learn of a leader epoch, but not of those before, is
told by the next controller, which knows only what holds now. And a broker that is to learn of an old leader epoch after
the next has been decided must not hear of the next controller until then: it would refuse the old one.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.conformance.controllers.capture import read_trace
from kafka_chaos.conformance.reproduce.breaches.stories import BROKERS, BreachStep
from kafka_chaos.conformance.reproduce.playing.stage import HeldFollowers
from kafka_chaos.conformance.scenario.clusters import ClusterLease
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper
from kafka_chaos.harness.errors import WaitTimeout
from kafka_chaos.harness.waiting import wait_until

WITNESS = 4
"""A broker without a replica, whom nobody keeps from hearing of everything; the first controller."""
ELECT = "elect"
LEARNS = ("become_leader", "become_follower")
LEADER_AND_ISR = "LeaderAndIsr"
TIMEOUT = 60.0
_PATIENCE = 2.0
_METADATA = "breach-metadata"


@dataclass
class Controllers:
    """The controllers of a cluster, one after the other. `steps`: those that are still to come, kept by the player."""

    lease: ClusterLease
    topic: str
    followers: HeldFollowers
    trace: Path
    steps: list[BreachStep] = field(default_factory=list)
    _learned: dict[int, int] = field(default_factory=dict)
    _deaf: set[int] = field(default_factory=set)
    """Brokers that hear of no next controller."""

    def begin(self) -> None:
        """Hold what will be told of the leader epochs that are to come."""
        self.lease.make_controller(WITNESS)
        for broker in BROKERS:
            for epoch in {step.leader_epoch for step in self.steps}:
                frames = {"api": LEADER_AND_ISR, "topic": self.topic, "leader_epoch": epoch}
                self._link(broker).apply(_rule(epoch), action="hold", side="request", **frames)

    def elect(self, step: BreachStep) -> None:
        """The controller elects whom a step says; then another one tells all brokers of it."""
        if step.leader_epoch == 0:
            configs = {"min.insync.replicas": 1, "unclean.leader.election.enable": False}
            self.lease.admin.create_topic(self.topic, replica_assignment=[list(BROKERS)], configs=configs)
        else:
            self._zookeeper.elect_preferred(self.topic)
        decided = step.leader, step.leader_epoch, step.isr
        wait_until(
            lambda: self._decided() == decided,
            f"leader, leader epoch and ISR to be {decided}",
            timeout=TIMEOUT,
            seen=lambda: str(self._decided()),
        )
        self._change_controllers(step)

    def learn(self, step: BreachStep) -> None:
        """A broker gets the LeaderAndIsr request of a leader epoch, and takes it."""
        broker, epoch = step.broker, step.number
        node = self.lease.cluster.brokers[broker].name
        self._link(broker).lift(_rule(epoch), release=True)

        def took() -> bool:
            # The thread whose fetch is not answered can't end, and the broker waits for that.
            self.followers.cut(broker)
            with contextlib.suppress(WaitTimeout):
                return wait_until(
                    lambda: has_taken(self.trace, self.topic, node, epoch), "an answer", timeout=_PATIENCE
                )
            return False

        wait_until(took, f"broker {broker} to take what it is told of leader epoch {epoch}", timeout=TIMEOUT)
        self._learned[broker] = epoch
        if broker in self._deaf and self._awaited(broker, step.leader_epoch) in (None, step.leader_epoch):
            self._link(broker).lift(_METADATA, release=True)
            self._deaf.discard(broker)

    def _change_controllers(self, decided: BreachStep) -> None:
        """Let the next controller tell all brokers what holds now; it will elect whom the next decision names."""
        latest = decided.leader_epoch
        awaited = {broker: self._awaited(broker, latest) for broker in BROKERS}
        elections = [one for one in self.steps if one.name == ELECT]
        skips = any(epoch == latest > self._learned.get(broker, -1) + 1 for broker, epoch in awaited.items())
        if not elections and not skips:
            return
        for broker, epoch in awaited.items():
            if epoch is not None and epoch < latest:
                self._link(broker).apply(_METADATA, action="hold", side="request", api="UpdateMetadata")
                self._deaf.add(broker)
        if elections:
            first = elections[0].broker
            self._zookeeper.assign(self.topic, (first, *(one for one in BROKERS if one != first)))
        self._zookeeper.depose_controller(timeout=TIMEOUT)
        wait_until(self._is_settled, "the next controller to be known", timeout=TIMEOUT)
        for broker, epoch in awaited.items():
            if epoch == latest and broker not in self._deaf:
                self._await_told(broker, latest)

    def _awaited(self, broker: int, latest: int) -> int | None:
        """The leader epoch that a broker learns of next, unless that is still to be decided."""
        epochs = [step.number for step in self.steps if step.name in LEARNS and step.broker == broker]
        return epochs[0] if epochs and epochs[0] <= latest else None

    def _await_told(self, broker: int, epoch: int) -> None:
        """Wait until the request of the present controller is held."""
        controller_epoch = self._zookeeper.controller_epoch()

        def told() -> bool:
            tally = self._link(broker).tally(_rule(epoch)) or {"told": ()}
            return any(one["detail"].get("controller_epoch") == controller_epoch for one in tally["told"])

        wait_until(told, f"the controller to tell broker {broker} of leader epoch {epoch}", timeout=TIMEOUT)

    def _is_settled(self) -> bool:
        with contextlib.suppress(BrokerUnreachable), BrokerClient(self.lease.cluster.client_address(WITNESS)) as client:
            return client.controller() == self._zookeeper.controller()
        return False

    def _decided(self) -> tuple[int, int, tuple[int, ...]] | None:
        found = self._zookeeper.partition(self.topic)
        return None if found is None else (found.leader, found.leader_epoch, found.isr)

    def _link(self, broker: int) -> Any:
        return self.lease.cluster.brokers[broker].link

    @property
    def _zookeeper(self) -> ZooKeeper:
        assert isinstance(self.lease.metadata, ZooKeeper), "these variants are older than KRaft mode"
        return self.lease.metadata


def has_taken(trace: Path, topic: str, node: str, leader_epoch: int) -> bool:
    """Whether a node has answered what it was told of a leader epoch of the topic, and without an error."""
    return any(
        [topic, leader_epoch] in [[name, epoch] for name, _, epoch in line.get("leader_epochs", ())]
        for line in read_trace(trace)
        if line["api"] == LEADER_AND_ISR and line["node"] == node
        if line["answered_ns"] is not None and not line.get("errors")
    )


def _rule(leader_epoch: int) -> str:
    return f"breach-leader-epoch-{leader_epoch}"
