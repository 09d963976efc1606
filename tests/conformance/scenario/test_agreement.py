"""A step ends once brokers were seen twice in a row in a state that the model allows, and no earlier."""

from collections.abc import Iterator
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.conformance.scenario import lockstep
from kafka_chaos.conformance.scenario.lockstep import LockStep, ScenarioViolation
from kafka_chaos.conformance.scenario.record import ActRecord
from kafka_chaos.contract.command.errors import ClusterFailure

TROUBLE = ClusterFailure("a file was being written")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep, "SETTLE_TIMEOUT", 1.5)


def taken(observed: Iterator[Any], allowed: set[str]) -> Any:
    """The observation of a step of brokers that show these observations, one after the other."""

    def observe() -> Any:
        observation = next(observed)
        if isinstance(observation, Exception):
            raise observation
        return observation

    def compare(observation: Any) -> Any:
        return SimpleNamespace(conforms=observation in allowed, matching=(), differences=("it differs",))

    model: Any = SimpleNamespace(states=frozenset(), settle=frozenset, compare=compare, narrow=compare)
    act = ActRecord("a", "steady", "kip320", (1,), {})
    observer: Any = SimpleNamespace(observe=observe)
    nobody: Any = None
    stage = LockStep(nobody, "topic", model, act, nobody, observer, lambda kind, what: None)
    stage.settle("Nothing happens.")
    return stage.observation


def forever(*observations: Any) -> Iterator[Any]:
    yield from observations
    while True:
        yield observations[-1]


def test_an_observation_counts_from_the_second_time_in_a_row() -> None:
    observed = forever("bad", "good", "fine", TROUBLE, "fine", "good", "good", "never looked at")
    assert taken(observed, {"good", "fine"}) == "good"
    assert next(observed) == "never looked at"


def test_what_the_model_never_allows_is_a_violation() -> None:
    with pytest.raises(ScenarioViolation, match=r"step 0 \(Nothing happens\.\) it differs"):
        taken(forever("good", "bad"), {"good"})


def test_what_never_lasts_or_is_never_seen_is_a_failure_of_the_cluster() -> None:
    for observed in (cycle(("good", "fine")), cycle(("bad", "worse")), forever("bad", TROUBLE)):
        with pytest.raises(ClusterFailure, match="never became stable"):
            taken(observed, {"good", "fine"})
    with pytest.raises(ClusterFailure, match="a file was being written"):
        taken(forever(TROUBLE), set())
