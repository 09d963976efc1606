"""Scenarios by id, from the YAML files of packages that the entry point group `kafka_chaos.scenarios` names.

Such a package has `documents.toml`: it names the source of each scenario by id, in the order in which scenarios are
listed, run and documented, and says where documents and brokers differ. The YAML files have the `acts` (`script.py`).
`check_acts` checks the keys, cluster, steps and parts of acts without starting anything. `scenarios_in` calls it for
each file outside of packages. Files of packages are not checked when they are read; a test checks this project's.
"""

import importlib
import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from kafka_chaos.conformance.scenario import script
from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.groups.stage import GroupStage, group_on
from kafka_chaos.conformance.scenario.observed import OBSERVED_BY, AnyStage
from kafka_chaos.conformance.scenario.play import Play, Topic
from kafka_chaos.conformance.scenario.shares.stage import ShareStage, shares_on
from kafka_chaos.conformance.scenario.steps.stage import Stage
from kafka_chaos.conformance.scenario.transactions.stage import TransactionsStage, transactional_act
from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure, quoted
from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.reference_model.lockstep.environment import ACTIONS
from kafka_chaos.reference_model.lockstep.observation import Observation, ReplicaObservation

_ACT_KEYS = script.ACT_KEYS | {"for", "controller", "load"} | {field.name for field in fields(Topic)}
_CLUSTER_KEYS = {field.name for field in fields(ClusterProfile)}
_KEYS_WITHIN = {
    "group": {field.name for field in fields(Group)},
    "reads": set(inspect.signature(group_on).parameters) - {"stage", "group"},
    "shares": set(inspect.signature(shares_on).parameters) - {"stage"},
    "transactional": set(inspect.signature(transactional_act).parameters) - {"play", "name", "profile"},
}
"""The allowed keys of each mapping in an act, by the mapping's own key."""
ENTRY_POINT_GROUP = "kafka_chaos.scenarios"


def check_acts(where: str, acts: object, file: Mapping[str, Any]) -> None:
    """Check the acts of a scenario, which may use the `clusters` and `parts` of its `file`.

    Raises `UsageFailure` with the location, below `where`, of the first key or step that can't be played.
    """
    if not isinstance(acts, list) or not acts:
        raise UsageFailure(f"{where}: expected a list of `acts`")
    for key in ("clusters", "parts"):
        _require_type(f"{where}: {key}", file.get(key, {}), dict)
    for name, keys in file.get("clusters", {}).items():
        _require_known_keys(f"{where}: clusters.{name}", keys, _CLUSTER_KEYS)
    for name, steps in file.get("parts", {}).items():
        _require_type(f"{where}: parts.{name}", steps, list)
    clusters = {"steady", "quick", *file.get("clusters", {})}
    for number, act in enumerate(acts, 1):
        location = f"{where}, act {number}"
        if not isinstance(act, dict) or not isinstance(act.get("act"), str) or not isinstance(act.get("steps"), list):
            raise UsageFailure(f"{location}: expected `act`, its name, and a list of `steps`")
        _require_known_keys(location, act, _ACT_KEYS)
        _require_type(f"{location}, for", act.get("for", []), list)
        for values in act.get("for", [{}]):
            _require_type(f"{location}, for", values, dict)
            _check_act(location, script.fill_placeholders(act, values), clusters, file.get("parts", {}))


def _check_act(location: str, act: Mapping[str, Any], clusters: set[str], parts: Mapping[str, Any]) -> None:
    cluster = act.get("cluster", "steady")
    if isinstance(cluster, dict):
        _require_known_keys(f"{location}, cluster", cluster, _CLUSTER_KEYS)
    elif not isinstance(cluster, str) or cluster not in clusters:
        raise UsageFailure(f"{location}: no cluster {cluster!r}: expected one of {', '.join(sorted(clusters))}")
    for key, allowed in _KEYS_WITHIN.items():
        _require_known_keys(f"{location}, {key}", act.get(key, {}), allowed)
    if "group" in act and "reads" not in act:
        raise UsageFailure(f"{location}: expected `reads` beside `group`, such as reads: {{records: 3}}")
    _require_type(f"{location}, before", act.get("before", []), list)
    plain_stage: type[AnyStage] = TransactionsStage if "transactional" in act else Stage
    _check_steps(location, act.get("before", []), plain_stage, parts)
    stage = GroupStage if "group" in act else ShareStage if "shares" in act else plain_stage
    _check_steps(location, act["steps"], stage, parts)


def _require_type(location: str, value: object, kind: type[list[Any]] | type[dict[str, Any]]) -> None:
    if not isinstance(value, kind):
        raise UsageFailure(f"{location}: expected {'a list' if kind is list else 'a mapping'}, got {quoted(value)}")


def _require_known_keys(location: str, keys: Mapping[str, Any], allowed: frozenset[str] | set[str]) -> None:
    _require_type(location, keys, dict)
    if unknown := sorted(set(map(str, keys)) - allowed):
        raise UsageFailure(f"{location}: unknown key {unknown[0]!r}: expected {', '.join(sorted(allowed))}")


def _check_steps(location: str, steps: list[Any], stage: type[AnyStage], parts: Mapping[str, Any]) -> None:
    for number, step in enumerate(steps, 1):
        if isinstance(step, list):
            _check_steps(f"{location}, step {number}", step, stage, parts)
            continue
        if not isinstance(step, str | dict) or not step or not all(isinstance(key, str) for key in step):
            raise UsageFailure(f"{location}, step {number}: expected a step's name, or a mapping whose first key it is")
        keys = {step: None} if isinstance(step, str) else dict(step)
        if (when := keys.pop("when", None)) is not None and str(when) not in script.WHEN:
            raise UsageFailure(f"{location}, step {number}: when {when!r}: expected {' or '.join(script.WHEN)}")
        verb = next(iter(keys))
        _check_step(f"{location}, step {number}", verb, keys.pop(verb), keys, stage, parts)


def _check_step(
    location: str, verb: str, value: Any, keys: Mapping[str, Any], stage: type[AnyStage], parts: Mapping[str, Any]
) -> None:
    if verb in script.OBSERVATION_STEPS:
        _check_observed(location, verb, value, keys, stage)
        return
    if script.PLACEHOLDER.search(verb):
        return  # Which step it is turns out when the scenario is played: earlier steps fill the placeholder.
    if verb in parts:
        # The part's own steps are checked without it: a part that names itself would never end.
        others = {name: steps for name, steps in parts.items() if name != verb}
        _check_steps(f"{location}, part {verb!r}", script.fill_placeholders(parts[verb], keys), stage, others)
        return
    try:
        name, first_arguments = script.method_named(verb, stage)
    except LookupError as error:
        raise UsageFailure(f"{location}: {error.args[0]}") from error
    arguments = value if isinstance(value, list) else [] if value is None else [value]
    for action in keys.get("then") or ():
        if action not in ACTIONS:
            raise UsageFailure(f"{location}: then {action!r}: expected an action out of {', '.join(sorted(ACTIONS))}")
    try:
        signature = inspect.signature(getattr(stage, name))
        # None stands for `self`.
        signature.bind(None, *first_arguments, *arguments, **{key.replace(" ", "_"): keys[key] for key in keys})
    except TypeError as error:
        raise UsageFailure(f"{location}: {verb}: {error}") from error


def _check_observed(location: str, verb: str, value: Any, keys: Mapping[str, Any], stage: type[AnyStage]) -> None:
    if verb == "remember":
        _require_type(f"{location}: remember", value, dict)
        names = list(value.values())
    elif verb == "fact":
        names = [keys.get("of", "")]
    else:
        # The keys of a table are events; those of `expect` and `await` are observations.
        names = [] if verb == "table" else [key for key in keys if key != "eventually"]
    for name in names:
        word = str(name).partition("(")[0]
        has_function = any(word in functions for kind, functions in OBSERVED_BY.items() if issubclass(stage, kind))
        attributes = {field.name for kind in (stage, Observation, ReplicaObservation) for field in fields(kind)}
        if not has_function and not hasattr(stage, word.replace(" ", "_")) and word.replace(" ", "_") not in attributes:
            raise UsageFailure(f"{location}: {verb}: {word!r} can't be observed")


@dataclass(frozen=True, slots=True)
class Document:
    """A text that describes behaviours of Kafka: its title in English and in its language, and its date, if known."""

    title: str
    original_title: str
    date: str | None


@dataclass(frozen=True, slots=True)
class Source:
    """The section of a document that describes a behaviour: its name in English, and its name in the document."""

    document: Document
    section: str
    original_section: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A documented behaviour of Kafka. `title` says in a line what it is, and `story` in full; `play` takes the steps.

    `file`: the file with the steps, as a path from the project's root. `needs_zookeeper`: why the scenario can't run
    in KRaft mode; None if it can.
    """

    id: str
    source: Source
    title: str
    story: str
    file: str
    play: Callable[[Play], None]
    needs_zookeeper: str | None = None


def folders() -> Mapping[str, Path]:
    """The folders of the installed packages of scenarios, by package; this project's packages come first."""
    names = {entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)}
    if not names:
        raise EnvironmentFailure(f"no package of {ENTRY_POINT_GROUP} is installed: reinstall kafka-chaos")
    ordered = sorted(names, key=lambda name: (not name.startswith("kafka_chaos."), name))
    return {name: Path(importlib.import_module(name).__path__[0]) for name in ordered}


@cache
def all_scenarios() -> Mapping[str, Scenario]:
    """Every scenario of an installed package by id, in the order of the packages and of their documents."""
    from ruamel.yaml import YAML

    by_id: dict[str, Scenario] = {}
    for package, folder in folders().items():
        sources: dict[str, Source] = {}
        for entry in tomllib.loads((folder / "documents.toml").read_text(encoding="utf-8"))["documents"].values():
            document = Document(entry["title"], entry.get("original_title", entry["title"]), entry.get("date"))
            sources |= {scenario: Source(document, *section) for scenario, section in entry["scenarios"].items()}
        root, scenarios = package.removeprefix("kafka_chaos.").replace(".", "/"), dict[str, Scenario]()
        for path in sorted(folder.rglob("*.yaml")):
            content, location = YAML(typ="safe").load(path), f"{root}/{path.relative_to(folder).as_posix()}"
            for name, entry in content["scenarios"].items():
                scenarios[name] = _scenario(name, entry, sources[name], content, location)
        if missing := sorted(set(sources) - set(scenarios)):
            raise LookupError(f"documents.toml of {package} names scenarios that no file has: {missing}")
        by_id |= {name: scenarios[name] for name in sources}
    return by_id


def scenarios_in(path: Path) -> list[Scenario]:
    """The scenarios of a file outside of packages, such as the stories that `kafka-chaos predict --story` writes.

    Raises `UsageFailure` if the file can't be read, has no scenario, or fails `check_acts`.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content = YAML(typ="safe").load(path)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise UsageFailure(f"{path}: {error}") from error
    entries = content.get("scenarios") if isinstance(content, dict) else None
    if not isinstance(entries, dict) or not entries:
        raise UsageFailure(f"{path}: expected `scenarios` by id, as `kafka-chaos predict --story` writes them")
    scenarios = []
    for name, entry in entries.items():
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("title", "story")):
            raise UsageFailure(f"{path}: scenarios.{name}: expected the texts `title` and `story`, and `acts`")
        check_acts(f"{path}: scenarios.{name}", entry.get("acts"), content)
        # No document describes the scenario: the file stands for one.
        source = Source(Document(path.name, path.name, None), entry["title"], entry["title"])
        scenarios.append(_scenario(name, entry, source, content, str(path)))
    return scenarios


def _scenario(name: str, entry: Mapping[str, Any], source: Source, content: Mapping[str, Any], file: str) -> Scenario:
    """A scenario from its `entry` in a file, whose whole content is `content`."""
    story = " ".join(entry["story"].split())
    play = partial(script.play_acts, acts=entry["acts"], file=content)
    return Scenario(name, source, entry["title"], story, file, play, entry.get("needs_zookeeper"))
