"""The record of a scenario, and its JSON: each step has the observation of Kafka and how many states the model allows.

The verdict is `conforms` if the model allows what was observed after every step and every expectation held,
`violation` if not, and `unknown` if the environment failed earlier.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, TypeAdapter

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.reference_model.lockstep.observation import Difference, Observation, ReplicaObservation

FORMAT_VERSION = 1

REPLICAS_ACT, TRANSACTIONS_ACT = "replicas", "partitions"
"""The kinds of acts, by what an act observes: one partition's replicas, or several partitions with transactions."""


def json_value(value: Any) -> Any:
    """A value as JSON: tuples as lists, dataclasses as objects, sets as sorted lists, keys and other types as text."""
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted((json_value(item) for item in value), key=repr)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_value(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def observation_json(observation: Observation) -> dict[str, Any]:
    """An observation as JSON values; what was not observed is left out."""
    names = [field.name for field in fields(ReplicaObservation)]
    return {
        "partition": _not_none(observation, ("leader", "leader_epoch", "isr", "controller_epoch")),
        "replicas": {str(broker): _not_none(replica, names) for broker, replica in observation.replicas.items()},
        **_not_none(observation, ("acknowledged", "group", "shares", "transactions")),
    }


def _not_none(observed: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: json_value(value) for name in names if (value := getattr(observed, name)) is not None}


_JSON = PlainSerializer(json_value)


def _with_partition_fields(observed: Any) -> Any:
    """An observation as `observation_json` writes it, with the partition's fields beside the others again."""
    if not isinstance(observed, dict) or "replicas" not in observed or not isinstance(observed.get("partition"), dict):
        raise ValueError("expected an object with a partition and replicas")
    return {**observed["partition"], **observed}


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step: a sentence about what was done, the observation after it, and its differences from the model.

    `allowed_states`: in how many states of the model the step may end; `matching_states`: how many fit the observation.
    `seconds` is the time from the action to the observation that counts: the second of two equal ones.
    """

    number: Annotated[int, Field(alias="step")]
    sentence: str
    seconds: Annotated[float, PlainSerializer(lambda seconds: round(seconds, 3))]
    observation: Annotated[
        Observation, BeforeValidator(_with_partition_fields), PlainSerializer(observation_json), Field(alias="observed")
    ]
    allowed_states: int
    matching_states: int
    differences: Annotated[tuple[Difference, ...], _JSON]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A value that the scenario expects, described by `text`, and the value that was seen."""

    text: str
    expected: Annotated[Any, _JSON]
    seen: Annotated[Any, _JSON]
    holds: bool


@dataclass
class ActRecord:
    """One act: the profile of its cluster, its steps, expectations, and facts that were measured or quoted.

    `replicas` are ids of brokers, `names` the scenario's names for them, and `protocol` is how followers truncate. If
    `kind` is `TRANSACTIONS_ACT`, `replicas` are numbers of partitions and `protocol` is the producers' protocol.
    """

    name: str
    profile: Annotated[str, Field(alias="cluster")]
    protocol: str
    replicas: tuple[int, ...]
    names: dict[int, str]
    steps: list[StepRecord] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    facts: Annotated[dict[str, Any], _JSON] = field(default_factory=dict)
    kind: str = REPLICAS_ACT

    def replica_name(self, number: int) -> str:
        """The name of one of `replicas`: `X (broker 1)`, `broker 1` if `names` has none, or `partition 0`."""
        if self.kind == TRANSACTIONS_ACT:
            return f"partition {number}"
        name = self.names.get(number)
        return f"{name} (broker {number})" if name else f"broker {number}"


@dataclass
class ScenarioRecord:
    """One run of a scenario; `document` is the title of the document that describes the behaviour."""

    scenario: str
    document: str
    title: str
    verdict: Verdict = Verdict.UNKNOWN
    reason: str | None = None
    seconds: Annotated[float, PlainSerializer(lambda seconds: round(seconds, 1))] = 0.0
    acts: list[ActRecord] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        values: dict[str, Any] = TypeAdapter(ScenarioRecord).dump_python(self, mode="json", by_alias=True)
        return values
