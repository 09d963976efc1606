"""Reads a YAML file so that a refusal of any value can name its line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedKeyMap, CommentedKeySeq, CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLWarning
from ruamel.yaml.reader import ReaderError

from kafka_chaos.contract.errors import UsageFailure, quoted


def one_line(text: str) -> str:
    """The text with line breaks and control characters escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def text_of(path: Path) -> str:
    """The text of a file; raises `UsageFailure`."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageFailure(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageFailure(f"{path}: can't be read: byte {error.start} is not UTF-8") from None


def document_of(text: str, source: str, what: str) -> tuple[CommentedMap, dict[Any, Any]]:
    """The document with its positions, and its plain values. `what` it should be, such as `an experiment`.

    Raises `UsageFailure`, whose message begins with `source` and a line.
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
        raise UsageFailure(f"{source}:1: not {what}: its values are nested too deep") from None
    except TypeError as error:
        # ruamel.yaml's own, about keys that Python can't have, do not know the line.
        line = error.args[0] if isinstance(error.args[0], int) else 1
        raise UsageFailure(f"{source}:{line}: not {what}: a key is a list or a mapping") from None
    except (YAMLError, ValueError) as error:
        raise UsageFailure(f"{source}:1: not YAML: {quoted(str(error).partition(chr(10))[0])}") from None
    if not isinstance(document, CommentedMap):
        raise UsageFailure(f"{source}:1: expected a mapping with the keys of {what}")
    return document, values


def _plain(node: Any) -> Any:
    """The document without its comments and positions, as the checks need it."""
    if isinstance(node, CommentedMap):
        for key in node:
            if isinstance(key, CommentedKeyMap | CommentedKeySeq):
                raise TypeError(node.lc.key(key)[0] + 1)
        return {_plain(key): _plain(value) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        return [_plain(value) for value in node]
    for plain in (bool, int, float, str):
        if isinstance(node, plain):
            return plain(node)
    return node


def line_of(document: Any, place: tuple[str | int, ...]) -> int:
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
