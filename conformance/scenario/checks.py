"""Checks acts of a file of scenarios before any cluster starts: their keys, their clusters, and every step."""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.groups.stage import MEMBER_STEPS, GroupStage
from kafka_chaos.conformance.scenario.observed import OBSERVED_BY
from kafka_chaos.conformance.scenario.play import Topic
from kafka_chaos.conformance.scenario.script import OBSERVING, OF_ACTS, PLACE, WHEN, filled
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.conformance.scenario.transactions.stage import TransactionsStage
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.reference_model.lockstep.observation.cluster import Observation, ReplicaObservation

_OF_ACTS = OF_ACTS | {"for", "controller", "load"} | {field.name for field in fields(Topic)}
_OF_CLUSTERS = {field.name for field in fields(ClusterProfile)}


def check_acts(where: str, acts: object, file: Mapping[str, Any]) -> None:
    """Raise `UsageFailure` with the place of the first thing that can't be played."""
    if not isinstance(acts, list) or not acts:
        raise UsageFailure(f"{where}: expected a list of `acts`")
    clusters = {"steady", "quick", *file.get("clusters", {})}
    for number, act in enumerate(acts, 1):
        place = f"{where}, act {number}"
        if not isinstance(act, dict) or not isinstance(act.get("act"), str) or not isinstance(act.get("steps"), list):
            raise UsageFailure(f"{place}: expected `act`, its name, and a list of `steps`")
        _known_keys(place, act, _OF_ACTS)
        for values in act.get("for", [{}]):
            _check_act(place, filled(act, values), clusters, file.get("parts", {}))


def _check_act(place: str, act: Mapping[str, Any], clusters: set[str], parts: Mapping[str, Any]) -> None:
    cluster = act.get("cluster", "steady")
    if isinstance(cluster, dict):
        _known_keys(f"{place}, cluster", cluster, _OF_CLUSTERS)
    elif cluster not in clusters:
        raise UsageFailure(f"{place}: no cluster {cluster!r}: expected one of {', '.join(sorted(clusters))}")
    stages: tuple[type, ...] = (TransactionsStage,) if "transactional" in act else (Stage,)
    _check_steps(place, act.get("before", []), stages, parts)
    _check_steps(place, act["steps"], (GroupStage, *stages) if "group" in act else stages, parts)


def _known_keys(place: str, keys: Mapping[str, Any], known: frozenset[str] | set[str]) -> None:
    if unknown := sorted(set(keys) - known):
        raise UsageFailure(f"{place}: unknown key {unknown[0]!r}: expected {', '.join(sorted(known))}")


def _check_steps(place: str, steps: list[Any], stages: tuple[type, ...], parts: Mapping[str, Any]) -> None:
    for number, step in enumerate(steps, 1):
        if isinstance(step, list):
            _check_steps(f"{place}, step {number}", step, stages, parts)
            continue
        if not isinstance(step, str | dict) or not step:
            raise UsageFailure(f"{place}, step {number}: expected a step's name, or a mapping that begins with it")
        keys = {step: None} if isinstance(step, str) else dict(step)
        if (when := keys.pop("when", None)) is not None and when not in WHEN:
            raise UsageFailure(f"{place}, step {number}: when {when!r}: expected {' or '.join(WHEN)}")
        verb = next(iter(keys))
        _check_step(f"{place}, step {number}", verb, keys.pop(verb), keys, stages, parts)


def _check_step(
    place: str, verb: str, value: Any, keys: Mapping[str, Any], stages: tuple[type, ...], parts: Mapping[str, Any]
) -> None:
    if verb in OBSERVING:
        _check_observed(place, verb, value, keys, stages)
        return
    if verb in parts or PLACE.search(verb) or (GroupStage in stages and verb in MEMBER_STEPS):
        return
    name = verb.replace(" ", "_")
    method = next((getattr(stage, name) for stage in stages if callable(getattr(stage, name, None))), None)
    if method is None or name.startswith("_"):
        raise UsageFailure(f"{place}: {verb!r} is neither a step nor a part")
    arguments = value if isinstance(value, list) else [] if value is None else [value]
    try:
        inspect.signature(method).bind(None, *arguments, **{key.replace(" ", "_"): keys[key] for key in keys})
    except TypeError as error:
        raise UsageFailure(f"{place}: {verb}: {error}") from error


def _check_observed(place: str, verb: str, value: Any, keys: Mapping[str, Any], stages: tuple[type, ...]) -> None:
    of_fact = {
        "fact": [keys.get("of", "")],
        "remember": list(value.values()) if verb == "remember" else [],
        "table": [],
    }
    for name in of_fact.get(verb, [key for key in keys if key != "eventually"]):
        word = str(name).partition("(")[0]
        known = any(word in OBSERVED_BY[stage] or hasattr(stage, word.replace(" ", "_")) for stage in stages)
        attributes = {field.name for kind in (*stages, Observation, ReplicaObservation) for field in fields(kind)}
        if not known and word.replace(" ", "_") not in attributes:
            raise UsageFailure(f"{place}: {verb}: {word!r} is nothing that can be observed")
