"""Reads an experiment from YAML. Every refusal names file, line and key."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLWarning
from ruamel.yaml.reader import ReaderError

from kafka_chaos.contract.errors import UsageFailure, quoted
from kafka_chaos.harness.experiment.checks import check
from kafka_chaos.harness.experiment.refusals import refusals
from kafka_chaos.harness.experiment.schedule import expand
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError, dotted

Place = tuple[str | int, ...]


def load_experiment(path: Path, *, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment in a file, checked; `overrides` replace top-level keys. Raises `UsageFailure`."""
    return parse_experiment(_text(path), str(path), overrides=overrides)


def experiment_values(path: Path) -> dict[Any, Any]:
    """The keys of an experiment file as they are written, once checked. Raises `UsageFailure`."""
    load_experiment(path)
    return _document(_text(path), str(path))[1]


def parse_experiment(text: str, source: str, *, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment that a YAML text describes; messages name `source` as the file."""
    document, values = _document(text, source)

    def located(place: Place, message: str) -> str:
        written = place[2:] if place[:2] == ("phases", 0) and "phases" not in document else place
        return f"{source}:{_line(document, written)}: {dotted(written)}: {message}"

    return _checked({**values, **(overrides or {})}, located)


def experiment_of(values: Mapping[str, Any], source: str) -> Experiment:
    """The experiment that a mapping describes, checked; messages name it `source`. Raises `UsageFailure`."""

    def located(place: Place, message: str) -> str:
        return f"{source}: {dotted(place[2:] if place[:2] == ('phases', 0) else place)}: {message}"

    return _checked(values, located)


def _checked(values: Mapping[str, Any], located: Callable[[Place, str], str]) -> Experiment:
    try:
        experiment = Experiment.model_validate(expand(values))
        check(experiment)
    except ValidationError as error:
        raise UsageFailure("\n".join(_one_line(located(*one)) for one in refusals(error, Experiment))) from None
    except ExperimentError as error:
        raise UsageFailure(_one_line(located(error.place, error.message))) from None
    return experiment


def dump_experiment(experiment: Experiment, extra: Mapping[str, Any]) -> str:
    """The experiment as YAML with all defaults, followed by `extra`."""
    yaml = YAML()
    yaml.default_flow_style = False
    buffer = io.StringIO()
    yaml.dump({**experiment.model_dump(mode="json"), **extra}, buffer)
    return buffer.getvalue()


def _one_line(text: str) -> str:
    """The text with line breaks and control characters escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageFailure(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageFailure(f"{path}: can't be read: byte {error.start} is not UTF-8") from None


def _document(text: str, source: str) -> tuple[CommentedMap, dict[Any, Any]]:
    """The document with its positions, and its plain values."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", YAMLWarning)
            document = YAML(typ="rt").load(text)
        values = _plain(document)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        # For a duplicate key, ruamel.yaml quotes both values in full.
        problem = str(error.problem).partition(" with value ")[0]
        raise UsageFailure(f"{source}:{line}: not YAML: {problem}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = chr(error.character) if isinstance(error.character, int) else error.character
        raise UsageFailure(f"{source}:{line}: not YAML: the character {character!r} is not allowed") from None
    except RecursionError:
        raise UsageFailure(f"{source}:1: not an experiment: its values are nested too deep") from None
    except TypeError:
        raise UsageFailure(f"{source}:1: not an experiment: a key is a list or a mapping") from None
    except (YAMLError, ValueError) as error:
        raise UsageFailure(f"{source}:1: not YAML: {quoted(str(error).partition(chr(10))[0])}") from None
    if not isinstance(document, CommentedMap):
        raise UsageFailure(f"{source}:1: expected a mapping with the keys of an experiment")
    return document, values


def _plain(node: Any) -> Any:
    """The document without its comments and positions, as the checks need it."""
    if isinstance(node, CommentedMap):
        return {_plain(key): _plain(value) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        return [_plain(value) for value in node]
    for plain in (bool, int, float, str):
        if isinstance(node, plain):
            return plain(node)
    return node


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
