"""One scenario, two interpreters: each step is taken on real brokers and on the model, and then they must agree.

After a step every replica is looked at until two equal looks in a row are a state that the model may settle
in; that is the condition a step waits for, never time. If it does not come true, the differing replica and field are
named. What is seen narrows the model's states, so that later steps are as exact as the looks allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.harness.broker_client import BrokerClient
from kafka_chaos.harness.errors import ClusterFailure, KafkaChaosError, WaitTimeout
from kafka_chaos.harness.node import Node
from kafka_chaos.harness.scenario.clients import Clients, read_to_end
from kafka_chaos.harness.scenario.house import Tenancy
from kafka_chaos.harness.scenario.looking import Eyes
from kafka_chaos.harness.scenario.record import ActRecord, Expectation, StepRecord
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.cluster_model import ClusterModel, Step
from kafka_chaos.reference_model.cluster_observation import Comparison, Observation, ReplicaObservation, observe_state
from kafka_chaos.reference_model.cluster_state import ClusterState

SETTLE_TIMEOUT = 45.0
"""Seconds until brokers that do not agree with the model are said to disagree."""

Listener = Callable[[str, Any], None]


class ScenarioViolation(Exception):
    """Kafka and the model disagree after a step, or an expectation does not hold."""


@dataclass
class LockStep:
    """A running act on a cluster and on the model: taking steps, looking, expecting. Brokers are named by id."""

    tenancy: Tenancy
    topic: str
    model: ClusterModel
    act: ActRecord
    clients: Clients
    eyes: Eyes
    tell: Listener
    began: float = field(default_factory=time.time)

    def take(self, sentence: str, act: Callable[[], object], *actions: Step) -> None:
        """Any other step: `act` does on Kafka what `actions` do in the model."""
        self._take(sentence, act, *actions)

    def await_seen(self, sentence: str, condition: Callable[[Observation], bool], *, timeout: float = 40) -> None:
        """A step that waits for something to be seen that nobody has to do anything for.

        Where it is not seen in time, though the cluster could be looked at, it is Kafka that does not do it.
        """
        last: Observation | None = None

        def seen() -> bool:
            nonlocal last
            try:
                last = self.eyes.look()
            except KafkaChaosError:
                return False
            return condition(last)

        def wait() -> None:
            try:
                wait_until(seen, f"this to be seen: {sentence}", timeout=timeout, interval=0.1)
            except WaitTimeout as error:
                if last is None:
                    raise
                states = self.model.states
                self._note(sentence, timeout, last, self.model.compare(last), len(states))
                raise ScenarioViolation(f"{self.act.name}: {error}") from error

        self._take(sentence, wait)

    def settle(self, sentence: str) -> None:
        """A step that does nothing but wait until Kafka and the model agree."""
        self._take(sentence, lambda: None)

    # --- Looks -----------------------------------------------------------------------------------------------------

    def node(self, broker: int) -> Node:
        """A broker's container."""
        return self.tenancy.cluster.brokers[broker]

    def name(self, broker: int) -> str:
        """What the story calls a broker."""
        given = self.act.names.get(broker)
        return f"{given} (broker {broker})" if given else f"Broker {broker}"

    def high_watermarks(self, seen: Observation | None = None) -> list[int | None]:
        """The high watermarks of all replicas in memory, in assignment order."""
        return [(seen or self.seen).replicas[broker].high_watermark for broker in self.act.replicas]

    def ask(self, broker: int) -> BrokerClient:
        """A connection to a broker's client port."""
        return BrokerClient(self.tenancy.cluster.client_address(broker))

    @property
    def seen(self) -> Observation:
        """The look after the last step."""
        return self.act.steps[-1].observation

    def replica(self, broker: int) -> ReplicaObservation:
        """A replica as it was seen after the last step."""
        return self.seen.replicas[broker]

    def log(self, broker: int) -> list[str]:
        """The names of the records that a broker held after the last step, in offset order."""
        return [record for _, record, _ in self.replica(broker).log or ()]

    def read(self) -> list[str]:
        """What a consumer sees from the beginning to the end it is told of."""
        return [record for _, record in read_to_end(self.tenancy.cluster.bootstrap_servers, self.topic)]

    def answered(self, record: str) -> float:
        """When a record's producer was answered, by the monotonic clock, in seconds; `KeyError` if it was not."""
        return {answer.record: answer.at for answer in self.clients.answers()}[record]

    def await_line(self, broker: int, *parts: str, timeout: float = 30.0) -> str:
        """The first line of a broker's log since the act began that has all of `parts`; waits for it."""

        def find() -> str | None:
            lines = self.node(broker).log_since(self.began).splitlines()
            return next((line for line in lines if all(part in line for part in parts)), None)

        return wait_until(find, f"{self.name(broker)} to log {' … '.join(parts)!r}", timeout=timeout, interval=0.2)

    # --- Expectations ----------------------------------------------------------------------------------------------

    def expect(self, text: str, *, seen: Any, expected: Any = True) -> None:
        """Something that must hold exactly as it was seen; raises `ScenarioViolation` where it does not."""
        expectation = Expectation(text, expected, seen, seen == expected)
        self.act.expectations.append(expectation)
        self.tell("expectation", expectation)
        if not expectation.holds:
            raise ScenarioViolation(f"{text}: expected {expected!r}, seen {seen!r}")

    def expect_eventually(
        self, text: str, look: Callable[[], Any], *, expected: Any = True, timeout: float = 30
    ) -> None:
        """As `expect`, of something that is looked at until it holds."""
        seen = None

        def holds() -> bool:
            nonlocal seen
            seen = look()
            return bool(seen == expected)

        with suppress(WaitTimeout):
            wait_until(holds, text, timeout=timeout, interval=0.1)
        self.expect(text, seen=seen, expected=expected)

    def fact(self, name: str, value: Any) -> None:
        """Note something measured or quoted, for the record."""
        self.act.facts[name] = value
        self.tell("fact", (name, value))

    # --- The heart -------------------------------------------------------------------------------------------------

    def _take(self, sentence: str, act: Callable[[], object], *actions: Step) -> None:
        # Time has passed since the last look: whatever may happen of itself may have happened.
        self.model.states = self.model.settle(self.model.states)
        start = time.monotonic()
        act()
        for action in actions:
            self.model.apply(action)
        states = len(self.model.states)
        observation, comparison = self._agree()
        if comparison.conforms:
            self.model.states = comparison.matching
        record = self._note(sentence, time.monotonic() - start, observation, comparison, states)
        if not comparison.conforms:
            what = "; ".join(str(difference) for difference in comparison.differences)
            raise ScenarioViolation(f"{self.act.name}, step {record.number} ({sentence}) {what}")

    def _note(
        self, sentence: str, seconds: float, observation: Observation, comparison: Comparison, states: int
    ) -> StepRecord:
        record = StepRecord(
            number=len(self.act.steps),
            sentence=sentence,
            seconds=seconds,
            observation=observation,
            allowed=_allowed(self.model.states),
            states=states,
            matching=len(comparison.matching),
            differences=comparison.differences,
        )
        self.act.steps.append(record)
        self.tell("step", (self.act, record))
        return record

    def _agree(self) -> tuple[Observation, Comparison]:
        """The first two equal looks in a row that the model allows, or the last look and how it differs."""
        last: Observation | None = None
        before: Observation | None = None
        comparison: Comparison | None = None
        trouble: KafkaChaosError | None = None

        def agreed() -> bool:
            nonlocal last, before, comparison, trouble
            try:
                seen = self.eyes.look()
            except KafkaChaosError as error:
                # A file that was being written, a container between two states: looked at again, twice.
                trouble, before = error, None
                return False
            if comparison is None or seen != last:
                comparison = self.model.compare(seen)
            in_a_row, last, before = seen == before, seen, seen
            return comparison.conforms and in_a_row

        try:
            wait_until(agreed, "Kafka and the model to agree", timeout=SETTLE_TIMEOUT, interval=0.1)
        except WaitTimeout:
            if trouble is not None and last is None:
                raise trouble from None
            if last is None or comparison is None:
                raise ClusterFailure("nothing could be seen of the cluster") from trouble
            if comparison.conforms:
                seen = f"; the last trouble: {trouble}" if trouble else ""
                raise ClusterFailure(f"looks at the cluster did not come to rest{seen}") from trouble
        assert last is not None
        assert comparison is not None
        return last, comparison


def _allowed(states: frozenset[ClusterState], most: int = 8) -> tuple[Observation, ...]:
    """A few of the states as looks, for showing."""
    return tuple(observe_state(state) for state in sorted(states, key=repr)[:most])
