"""Reads an experiment from YAML. Every refusal names file, line and key."""

import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedKeyMap, CommentedKeySeq, CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLWarning
from ruamel.yaml.reader import ReaderError

from kafka_chaos.contract.command.errors import UsageFailure, quoted
from kafka_chaos.contract.command.files import text_of
from kafka_chaos.harness.experiment.checks.lanes import check
from kafka_chaos.harness.experiment.schedule import expand
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError, dotted
from kafka_chaos.harness.experiment.values import Place, refusals

M = TypeVar("M", bound=BaseModel)
_EXPERIMENT = "an experiment"


def load_experiment(path: Path, *, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The checked experiment in a file; `overrides` replace top-level keys, or keys below them (`cluster.brokers`).

    Raises `UsageFailure`.
    """
    return parse_experiment(text_of(path), str(path), overrides=overrides)


def experiment_values(path: Path) -> dict[Any, Any]:
    """The keys and values of an experiment file as they are written. Raises `UsageFailure` for an invalid file."""
    load_experiment(path)
    return parse_document(text_of(path), str(path), _EXPERIMENT)[1]


def parse_experiment(text: str, source: str, *, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment that a YAML text describes; messages name `source` as the file."""
    document, values = parse_document(text, source, _EXPERIMENT)
    if isinstance(values.get("services"), dict):
        line = line_of(document, ("services",))
        writes = f"`kafka-chaos nodes compose {source}` writes the file of nodes for `run --attach`"
        raise UsageFailure(f"{source}:{line}: services: this is a Compose file, not an experiment: {writes}")

    def located(place: Place, message: str) -> str:
        written = _as_written(place, document)
        return f"{source}:{line_of(document, written)}: {dotted(written)}: {message}"

    for name, value in (overrides or {}).items():
        key, _, inner = name.partition(".")
        outer = values.get(key, {})
        if isinstance(outer, dict) or not inner:  # A value that should be a mapping, but is not, is refused later.
            values[key] = {**outer, inner: value} if inner else value
    return _checked(values, located)


def experiment_of(values: Mapping[str, Any], source: str) -> Experiment:
    """The experiment that a mapping describes, checked; messages name it `source`. Raises `UsageFailure`."""

    def located(place: Place, message: str) -> str:
        return f"{source}: {dotted(_as_written(place, values))}: {message}"

    return _checked(values, located)


def _checked(values: Mapping[str, Any], located: Callable[[Place, str], str]) -> Experiment:
    """The experiment of these values. `located` makes the text of a refusal from its place and its message."""
    try:
        experiment = Experiment.model_validate(expand(values))
        check(experiment)
    except ValidationError as error:
        # Pydantic refuses a key that several phases share in each phase. The message names the key once.
        lines = dict.fromkeys(one_line(located(*refusal)) for refusal in refusals(error, Experiment))
        raise UsageFailure("\n".join(lines)) from None
    except ExperimentError as error:
        raise UsageFailure(one_line(located(error.place, error.message))) from None
    return experiment


def _as_written(place: Place, values: Mapping[Any, Any]) -> Place:
    """Where the file has an experiment's `place`: keys of its only phase, or of all, may be at the top level."""
    if place[:1] != ("phases",) or len(place) == 1:
        return place
    outer, keys = place[:2], place[2:]
    phase = values["phases"][place[1]] if "phases" in values else values
    if keys and keys[0] in values and keys[0] not in phase:
        phase = values
    return keys if phase is values else (*outer, *keys)


def dump_experiment(experiment: Experiment, extra: Mapping[str, Any] | None = None) -> str:
    """The experiment as YAML, then the keys of `extra`. If that is None, only keys that differ from their default."""
    yaml = YAML()
    yaml.default_flow_style = False
    buffer = io.StringIO()
    yaml.dump({**experiment.model_dump(mode="json", exclude_defaults=extra is None), **(extra or {})}, buffer)
    return buffer.getvalue()


def one_line(text: str) -> str:
    """The text with line breaks and control characters escaped."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def load_yaml(path: Path, kind: type[M], expected: str) -> M:
    """Read a YAML file as the model `kind`. Messages call the file `expected`; raises `UsageFailure` with the line."""
    document, values = parse_document(text_of(path), str(path), expected)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        # For a mapping's key that is not a number, pydantic adds the step `[key]`.
        places = [(tuple(step for step in place if step != "[key]"), why) for place, why in refusals(error, kind)]
        lines = [f"{path}:{line_of(document, place)}: {dotted(place)}: {why}" for place, why in places]
        raise UsageFailure("\n".join(map(one_line, lines))) from None


def parse_document(text: str, source: str, expected: str) -> tuple[CommentedMap, dict[Any, Any]]:
    """A YAML text as a document with the positions of its keys, and as plain values.

    Raises `UsageFailure` that names `source` and the line. `expected` names what the text should be: `an experiment`.
    """
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
        raise UsageFailure(f"{source}:1: not {expected}: its values are nested too deep") from None
    except TypeError as error:
        # A TypeError of ruamel.yaml itself, about a key that can't be hashed, has no line.
        line = error.args[0] if isinstance(error.args[0], int) else 1
        raise UsageFailure(f"{source}:{line}: not {expected}: a key is a list or a mapping") from None
    except (YAMLError, ValueError) as error:
        raise UsageFailure(f"{source}:1: not YAML: {quoted(str(error).partition(chr(10))[0])}") from None
    if not isinstance(document, CommentedMap):
        raise UsageFailure(f"{source}:1: expected a mapping with the keys of {expected}")
    return document, values


def _plain(node: Any) -> Any:
    """The node of a YAML document as plain Python values, without comments and positions."""
    if isinstance(node, CommentedMap):
        for key in node:
            if isinstance(key, CommentedKeyMap | CommentedKeySeq):
                raise TypeError(node.lc.key(key)[0] + 1)  # The line, from which `parse_document` makes its message.
        return {_plain(key): _plain(value) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        return [_plain(value) for value in node]
    # ruamel.yaml has its own subclasses of numbers and texts. `bool` comes first, since every `bool` is an `int`.
    for plain in (bool, int, float, str):
        if isinstance(node, plain):
            return plain(node)
    if isinstance(node, TaggedScalar):  # `!!str 3` is a text; other tags are kept, for the message of the refusal.
        return node.value if str(node.tag).endswith(":str") else f"{node.tag} {node.value}"
    return node


def line_of(document: Any, place: Place) -> int:
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
