"""Where a story is played: a cluster with links, the lanes that live through it, and what is observed of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.conformance.engine import TraceNotReproduced, await_no_difference
from kafka_chaos.conformance.reproduce.playing.followers import HeldFollowers
from kafka_chaos.conformance.reproduce.playing.producer import OTHER, StepProducer
from kafka_chaos.conformance.reproduce.stories.reading import Story, StoryStep
from kafka_chaos.conformance.scenario.clusters import ClusterLease
from kafka_chaos.contract.identity import decode_identity, lane_checksum
from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.storage.replica import read_replicas
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.lane.replication import expand_isr
from kafka_chaos.reference_model.lane.state import record_of

TIMEOUT = 60.0
"""Seconds that brokers have for what a step waits for."""


@dataclass
class Part:
    """One lane that lives through the story: its topic, its producer, and what its consumers were given."""

    story: Story
    topic: str
    producer: StepProducer
    consumed: list[dict[str, Any]] = field(default_factory=list)

    def identities(self, values: Iterable[bytes | None]) -> list[tuple[int, int]]:
        """(producer, seq) of values."""
        seed = lane_checksum(self.story.lane.lane)
        return [decode_identity(value, seed) for value in values]

    def step(self, number: int) -> StoryStep:
        """The step of this number (from 0 on) with this lane's states."""
        return self.story.steps[number]


@dataclass
class Stage:
    """A cluster on which parts with the same story are played.

    `away`: brokers that a fault keeps from running, from being reached or from following. `cut_off`: brokers that no
    other node reaches. `queued`: brokers in front of which a request waits.
    """

    lease: ClusterLease
    parts: list[Part]
    followers: HeldFollowers
    away: set[int] = field(default_factory=set)
    cut_off: set[int] = field(default_factory=set)
    queued: set[int] = field(default_factory=set)

    @property
    def story(self) -> Story:
        """The story that all parts share."""
        return self.parts[0].story

    @property
    def brokers(self) -> Mapping[int, Node]:
        """The brokers by id, which are their numbers in the story."""
        return self.lease.cluster.brokers

    def address(self, broker: int) -> str:
        """Where clients reach a broker."""
        return self.lease.cluster.client_address(broker)

    def link(self, broker: int) -> Any:
        """What every connection to a broker passes."""
        return self.brokers[broker].link

    @property
    def in_kraft(self) -> bool:
        """Whether the cluster runs without ZooKeeper."""
        return self.lease.profile.metadata_mode == KRAFT

    @property
    def controller_links(self) -> list[Any]:
        """What connections to controllers that are no brokers pass."""
        return [node.link for node in self.lease.cluster.controllers.values()]

    def leader_before(self, step: StoryStep) -> int:
        """The broker that leads when a step begins."""
        leader = self.story.leader(step.before)
        assert leader is not None, f"no broker leads before: {step.sentence}"
        return leader

    # --- What is observed ------------------------------------------------------------------------------------------

    def logs(self, broker: int) -> dict[str, list[tuple[int, int]]]:
        """(producer, seq) of what a broker holds, by topic."""
        found = read_replicas(self.brokers[broker], [(part.topic, 0) for part in self.parts])
        values = {place[0]: [one.value for one in replica.records] for place, replica in found.items()}
        return {part.topic: part.identities(values.get(part.topic, ())) for part in self.parts}

    def offset(self, part: Part, broker: int, place: int) -> int:
        """Where a broker holds the record that the story has at an offset: records of others may come in between."""
        held = self.logs(broker)[part.topic]
        places = [place for place, (producer, _) in enumerate(held) if producer != OTHER]
        if place >= len(places):
            raise TraceNotReproduced(
                f"broker {broker} holds {len(places)} records of lane {part.story.lane.lane}: none at {place}"
            )
        return places[place]

    def in_isr(self, part: Part, broker: int) -> bool:
        """Whether the controller has a broker in the ISR of a part."""
        found = self.lease.metadata.partition(part.topic)
        return found is not None and broker in found.isr

    def isrs(self) -> str:
        """Leader and ISR of every part, for messages."""
        return "; ".join(f"{part.topic}: {self.lease.metadata.partition(part.topic)}" for part in self.parts)

    def await_leader(self, broker: int) -> None:
        """Wait until the controller has the broker as leader of every part, and the broker knows."""

        def leads() -> bool:
            found = [self.lease.metadata.partition(part.topic) for part in self.parts]
            if any(one is None or one.leader != broker for one in found):
                return False
            try:
                with BrokerClient(self.address(broker)) as client:
                    return all(client.metadata(part.topic).leader == broker for part in self.parts)
            except BrokerUnreachable:
                return False

        wait_until(leads, f"broker {broker} to lead", timeout=TIMEOUT, seen=self.isrs)

    # --- Brokers and model -----------------------------------------------------------------------------------------

    def await_log(self, broker: int, number: int) -> None:
        """Wait until a broker holds what the model tells of it after a step."""
        what = f"broker {broker} to hold what the model tells"
        await_no_difference(lambda: self.logs_differ(broker, number), what, timeout=TIMEOUT)

    def logs_differ(self, broker: int, number: int) -> str | None:
        """How a broker's logs differ from the model's after a step, if they do."""
        held = self.logs(broker)
        for part in self.parts:
            expected = [record_of(value) for value in part.story.replica(part.step(number).after, broker).log]
            holds = [seq for producer, seq in held[part.topic] if producer != OTHER]
            if holds != expected:
                return f"broker {broker} holds records {holds} of lane {part.story.lane.lane}, the model's {expected}"
        return None

    def isrs_differ(self, number: int) -> str | None:
        """How leaders and ISRs differ from the model's after a step, if they do."""
        following = self.story.steps[number + 1 : number + 2]
        if following and following[0].name == "shrink_isr":
            # Followers that are behind together may leave together.
            return None
        for part in self.parts:
            after = part.step(number).after
            leader = part.story.leader(after)
            if leader is None or leader in self.away:
                continue
            found = self.lease.metadata.partition(part.topic)
            expected = {part.story.names[i] for i, replica in enumerate(after.replicas) if replica.in_isr}
            # A follower that has caught up joins by itself, whether or not the story has use for it.
            may_join = {part.story.names[action.broker] for action, _ in expand_isr(after, part.story.lane)}
            agree = found is not None and found.leader == leader and expected <= set(found.isr) <= expected | may_join
            if not agree:
                lane = part.story.lane.lane
                return f"leader and ISR of lane {lane} are {found}, the model's {leader} and {sorted(expected)}"
        return None
