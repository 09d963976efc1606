"""The meaning of every configuration key for a prediction, as configuration.toml states it.

Guarantee: a key that configuration.toml does not list is unmodelled, whatever its value.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.families import ALL_ANOMALIES, AnyAnomaly, anomaly_named
from kafka_chaos.contract.lane.metadata import release

KINDS = ("broker", "topic", "producer", "consumer")
MODELLED, NEUTRAL, UNMODELLED = "modelled", "neutral", "unmodelled"
_CLIENT = "client"
_TABLE = package_toml(__package__, "configuration.toml")


@dataclass(frozen=True, slots=True)
class Classification:
    """How the model treats a configuration key, and why.

    `touches`: the anomalies whose prediction the key may make wrong, unless its value meets a rule in `harmless`.
    A rule is a pair: `values` and a list, `least` or `most` and a number, or `version` and the first harmless version.
    """

    status: str
    why: str
    touches: frozenset[AnyAnomaly] = frozenset()
    harmless: tuple[tuple[str, Any], ...] = ()

    def allows(self, value: object) -> bool:
        """Whether the prediction holds with this value."""
        return self.status != UNMODELLED or any(_holds(rule, bound, value) for rule, bound in self.harmless)


def config_text(value: object) -> str:
    """A configuration value as Kafka's properties write it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _holds(rule: str, bound: Any, value: object) -> bool:
    text = config_text(value).strip()
    if rule == "values":
        return bool(text in bound)
    try:
        if rule == "version":
            # A value such as 2.8-IV1 names a protocol of release 2.8.
            return release(text.partition("-")[0]) >= release(bound)
        return bool(float(text) >= bound if rule == "least" else float(text) <= bound)
    except ValueError:
        return False


UNCLASSIFIED = Classification(UNMODELLED, "configuration.toml does not list it", frozenset(ALL_ANOMALIES))


def dotted(key: str) -> str:
    """A key as Kafka writes it: clients in Python have `linger_ms` for `linger.ms`."""
    return key.replace("_", ".")


def classifications(kind: str, key: str) -> Iterator[Classification]:
    """The classifications of a key in configuration.toml: exactly one for a key of Kafka's, none for an unknown key."""
    kinds = (kind, _CLIENT) if kind in ("producer", "consumer") else (kind,)
    for group in _TABLE["group"]:
        if any(fnmatchcase(key, pattern) for name in kinds for pattern in group.get(name, ())):
            yield Classification(
                group["status"],
                group["why"],
                frozenset(_anomalies_of(group.get("touches", ()))),
                tuple(group.get("harmless", {}).items()),
            )


@cache
def classify(kind: str, key: str) -> Classification:
    """How the model treats a key of a `broker`, `topic`, `producer` or `consumer`."""
    return next(classifications(kind, key), None) or next(classifications(kind, dotted(key)), UNCLASSIFIED)


def _anomalies_of(names: Iterable[str]) -> Iterator[AnyAnomaly]:
    for name in names:
        if name == "*":
            yield from ALL_ANOMALIES
        elif name in _TABLE["sets"]:
            yield from _anomalies_of(_TABLE["sets"][name])
        else:
            yield anomaly_named(name)


@cache
def unjudged_by(key: str) -> Mapping[AnyAnomaly, str]:
    """The anomalies that are not judged where an experiment lists this key under `assume`, each with the reason.

    They are the anomalies that it touches as a broker's, topic's, producer's or consumer's key, where it is unmodelled.
    """
    groups = [group for kind in KINDS for group in classifications(kind, key)] or [UNCLASSIFIED]
    return {
        anomaly: f"{key} is assumed to do no harm, and the model does not know it: {group.why}"
        for group in groups
        if group.status == UNMODELLED
        for anomaly in ALL_ANOMALIES
        if anomaly in group.touches
    }


def risky_keys(kind: str, configs: Mapping[str, object], anomalies: Iterable[AnyAnomaly]) -> Iterator[tuple[str, str]]:
    """The keys whose values may make a prediction for these anomalies wrong, each with a message that says why."""
    looked_for = frozenset(anomalies)
    for key, value in configs.items():
        group = classify(kind, key)
        if not group.allows(value) and (touched := group.touches & looked_for):
            judged = "no anomaly will" if touched == looked_for else f"{', '.join(sorted(touched))} will not"
            message = f"{key}={config_text(value)}: the model does not know it: {group.why}"
            yield key, f"{message}; leave it out, or allow it by assume: [{key}]; then {judged} be judged"
