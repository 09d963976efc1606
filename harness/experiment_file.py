"""Reading an experiment from YAML, so that every refusal names file, line and key."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError

from kafka_chaos.harness.errors import UsageFailure
from kafka_chaos.harness.experiment import Experiment, ExperimentError, dotted
from kafka_chaos.harness.schedule import expand


def load_experiment(path: Path, *, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment in a file, checked; `overrides` replace top-level keys. Raises `UsageFailure`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageFailure(f"{path}: can't be read: {error.strerror}") from error
    return parse_experiment(text, str(path), overrides=overrides)


def parse_experiment(text: str, source: str, *, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment that a YAML text describes; `source` stands for the file in messages."""
    document = _document(text, source)
    values = {**_plain(document), **(overrides or {})}
    try:
        experiment = Experiment.model_validate(expand(values))
        experiment.check()
    except ValidationError as error:
        raise UsageFailure("\n".join(_explain(document, source, entry) for entry in error.errors())) from error
    except ExperimentError as error:
        raise UsageFailure(_located(document, source, error.place, error.message)) from error
    return experiment


def experiment_of(values: Mapping[str, Any], source: str) -> Experiment:
    """The experiment that a mapping describes, checked; `source` stands for it in messages. Raises `UsageFailure`."""
    try:
        experiment = Experiment.model_validate(expand(values))
        experiment.check()
    except ValidationError as error:
        lines = [_told(entry) for entry in error.errors()]
        raise UsageFailure("\n".join(f"{source}: {place}: {message}" for place, message in lines)) from error
    except ExperimentError as error:
        raise UsageFailure(f"{source}: {_short(error.place)}: {error.message}") from error
    return experiment


def dump_experiment(experiment: Experiment, extra: Mapping[str, Any]) -> str:
    """The experiment as YAML with every default written out, under it what `extra` adds."""
    yaml = YAML()
    yaml.default_flow_style = False
    buffer = io.StringIO()
    yaml.dump({**experiment.model_dump(mode="json"), **extra}, buffer)
    return buffer.getvalue()


def _document(text: str, source: str) -> CommentedMap:
    try:
        document = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageFailure(f"{source}:{line}: not YAML: {error.problem}") from error
    if not isinstance(document, CommentedMap):
        raise UsageFailure(f"{source}:1: expected a mapping with the keys of an experiment")
    return document


def _plain(node: Any) -> Any:
    """The document without its comments and positions: what the checks take."""
    if isinstance(node, CommentedMap):
        return {_plain(key): _plain(value) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        return [_plain(value) for value in node]
    for plain in (bool, int, float, str):
        if isinstance(node, plain):
            return plain(node)
    return node


def _short(place: tuple[str | int, ...]) -> str:
    """A place without the phase that an experiment of one phase does not write."""
    return dotted(place[2:] if place[:2] == ("phases", 0) else place)


def _told(entry: Any) -> tuple[str, str]:
    place, message = _message(entry)
    return _short(place), message


def _explain(document: CommentedMap, source: str, entry: Any) -> str:
    place, message = _message(entry)
    return _located(document, source, place, message)


def _message(entry: Any) -> tuple[tuple[str | int, ...], str]:
    place = tuple(entry["loc"])
    message = entry["msg"].removeprefix("Value error, ")
    if entry["type"] == "extra_forbidden":
        message = f"no such key; expected {_known_keys(place[:-1])}"
    elif entry["type"] != "missing":
        message = f"{message}, got {entry['input']!r}"
    return place, message


def _known_keys(place: tuple[str | int, ...]) -> str:
    from kafka_chaos.harness import experiment as models

    by_key: dict[str, type[BaseModel]] = {
        "cluster": models.ClusterModel,
        "workload": models.WorkloadModel,
        "lanes": models.LaneModel,
        "schedule": models.FaultModel,
        "course": models.CourseModel,
        "phases": models.PhaseModel,
    }
    named = [step for step in place if isinstance(step, str)]
    model = by_key[named[-1]] if named else Experiment
    return ", ".join(model.model_fields)


def _located(document: CommentedMap, source: str, place: tuple[str | int, ...], message: str) -> str:
    written = place
    if place[:2] == ("phases", 0) and "phases" not in document:
        written = place[2:]
    return f"{source}:{_line(document, written)}: {dotted(written)}: {message}"


def _line(document: Any, place: tuple[str | int, ...]) -> int:
    """The line of the deepest part of `place` that the document has, counted from 1."""
    line = 1
    node = document
    for step in place:
        if isinstance(node, CommentedMap) and step in node:
            line = node.lc.key(step)[0] + 1
        elif isinstance(node, CommentedSeq) and isinstance(step, int) and step < len(node):
            line = node.lc.item(step)[0] + 1
        else:
            break
        node = node[step]
    return line
