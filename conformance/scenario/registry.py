"""Scenarios by id: functions and YAML files, in packages that the entry point group `kafka_chaos.scenarios` names.

Such a package has `SOURCES`: the source of each of its scenarios by id, in the order in which they are listed, run
and documented. It may have `DIFFERENCES`: where the documents and the brokers differ. Its scenarios are in its modules
and YAML files, and in those of the packages below it.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract.errors import EnvironmentFailure

if TYPE_CHECKING:
    from kafka_chaos.conformance.scenario.play import Play

GROUP = "kafka_chaos.scenarios"

_REGISTERED: dict[str, Scenario] = {}


@dataclass(frozen=True, slots=True)
class Document:
    """A text that describes behaviours of Kafka: its title in English, its own title, and its date if it has one."""

    title: str
    original_title: str
    date: str | None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a behaviour is documented. The section is named in English and as in the document itself."""

    document: Document
    section: str
    original_section: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What a document says, what the brokers do instead, since which version, and the scenario that shows it.

    `shown_by` is a scenario's id. It is None where no scenario shows the difference.
    """

    document: Document
    says: str
    brokers_do: str
    since: str
    shown_by: str | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of a scenario without importing it. `file` is a path from the project's root."""

    id: str
    source: Source
    title: str
    story: str
    file: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A documented behaviour: its id, its source, what it shows in one line, and its steps.

    `needs_zookeeper`: why it can't be run in KRaft mode; None where it can. `file`: where its steps are, as a path from
    the project's root; without it, in the module of `play`.
    """

    id: str
    source: Source
    title: str
    play: Callable[[Play], None]
    needs_zookeeper: str | None = None
    file: str = ""

    @property
    def outline(self) -> Outline:
        """The scenario without its steps; its story is the docstring of the function."""
        story = " ".join((self.play.__doc__ or "").split())
        return Outline(self.id, self.source, self.title, story, self.file or _file(self.play.__module__))


def scenario(
    scenario_id: str, *, title: str, needs_zookeeper: str | None = None
) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:
    """Register a function as a scenario; its docstring is its story. `needs_zookeeper`: see `Scenario`."""

    def register(play: Callable[[Play], None]) -> Callable[[Play], None]:
        package = _package_of(play.__module__)
        if scenario_id not in package.SOURCES:
            raise LookupError(f"{scenario_id!r} has no source in SOURCES of {package.__name__}")
        _REGISTERED[scenario_id] = Scenario(scenario_id, package.SOURCES[scenario_id], title, play, needs_zookeeper)
        return play

    return register


def packages() -> tuple[ModuleType, ...]:
    """The installed packages of scenarios, this project's first."""
    names = {entry.value for entry in entry_points(group=GROUP)}
    if not names:
        raise EnvironmentFailure(f"no package of {GROUP} is installed: reinstall kafka-chaos")
    ordered = sorted(names, key=lambda name: (not name.startswith("kafka_chaos."), name))
    return tuple(importlib.import_module(name) for name in ordered)


def all_scenarios() -> dict[str, Scenario]:
    """Every scenario by id, in the order of the packages and of their `SOURCES`."""
    order: list[str] = []
    for package in packages():
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
        _REGISTERED.update({one.id: one for one in _scripts(package)})
        order += package.SOURCES
    missing = sorted(set(order) - set(_REGISTERED))
    if missing:
        raise LookupError(f"SOURCES names scenarios that no module registers: {missing}")
    return {name: _REGISTERED[name] for name in order}


def outlines() -> dict[str, Outline]:
    """Every scenario's outline by id, in the order of `SOURCES`, read from the files without importing them.

    If a scenario is not registered by a decorator with plain arguments, all scenarios are imported.
    """
    found: dict[str, Outline] = {}
    order: list[str] = []
    for package in packages():
        order += package.SOURCES
        found.update({one.id: one.outline for one in _scripts(package)})
        for folder in package.__path__:
            for file in sorted(Path(folder).rglob("*.py")):
                module = ".".join((package.__name__, *file.relative_to(folder).with_suffix("").parts))
                found.update({outline.id: outline for outline in _outlines_in(file, module, package)})
    if set(found) != set(order):
        return {name: scenario.outline for name, scenario in all_scenarios().items()}
    return {name: found[name] for name in order}


def read_documents(file: Path) -> tuple[dict[str, Source], tuple[Difference, ...]]:
    """What a package documents, from a file in TOML: its `SOURCES` and its `DIFFERENCES`."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    documents: dict[str, Document] = {}
    sources: dict[str, Source] = {}
    for name, one in content["documents"].items():
        documents[name] = Document(one["title"], one.get("original_title", one["title"]), one.get("date"))
        sources |= {scenario: Source(documents[name], *section) for scenario, section in one["scenarios"].items()}
    differ = tuple(Difference(**{**one, "document": documents[one["document"]]}) for one in content["differences"])
    return sources, differ


def differences() -> tuple[Difference, ...]:
    """Where the documents and the brokers differ."""
    return tuple(one for package in packages() for one in getattr(package, "DIFFERENCES", ()))


def _scripts(package: ModuleType) -> Iterator[Scenario]:
    """The scenarios in a package's YAML files (`script.py`)."""
    from ruamel.yaml import YAML

    for folder in map(Path, package.__path__):
        for path in sorted(folder.rglob("*.yaml")):
            content = YAML(typ="safe").load(path)
            place = Path(_folder(package.__name__)) / path.relative_to(folder)
            for name, one in content["scenarios"].items():
                play = _played(one["acts"], content)
                play.__doc__ = one["story"]
                needs = one.get("needs_zookeeper")
                yield Scenario(name, package.SOURCES[name], one["title"], play, needs, place.as_posix())


def _played(acts: Sequence[Mapping[str, Any]], file: Mapping[str, Any]) -> Callable[[Play], None]:
    def play(play: Play) -> None:
        from kafka_chaos.conformance.scenario.script import play_acts

        play_acts(play, acts, file)

    return play


def _package_of(module: str) -> ModuleType:
    """The package of scenarios that a module belongs to: the next one above it that has `SOURCES`."""
    name = module.rpartition(".")[0]
    while name:
        package = importlib.import_module(name)
        if hasattr(package, "SOURCES"):
            return package
        name = name.rpartition(".")[0]
    raise LookupError(f"no package above {module} has SOURCES")


def _file(module: str) -> str:
    """A module's file from the project's root."""
    return f"{_folder(module)}.py"


def _folder(package: str) -> str:
    return package.removeprefix("kafka_chaos.").replace(".", "/")


def _outlines_in(file: Path, module: str, package: ModuleType) -> Iterator[Outline]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for call in node.decorator_list:
            match call:
                case ast.Call(
                    func=ast.Name(id="scenario"),
                    args=[ast.Constant(value=str(name))],
                    keywords=[ast.keyword(arg="title", value=ast.Constant(value=str(title))), *_],
                ):
                    story = " ".join((ast.get_docstring(node) or "").split())
                    yield Outline(name, package.SOURCES[name], title, story, _file(module))
