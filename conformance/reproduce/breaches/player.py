"""Plays a breach: brokers take its steps, and after each of them they hold what the model tells."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.conformance.engine import Say, TakenStep, TraceNotReproduced, play_trace
from kafka_chaos.conformance.reproduce.breaches.controllers import ELECT, LEARNS, WITNESS, Controllers
from kafka_chaos.conformance.reproduce.breaches.observed import Observed, differs, held_by, observe
from kafka_chaos.conformance.reproduce.breaches.stories import BROKERS, BreachStep, BreachStory, ReadBreach, read
from kafka_chaos.conformance.reproduce.playing.player import Evidence
from kafka_chaos.conformance.reproduce.playing.stage import ONE_BATCH, HeldFollowers
from kafka_chaos.conformance.scenario.clusters import ClusterLease, ClusterPool, ClusterProfile
from kafka_chaos.harness.cluster.broker.answers import NONE, error_name
from kafka_chaos.harness.cluster.broker.client import FETCH_FROM_LEADER, BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.errors import ClusterFailure, WaitTimeout
from kafka_chaos.harness.waiting import wait_until

BREACH_FILE = "breach.json"
"""The steps as they were taken, and what brokers held in the end."""
TIMEOUT = 40.0
_LAG, _LAG_TWICE = 8, 18
"""`replica.lag.time.max.ms` in seconds, where one leader drops a follower, and where two do, one after the other: a
leader of these versions drops every follower that has not caught up for so long."""
_CAUGHT_UP_UNTIL = 0.6
"""How much of that time the followers that stay go on fetching, while the one that is dropped does not."""
_PATIENCE = 3.0
"""How many seconds a follower's fetch is awaited before it is made to fetch again."""


def lag_seconds(story: ReadBreach) -> int:
    """The lag time that a breach needs; 0 where nobody leaves the ISR."""
    names = [step.name for step in story.steps]
    if "shrink_isr" not in names:
        return 0
    return _LAG_TWICE if "expand_isr" in names else _LAG


def profile_of(story: BreachStory, read_story: ReadBreach, kafka_version: str) -> ClusterProfile:
    """The kind of cluster that a breach needs: three replicas, and a broker that has none."""
    lag = lag_seconds(read_story)
    return ClusterProfile(
        name=f"breaches, Kafka {kafka_version}{f', lag time {lag} s' if lag else ''}",
        brokers=WITNESS,
        kafka_version=kafka_version,
        links=True,
        protocol=story.variant,
        lag_is_short=lag > 0,
        configs={
            **ONE_BATCH,
            # Whoever loses a session is replaced, which no step says: on a busy machine, seconds are not enough.
            "zookeeper.session.timeout.ms": 18_000,
            # A controller that asks again has closed the connection on which the first answer would have come.
            "request.timeout.ms": 300_000,
            **({"replica.lag.time.max.ms": lag * 1000} if lag else {}),
        },
    )


@dataclass(frozen=True)
class PlayedBreach:
    """A breach that was played, its run directory, and why it is not shown; empty where it is."""

    story: BreachStory
    kafka_version: str
    path: Path
    left: str = ""


@dataclass
class BreachPlayer:
    """Plays one breach once, on brokers of a version that has its variant."""

    story: BreachStory
    kafka_version: str
    pool: ClusterPool
    root: Path
    say: Say = lambda text: None

    def play(self) -> PlayedBreach:
        """Take every step. Raises `KafkaChaosError` where the environment fails."""
        evidence = Evidence(self.root, f"breach-{self.story.variant}")
        found = read(self.story)
        profile = profile_of(self.story, found, self.kafka_version)
        lease = self.pool.enter(profile)
        stage = _Stage(lease, f"breach-{time.time_ns() % 10**9:09d}", found, evidence.trace)
        assert lease.cluster.links is not None
        lease.cluster.links.trace_to(evidence.trace)
        left = ""
        try:
            stage.take_all(self.say)
        except (TraceNotReproduced, ClusterFailure) as failure:
            left = str(failure)
        finally:
            evidence.note_steps(
                self.kafka_version,
                stage.taken,
                file=BREACH_FILE,
                variant=self.story.variant,
                breaks=sorted(self.story.invariants),
                shown=not left,
                left=left,
                observed=None if stage.seen is None else asdict(stage.seen),
            )
            lease.cluster.links.trace_to(None)
            # Requests are held for brokers that have gone separate ways: nobody else is to get this cluster.
            self.pool.discard(profile)
        return PlayedBreach(self.story, self.kafka_version, evidence.path, left)


@dataclass
class _Stage:
    """One play: a cluster, a topic, the steps that were taken, and what was seen last."""

    lease: ClusterLease
    topic: str
    story: ReadBreach
    trace: Path
    taken: list[TakenStep] = field(default_factory=list)
    seen: Observed | None = None

    def __post_init__(self) -> None:
        brokers = {broker: self.lease.cluster.brokers[broker] for broker in BROKERS}
        self.followers = HeldFollowers(brokers)
        self.controllers = Controllers(self.lease, self.topic, self.followers, self.trace, list(self.story.steps))
        self._led_since = 0.0
        self._has_held = False

    def take_all(self, say: Say) -> None:
        """Take the steps, one after the other. Raises `TraceNotReproduced` for the first that brokers do not take."""
        self.controllers.begin()
        for number, seconds in play_trace(self.story.steps, self._take, self._differs, timeout=TIMEOUT):
            self.taken.append(TakenStep(self.story.steps[number].sentence, seconds))
            say(f"{number + 1:3}. {self.taken[-1]}")

    def _take(self, number: int) -> None:
        step = self.story.steps[number]
        del self.controllers.steps[0]
        if step.name == ELECT:
            self.controllers.elect(step)
        elif step.name in LEARNS:
            self.controllers.learn(step)
            if step.name == "become_leader":
                self._led_since = time.monotonic()
        elif step.name == "write":
            self._write(step)
        elif step.name == "fetch":
            self._fetch(step)
        elif step.name == "advance_high_watermark":
            self._read(step)
        elif step.name == "expand_isr":
            self._join(step)
        # A leader drops a follower by itself: that is awaited with the rest.

    def _write(self, step: BreachStep) -> None:
        """A producer sends a record, which no follower gets before its step."""
        if not self._has_held:
            # Who is dropped has not fetched since the leader leads; the others stay only if they have.
            time.sleep(max(0.0, self._led_since + _CAUGHT_UP_UNTIL * lag_seconds(self.story) - time.monotonic()))
            for broker in BROKERS:
                self.followers.hold(broker)
            self._has_held = True
        record = step.replica(step.broker).log[-1]
        with self._client(step.broker) as client:
            error, offset = client.produce(self.topic, record, acks="1")
        if error != NONE or offset != step.number:
            raise TraceNotReproduced(f"the broker answers {error_name(error)}, offset {offset}")

    def _fetch(self, step: BreachStep) -> None:
        """Answers reach the follower, one by one, until it has the record."""

        def has_it() -> bool:
            if held_by(self.lease, step.broker, self.topic) == step.replica(step.broker).log:
                return True
            self.followers.pass_one(step.broker, step.other)
            return False

        wait_until(has_it, f"broker {step.broker} to fetch", timeout=TIMEOUT)

    def _read(self, step: BreachStep) -> None:
        """Consumers read the records below a leader's high watermark."""
        expected = step.replica(step.broker).log[: step.number]

        def given() -> bool:
            with suppress(BrokerUnreachable), self._client(step.broker) as client:
                answer = client.fetch(self.topic, version=FETCH_FROM_LEADER)
                return answer.error == NONE and all(record.encode() in answer.records for record in expected)
            return False

        wait_until(given, f"broker {step.broker} to give consumers {expected}", timeout=TIMEOUT)

    def _join(self, step: BreachStep) -> None:
        """A follower joins the ISR by fetching, and does so again right after the leader has dropped it.

        It has not caught up, so the leader drops it when it looks the next time: what follows has until then.
        """

        def joins() -> bool:
            # A leader may have dropped it before somebody looked: the next fetch makes it join again.
            with suppress(WaitTimeout):
                return wait_until(lambda: step.other in self._isr(), "it to join", timeout=_PATIENCE, interval=0.02)
            self.followers.cut(step.other)
            return False

        self._await_isr(joins, f"broker {step.other} to join the ISR")
        self._await_isr(lambda: step.other not in self._isr(), f"broker {step.other} to be dropped from the ISR")
        self.followers.cut(step.other)

    def _await_isr(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what, timeout=TIMEOUT, interval=0.02, seen=lambda: str(self._isr()))

    def _isr(self) -> tuple[int, ...]:
        found = self.lease.metadata.partition(self.topic)
        return () if found is None else found.isr

    def _differs(self, number: int) -> str | None:
        try:
            self.seen = observe(self.lease, self.topic)
        except BrokerUnreachable as error:
            # One that is busy may answer the next time.
            return str(error)
        return differs(self.seen, self.story.steps[number], next(iter(self.controllers.steps), None))

    def _client(self, broker: int) -> Any:
        return BrokerClient(self.lease.cluster.client_address(broker))
