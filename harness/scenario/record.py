"""What a scenario leaves behind: each step with what was seen of Kafka and what the model allows, as JSON.

`verdict` is `conforms` where every look after every step was a state that the model allows and every expectation
held; `violation` where one did not; `unknown` where the machine failed before it came to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from kafka_chaos.reference_model.cluster_observation import Difference, Observation, ReplicaObservation

CONFORMS, VIOLATION, UNKNOWN = "conforms", "violation", "unknown"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step: what was done in a sentence, the look after it, and what the model allowed.

    `allowed` has a look per allowed way the step may have ended, at most a few; `states` counts them all before, and
    `matching` after the look. `seconds` is from the action to the second equal look.
    """

    number: int
    sentence: str
    seconds: float
    observation: Observation
    allowed: tuple[Observation, ...]
    states: int
    matching: int
    differences: tuple[Difference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "step": self.number,
            "sentence": self.sentence,
            "seconds": round(self.seconds, 3),
            "observed": observation_json(self.observation),
            "allowed_states": self.states,
            "matching_states": self.matching,
            "differences": [
                {
                    "broker": difference.broker,
                    "field": difference.field,
                    "observed": plain(difference.observed),
                    "allowed": [plain(value) for value in difference.allowed],
                }
                for difference in self.differences
            ],
        }


@dataclass(frozen=True, slots=True)
class Expectation:
    """Something that the scenario says must hold exactly, and what was found."""

    text: str
    expected: Any
    seen: Any
    holds: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"text": self.text, "expected": plain(self.expected), "seen": plain(self.seen), "holds": self.holds}


@dataclass
class ActRecord:
    """One act: a cluster's kind, its steps, expectations, and facts that were measured or quoted on the way."""

    name: str
    house: str
    protocol: str
    replicas: tuple[int, ...]
    names: dict[int, str]
    steps: list[StepRecord] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "cluster": self.house,
            "protocol": self.protocol,
            "replicas": list(self.replicas),
            "names": {str(broker): name for broker, name in self.names.items()},
            "steps": [step.to_json() for step in self.steps],
            "expectations": [expectation.to_json() for expectation in self.expectations],
            "facts": plain(self.facts),
        }


@dataclass
class ScenarioRecord:
    """One run of a scenario."""

    scenario: str
    document: str
    title: str
    verdict: str = UNKNOWN
    reason: str | None = None
    seconds: float = 0.0
    acts: list[ActRecord] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "scenario": self.scenario,
            "document": self.document,
            "title": self.title,
            "verdict": self.verdict,
            "reason": self.reason,
            "seconds": round(self.seconds, 1),
            "acts": [act.to_json() for act in self.acts],
        }


def observation_json(observation: Observation) -> dict[str, Any]:
    """An observation as JSON values; what was not observed is left out."""
    found: dict[str, Any] = {
        "partition": {
            name: plain(getattr(observation, name))
            for name in ("leader", "leader_epoch", "isr", "controller_epoch")
            if getattr(observation, name) is not None
        },
        "replicas": {str(broker): _replica_json(replica) for broker, replica in observation.replicas.items()},
    }
    if observation.acknowledged is not None:
        found["acknowledged"] = plain(observation.acknowledged)
    return found


def _replica_json(replica: ReplicaObservation) -> dict[str, Any]:
    values = {one.name: getattr(replica, one.name) for one in fields(ReplicaObservation)}
    return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    """A value as JSON has it: tuples as lists, sets sorted, keys as text, and whatever JSON lacks as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)
