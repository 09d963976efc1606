"""Schedules drawn from a seed: which fault hits which target, when and for how long.

Guarantee: the same seed, phase and bounds give the same schedule; faults do not overlap, and all are healed before the
load ends. A run writes the drawn schedule into its experiment.yaml, which replays exactly that schedule.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError, model_validator

from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.experiment.refusals import refusals
from kafka_chaos.harness.experiment.specs import ExperimentError, Seconds, WorkloadSpec, _Spec, dotted

_DEFAULT_DURATION = WorkloadSpec().duration


class GenerateSpec(_Spec):
    """The key `generate` of a `schedule`: faults one after another, drawn from the experiment's seed."""

    faults: tuple[str, ...] = Field(min_length=1, strict=False, description="fault kinds to draw from")
    targets: tuple[str, ...] = Field(min_length=1, strict=False, description="targets to draw from")
    count: int | None = Field(default=None, ge=1, le=20, description="how many faults; as many as fit by default")
    first_at: Seconds = Field(default=2.0, description="seconds of load before the first fault, at least")
    duration: tuple[Seconds, Seconds] = Field(
        default=(1.0, 8.0), strict=False, description="shortest and longest duration of a fault, in seconds"
    )
    gap: tuple[Seconds, Seconds] = Field(
        default=(2.0, 5.0),
        strict=False,
        description="shortest and longest time between a fault's end and the next fault, in seconds",
    )

    @model_validator(mode="after")
    def _check(self) -> GenerateSpec:
        for kind in self.faults:
            if kind not in fault_kinds():
                raise ValueError(f"faults: {kind!r} is not a fault kind: expected one of {', '.join(fault_kinds())}")
        for name, (shortest, longest) in (("duration", self.duration), ("gap", self.gap)):
            if shortest > longest:
                raise ValueError(f"{name}: the shortest, {shortest:g} s, is longer than the longest, {longest:g} s")
        return self

    def draw(self, *, seed: int, phase: str, load_seconds: float) -> list[dict[str, Any]]:
        """Entries of a schedule; ValueError if not `count`, or not even one, fit into the load."""
        # A text as seed gives the same numbers on every machine and in every version of Python.
        drawn = random.Random(f"{seed}/{phase}")
        entries: list[dict[str, Any]] = []
        at = self.first_at
        while self.count is None or len(entries) < self.count:
            kind, target = drawn.choice(self.faults), drawn.choice(self.targets)
            duration, gap = round(drawn.uniform(*self.duration), 1), round(drawn.uniform(*self.gap), 1)
            if at + duration > load_seconds:
                break
            entries.append({"fault": kind, "target": target, "at": round(at, 1), "duration": duration})
            at += duration + gap
        wanted = self.count or 1
        if len(entries) < wanted:
            raise ValueError(
                f"only {len(entries)} of {wanted} faults fit into a load of {load_seconds:g} s: lengthen "
                "workload.duration, or shorten duration, gap or first_at"
            )
        return entries


def expand(values: Mapping[str, Any]) -> dict[str, Any]:
    """Draw every `schedule: {generate: …}` of an experiment's values; raises `ExperimentError` with the place."""
    expanded = dict(values)
    if "phases" not in values:
        if _generates(values.get("schedule")):
            expanded.setdefault("seed", _new_seed())
            expanded["schedule"] = _drawn(values, ("phases", 0), expanded["seed"], "main")
        return expanded
    if isinstance(values["phases"], list):
        phases = list(values["phases"])
        for number, phase in enumerate(phases):
            if isinstance(phase, Mapping) and _generates(phase.get("schedule")):
                expanded.setdefault("seed", _new_seed())
                schedule = _drawn(phase, ("phases", number), expanded["seed"], str(phase.get("phase")))
                phases[number] = {**phase, "schedule": schedule}
        expanded["phases"] = phases
    return expanded


def _generates(schedule: object) -> bool:
    return isinstance(schedule, Mapping)


def _new_seed() -> int:
    return random.SystemRandom().randrange(2**31)


def _drawn(phase: Mapping[str, Any], place: tuple[str | int, ...], seed: Any, name: str) -> list[dict[str, Any]]:
    schedule = phase["schedule"]
    if list(schedule) != ["generate"]:
        keys = ", ".join(dotted((key,)) for key in schedule) or "nothing"
        raise ExperimentError((*place, "schedule"), f"expected a list of faults, or the one key generate, got {keys}")
    place = (*place, "schedule", "generate")
    try:
        bounds = GenerateSpec.model_validate(schedule["generate"])
    except ValidationError as error:
        inner, message = refusals(error, GenerateSpec)[0]
        raise ExperimentError((*place, *inner), message) from None
    if isinstance(seed, bool) or not isinstance(seed, int):
        # The experiment's own check refuses it and names the place.
        seed = 0
    workload = phase.get("workload")
    load_seconds = workload.get("duration", _DEFAULT_DURATION) if isinstance(workload, Mapping) else _DEFAULT_DURATION
    if isinstance(load_seconds, bool) or not isinstance(load_seconds, int | float):
        load_seconds = _DEFAULT_DURATION
    try:
        return bounds.draw(seed=seed, phase=name, load_seconds=float(load_seconds))
    except ValueError as error:
        raise ExperimentError(place, str(error)) from error
