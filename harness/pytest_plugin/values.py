"""The values that a test passes to a run: lanes, load and faults. Each value is checked when it is made.

    from kafka_chaos import kill, lane, load, pause

    kill("leader(orders)").at(5)
    pause("leader(orders)").at(2).lasting(7)

This module imports the registry of fault kinds, and nothing heavy. Functions with `__tracebackhide__` are left out of
the tracebacks that pytest shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Any

from kafka_chaos.contract.lane.lanes import ACKS, Lane
from kafka_chaos.faults.fault import build, parameters
from kafka_chaos.faults.registry import fault_kind
from kafka_chaos.faults.target import Target

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_KEYS_OF_A_RUN = (
    *("lane", "topic", "cleanup_policy", "kafka_version", "metadata_mode", "elr", "faults"),
    *("client", "flushes", "verifies_transactions", "consumer_offsets", "transaction_state", "created_late"),
)
"""The keys of lanes.json that a test can't set. (Tests set `client` as experiments do, see below.)"""
_KEYS_OF_EXPERIMENTS = ("client", "leader", "topic_configs", "producer_configs", "consumer_configs")
LANE_KEYS = (*(key.name for key in fields(Lane) if key.name not in _KEYS_OF_A_RUN), *_KEYS_OF_EXPERIMENTS)
"""The arguments of `lane` besides the name."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault of some kind at a target. `start` and `length` are seconds, or None until `at` and `lasting` set them."""

    kind: str
    target: str
    start: float | None = None
    length: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    def at(self, seconds: float) -> PlannedFault:
        """The same fault, injected `seconds` after the load began."""
        __tracebackhide__ = True
        return replace(self, start=_checked_seconds("at", seconds, at_least=0))

    def lasting(self, seconds: float) -> PlannedFault:
        """The same fault, healed `seconds` after its injection; without this, it is healed when the load ends."""
        __tracebackhide__ = True
        return replace(self, length=_checked_seconds("lasting", seconds, at_least=0))

    def entry(self, load: Load) -> dict[str, Any]:
        """The fault's entry in an experiment's schedule under this load. Raises `ValueError` if no time was set."""
        if self.start is None:
            raise ValueError(
                f'{self.kind}("{self.target}"): no time is set, expected .at(SECONDS), from 0 to {load.seconds:g}'
            )
        length = load.seconds - self.start if self.length is None else self.length
        return {
            "fault": self.kind,
            "target": self.target,
            "at": self.start,
            "duration": max(0.0, length),
            **self.parameters,
        }


@dataclass(frozen=True, slots=True)
class PlannedLane:
    """One topic and one producer configuration; `settings`: the keys of an experiment's lane that the test sets."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of every lane: `rate` records per second for `seconds`, with values of `record_size` bytes.

    `settle_timeout`: how many seconds records in flight may take to get an outcome, and replicas and consumers to catch
    up. An application's own producer sends at its own rate and size.
    """

    rate: int = 1_000
    seconds: float = 10.0
    record_size: int = 100
    settle_timeout: float = 90.0

    def __post_init__(self) -> None:
        __tracebackhide__ = True
        _require_whole("rate", self.rate, at_least=1)
        _checked_seconds("seconds", self.seconds, at_least=0.001)
        _require_whole("record_size", self.record_size, at_least=20)
        _checked_seconds("settle_timeout", self.settle_timeout, at_least=0)

    def entry(self) -> dict[str, Any]:
        """The key `workload` of an experiment."""
        keys = asdict(self)
        return {"duration": float(keys.pop("seconds")), **keys}


load = Load  # In lower case like `lane` and `kill`, since a test calls it beside them.


def fault(kind: str, target: str, **keys: Any) -> PlannedFault:
    """A fault of any installed kind at a target; `keys` are the keys of this kind in an experiment."""
    __tracebackhide__ = True
    fault_class = fault_kind(kind)
    if not isinstance(target, str):
        raise ValueError(f"{kind}: {target!r} is not a target: expected a role such as 'leader(orders)'")
    built = build(fault_class, target=Target.parse(target), at=0.0, duration=0.0, keys=keys)
    return PlannedFault(kind, target, parameters=parameters(built))


def fault_function(kind: str) -> Callable[..., PlannedFault]:
    """The function that plans a fault of this kind in a test, such as `kill(target)`."""
    planned = partial(fault, kind)
    planned.__doc__ = fault_kind(kind).__doc__
    return planned


def lane(name: str, **keys: Any) -> PlannedLane:
    """One topic and one producer configuration; targets and the report refer to it as `name`.

    `keys` are the keys of a lane in an experiment file; None means that the key is absent. The defaults: acks=all
    without idempotence, one partition, three replicas (fewer if the cluster has fewer brokers), min.insync.replicas 1.
    `topic_configs` takes Kafka's keys, `producer_configs` and `consumer_configs` take the keys of the `client`.
    `assume` lists Kafka's keys that the lane may set although the model does not know them: anomalies that depend on
    them are not judged. `transactional`, `group` and `loop` take mappings, such as `{"size": 10}`,
    `{"commits": "before"}` and `{"source": "orders", "offsets": "after"}`.
    """
    __tracebackhide__ = True
    any_name: object = name  # A test without type checks may pass anything.
    if not isinstance(any_name, str) or not any_name:
        raise ValueError(f"name: {name!r} is not valid: expected the lane's name, as in lane('orders')")
    for key in keys:
        if key not in LANE_KEYS:
            raise TypeError(f"lane() has no argument {key}: expected one of {', '.join(LANE_KEYS)}")
    acks = keys.get("acks")
    if acks is not None and str(acks) not in ACKS:
        raise ValueError(f"acks: {acks!r} is not valid: expected 0, 1 or 'all'")
    settings = {key: dict(value) if isinstance(value, Mapping) else value for key, value in keys.items()}
    return PlannedLane(name, {key: value for key, value in settings.items() if value is not None})


# Editors and `help` show the keys of `lane` by this signature.
_KEYWORDS = (Parameter(key, Parameter.KEYWORD_ONLY, default=None) for key in LANE_KEYS)
lane.__signature__ = Signature([Parameter("name", Parameter.POSITIONAL_OR_KEYWORD), *_KEYWORDS])  # type: ignore[attr-defined]


def _checked_seconds(name: str, value: object, *, at_least: float) -> float:
    __tracebackhide__ = True
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= at_least:
        raise ValueError(f"{name}: {value!r} is not valid: expected seconds, at least {at_least:g}")
    return float(value)


def _require_whole(name: str, value: object, *, at_least: int) -> None:
    __tracebackhide__ = True
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise ValueError(f"{name}: {value!r} is not valid: expected a whole number, at least {at_least}")
