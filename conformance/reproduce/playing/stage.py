"""Where a story is played: a cluster with links, the lanes that live through it, and what is observed of them.

Followers fetch only when the story lets them: links hold the answers to their fetches. A follower whose fetch is not
answered gets no further, and the leader knows how far it has come: its last fetch has arrived. One answer at a time
goes on, and brings at most one batch (`replica.fetch.max.bytes` of `ONE_BATCH`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.conformance.engine import await_no_difference
from kafka_chaos.conformance.replica import read_replicas
from kafka_chaos.conformance.reproduce.claims import Story, StoryStep
from kafka_chaos.conformance.reproduce.playing.producer import OTHER, StepProducer
from kafka_chaos.conformance.scenario.clusters import ClusterLease
from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.identity import decode_identity, lane_checksum
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.reference_model.lane.replication import expand_isr
from kafka_chaos.reference_model.lane.state import record_of


class TraceNotReproduced(KafkaChaosError):
    """Brokers did not take a step as the model's trace tells it: nothing is shown."""


ONE_BATCH: Mapping[str, object] = {"replica.fetch.max.bytes": 1, "replica.fetch.response.max.bytes": 1}
"""Broker settings by which an answer to a follower has at most one batch, however small."""
_TIMEOUT = 30.0


@dataclass
class HeldFollowers:
    """The followers of a cluster with links, by broker id. Nobody is held before `hold`."""

    brokers: Mapping[int, Node]
    _rules: dict[int, int] = field(default_factory=dict)
    _number: int = 0

    def hold(self, follower: int) -> None:
        """From now on, no answer to a fetch reaches this follower."""
        if follower not in self._rules:
            self._apply(follower)

    def await_held(self, follower: int, leader: int) -> None:
        """Wait until the leader has the follower's fetch, and its answer is held."""
        wait_until(
            lambda: self._holds(follower, leader),
            f"an answer of broker {leader} to a fetch of broker {follower} to be held",
            timeout=_TIMEOUT,
        )

    def pass_one(self, follower: int, leader: int) -> None:
        """Let one answer of the leader reach the follower, and hold the next."""
        self.await_held(follower, leader)
        before = self._rules[follower]
        # The next rule is there before this one goes: what follows the answer is held, too.
        self._apply(follower)
        self._lift(follower, before, release=True)
        self.await_held(follower, leader)

    def release(self, follower: int) -> None:
        """Let the follower fetch as it likes."""
        rule = self._rules.pop(follower, None)
        if rule is not None:
            self._lift(follower, rule, release=True)

    def release_all(self) -> None:
        """Let all of them fetch."""
        for follower in list(self._rules):
            self.release(follower)

    def _apply(self, follower: int) -> None:
        self._number += 1
        self._rules[follower] = self._number
        name = self.brokers[follower].name
        self._at_all(
            lambda node: node.link.apply(  # type: ignore[union-attr]
                self._rule(follower, self._rules[follower]), action="hold", side="response", api="Fetch", sender=(name,)
            ),
            follower,
        )

    def _lift(self, follower: int, rule: int, *, release: bool) -> None:
        self._at_all(
            lambda node: node.link.lift(self._rule(follower, rule), release=release),  # type: ignore[union-attr]
            follower,
        )

    def _at_all(self, act: Callable[[Node], None], follower: int) -> None:
        for number, node in self.brokers.items():
            if number != follower:
                act(node)

    def _holds(self, follower: int, leader: int) -> bool:
        link = self.brokers[leader].link
        assert link is not None, "the cluster has no links"
        tally = link.tally(self._rule(follower, self._rules[follower]))
        return tally is not None and tally["taken"] > 0

    @staticmethod
    def _rule(follower: int, number: int) -> str:
        return f"story-fetch-{follower}-{number}"


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
        """The link that every connection to a broker passes."""
        return self.brokers[broker].link

    @property
    def in_kraft(self) -> bool:
        """Whether the cluster runs without ZooKeeper."""
        return self.lease.profile.metadata_mode == KRAFT

    @property
    def controller_links(self) -> list[Any]:
        """The links of connections to dedicated controllers."""
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
