"""One scenario, two interpreters: each step is executed on real brokers and in the model, and then both must agree.

After a step every replica is observed until two observations in a row are equal and match a state in which the model
may settle. A step waits for that condition, never for time. If it does not come true, the step names the replica and
the field that differ. Observations narrow the model's states, which makes the comparisons of later steps more exact.
"""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kafka_chaos.conformance.broker_client import ScenarioClient
from kafka_chaos.conformance.scenario.clusters import ClusterLease
from kafka_chaos.conformance.scenario.record import ActRecord, Expectation, StepRecord
from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError, WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.reference_model.lockstep.observation import Comparison, Observation
from kafka_chaos.reference_model.lockstep.stepping import Step, SteppedModel

SETTLE_TIMEOUT = 45.0
"""The seconds within which the brokers must agree with the model; after that, they disagree."""
_PATIENCE = 40.0
"""The seconds within which an awaited observation must come about."""

Listener = Callable[[str, Any], None]
"""A function that is told each event of a scenario: its kind (such as "step") and value (such as the step's record)."""
T = TypeVar("T")


class Observer(Protocol):
    """An observer of an act's topic on Kafka."""

    def observe(self) -> Observation:
        """Observe all that is observable, not all at one moment: rely only on two equal observations in a row."""


class ScenarioViolation(Exception):
    """Kafka and the model disagree after a step, or an expectation does not hold."""


@dataclass
class LockStep:
    """An act that runs on a cluster and on the model: steps, observations, expectations. Brokers are named by id."""

    lease: ClusterLease
    topic: str
    model: SteppedModel[Any]
    act: ActRecord
    clients: Any
    observer: Observer
    notify: Listener
    began: float = field(default_factory=time.time)  # when the act began, in seconds since 1970

    def take(self, sentence: str, on_kafka: Callable[[], object], *actions: Step) -> None:
        """Execute a step: `on_kafka` does on Kafka what `actions` do in the model."""
        # Brokers may have acted by themselves since the last observation: let the model do the same.
        self.model.states = self.model.settle(self.model.states)
        start = time.monotonic()
        on_kafka()
        for action in actions:
            self.model.apply(action)
        allowed_states = len(self.model.states)
        observation, comparison = self._agree()
        self.model.narrow(observation)
        record = self._note(sentence, time.monotonic() - start, observation, comparison, allowed_states)
        if not comparison.conforms:
            differences = "; ".join(map(str, comparison.differences))
            raise ScenarioViolation(f"{self.act.name}, step {record.number} ({sentence}) {differences}")

    def await_seen(self, sentence: str, condition: Callable[[Observation], bool]) -> None:
        """A step that only waits for an observation, which comes about by itself.

        Raises `ScenarioViolation` if the observation does not come about in time, although the cluster can be observed.
        """
        last: Observation | None = None

        def is_seen() -> bool:
            nonlocal last
            try:
                last = self.observer.observe()
            except KafkaChaosError:
                return False
            return condition(last)

        def wait() -> None:
            try:
                wait_until(is_seen, f"this observation: {sentence}", timeout=_PATIENCE, interval=0.1)
            except WaitTimeout as error:
                if last is None:
                    raise
                allowed_states = len(self.model.states)
                self._note(sentence, _PATIENCE, last, self.model.compare(last), allowed_states)
                raise ScenarioViolation(f"{self.act.name}: {error}") from error

        self.take(sentence, wait)

    def settle(self, sentence: str) -> None:
        """A step that does nothing but wait until Kafka and the model agree."""
        self.take(sentence, lambda: None)

    # --- Observations ----------------------------------------------------------------------------------------------

    def node(self, broker: int) -> Node:
        """A broker's container."""
        return self.lease.cluster.brokers[broker]

    def name(self, broker: int) -> str:
        """The name that the scenario gives a broker: `X (broker 1)`, or `broker 1` if it gives none."""
        return self.act.replica_name(broker)

    def connect(self, broker: int) -> ScenarioClient:
        """A new connection to a broker's client port."""
        return ScenarioClient(self.lease.cluster.addresses[broker])

    def answer_from(self, broker: int, question: Callable[[ScenarioClient], T]) -> T:
        """A broker's answer to a question, on a new connection."""
        with self.connect(broker) as client:
            return question(client)

    @property
    def observation(self) -> Observation:
        """The observation after the last step."""
        return self.act.steps[-1].observation

    def await_line(self, broker: int, *parts: str | re.Pattern[str], timeout: float = 30.0) -> str:
        """Wait for a line of a broker's log since the act began that has all of `parts`, and return the first one."""
        patterns = [re.compile(re.escape(part)) if isinstance(part, str) else part for part in parts]

        def first_line() -> str | None:
            lines = self.node(broker).log(since=self.began).splitlines()
            return next((line for line in lines if all(part.search(line) for part in patterns)), None)

        words = " … ".join(part.pattern for part in patterns)
        return wait_until(first_line, f"{self.name(broker)} to log {words!r}", timeout=timeout, interval=0.2)

    # --- Expectations ----------------------------------------------------------------------------------------------

    def expect(self, text: str, seen: Any, expected: Any = True) -> None:
        """Record an expectation; raises `ScenarioViolation` if `seen` is not `expected`."""
        expectation = Expectation(text, expected, seen, seen == expected)
        self.act.expectations.append(expectation)
        self.notify("expectation", expectation)
        if not expectation.holds:
            raise ScenarioViolation(f"{text}: expected {expected!r}, observed {seen!r}")

    def expect_eventually(self, text: str, observe: Callable[[], Any], expected: Any = True) -> None:
        """Like `expect`, but `observe` is repeated until its result is the expected one."""
        seen = None

        def holds() -> bool:
            nonlocal seen
            seen = observe()
            return bool(seen == expected)

        with suppress(WaitTimeout):
            wait_until(holds, text, timeout=_PATIENCE, interval=0.1)
        self.expect(text, seen, expected)

    def fact(self, name: str, value: Any) -> None:
        """Record a measured or quoted value."""
        self.act.facts[name] = value
        self.notify("fact", (name, value))

    # --- Comparison ------------------------------------------------------------------------------------------------

    def _note(
        self, sentence: str, seconds: float, observation: Observation, comparison: Comparison[Any], allowed_states: int
    ) -> StepRecord:
        record = StepRecord(
            number=len(self.act.steps),
            sentence=sentence,
            seconds=seconds,
            observation=observation,
            allowed_states=allowed_states,
            matching_states=len(comparison.matching),
            differences=comparison.differences,
        )
        self.act.steps.append(record)
        self.notify("step", (self.act, record))
        return record

    def _agree(self) -> tuple[Observation, Comparison[Any]]:
        """The first observation that the model allows and that came twice in a row, and its comparison with the model.

        A single observation may show a state that never was, since its parts are not of one moment. When time is over,
        the last observation is returned if the model does not allow it and it came twice in a row: Kafka and the model
        disagree. An observation that came only once proves nothing. Raises `KafkaChaosError` then, or if none came.
        """
        last: Observation | None = None
        comparison: Comparison[Any] | None = None
        is_stable = in_a_row = False
        trouble: KafkaChaosError | None = None

        def agreed() -> bool:
            nonlocal last, comparison, is_stable, in_a_row, trouble
            try:
                observation = self.observer.observe()
            except KafkaChaosError as error:
                # A file was being written, or a container was between two states: observe again, twice.
                trouble, is_stable = error, False
                return False
            in_a_row = is_stable and observation == last
            if comparison is None or observation != last:
                comparison = self.model.compare(observation)
            last, is_stable = observation, True
            return comparison.conforms and in_a_row

        try:
            wait_until(agreed, "Kafka and the model to agree", timeout=SETTLE_TIMEOUT, interval=0.1)
        except WaitTimeout:
            if last is None or comparison is None:
                raise trouble or ClusterFailure("the cluster could not be observed") from None
            if comparison.conforms or not in_a_row:
                last_error = f"; the last error: {trouble}" if trouble else ""
                raise ClusterFailure(f"observations of the cluster never became stable{last_error}") from trouble
        assert last is not None
        assert comparison is not None
        return last, comparison
