"""Scenarios by id: functions of a `Play`, found in `experiments/seeds/`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_chaos.harness.errors import UsageFailure

if TYPE_CHECKING:
    from kafka_chaos.harness.scenario.stage import Play

SEEDS = "kafka_chaos.experiments.seeds"

_REGISTERED: dict[str, Scenario] = {}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A behaviour of a seed document: its id, the document's number, one line of what it shows, and its steps."""

    id: str
    document: str
    title: str
    play: Callable[[Play], None]

    @property
    def story(self) -> str:
        """What it shows, in a paragraph."""
        return " ".join((self.play.__doc__ or "").split())


def scenario(
    scenario_id: str, *, document: str, title: str
) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:
    """Register a function as a scenario; its docstring is its story."""

    def register(play: Callable[[Play], None]) -> Callable[[Play], None]:
        _REGISTERED[scenario_id] = Scenario(scenario_id, document, title, play)
        return play

    return register


def all_scenarios() -> dict[str, Scenario]:
    """Every scenario by id, in the order of the documents."""
    package = importlib.import_module(SEEDS)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{SEEDS}.{module.name}")
    order = {name: number for number, name in enumerate(package.ORDER)}
    missing = sorted(set(order) ^ set(_REGISTERED))
    if missing:
        raise LookupError(f"scenarios without a place, or places without a scenario, in {SEEDS}.ORDER: {missing}")
    return dict(sorted(_REGISTERED.items(), key=lambda item: order[item[0]]))


def find(scenario_id: str) -> Scenario:
    """A scenario by id; raises `UsageFailure` with the ids there are."""
    known = all_scenarios()
    if scenario_id not in known:
        raise UsageFailure(f"{scenario_id!r} is no scenario: expected one of {', '.join(known)}")
    return known[scenario_id]
