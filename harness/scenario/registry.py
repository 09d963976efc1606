"""Scenarios by id: functions of a `Play`, found in `experiments/seeds/`."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.harness.errors import UsageFailure

if TYPE_CHECKING:
    from kafka_chaos.harness.scenario.play import Play

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

    @property
    def outline(self) -> Outline:
        """What can be told without playing it."""
        source = f"experiments/seeds/{Path(inspect.getfile(self.play)).name}"
        return Outline(self.id, self.document, self.title, self.story, source)


@dataclass(frozen=True, slots=True)
class Outline:
    """What there is to tell of a scenario without importing it: `source` is its file, from the project's root."""

    id: str
    document: str
    title: str
    story: str
    source: str


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


def outlines() -> dict[str, Outline]:
    """Every scenario's outline by id, in the order of the documents, read from the sources without importing them.

    Scenarios that are not registered by a decorator with plain arguments are imported after all.
    """
    package = importlib.import_module(SEEDS)
    found = {}
    for folder in package.__path__:
        for file in sorted(Path(folder).glob("*.py")):
            found.update({outline.id: outline for outline in _outlines_in(file)})
    if set(found) != set(package.ORDER):
        return {name: scenario.outline for name, scenario in all_scenarios().items()}
    return {name: found[name] for name in package.ORDER}


def _outlines_in(file: Path) -> Iterator[Outline]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for call in node.decorator_list:
            match call:
                case ast.Call(func=ast.Name(id="scenario"), args=[ast.Constant(value=str(name))], keywords=keywords):
                    given = {one.arg: one.value.value for one in keywords if isinstance(one.value, ast.Constant)}
                    if {"document", "title"} <= given.keys():
                        story = " ".join((ast.get_docstring(node) or "").split())
                        source = f"experiments/seeds/{file.name}"
                        yield Outline(name, str(given["document"]), str(given["title"]), story, source)
