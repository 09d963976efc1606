"""Reads an operation log of Jepsen, in EDN or JSON.

Guarantee: keywords and records become text and maps; a line that is not understood is an error that names it.
"""

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import EnvironmentFailure, first_line
from kafka_chaos.verification.importers.writing import HistoryError
from kafka_chaos.verification.inputs.documents.reading import each_once, parsed

TYPES = ("invoke", "ok", "fail", "info")

_OF_HISTORY_TXT = re.compile(r"\s*\d+\s+:(invoke|ok|fail|info)\b")
"""How a line of Jepsen's history.txt begins: a process and the type, without braces."""
Operation = Mapping[str, Any]


def operations(path: Path) -> Iterator[tuple[int, Operation]]:
    """The log's operations with their line, keys and keywords as text."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(path, None, f"can't be read as text in UTF-8 ({error})") from error
    first = text.lstrip()[:1]
    if _OF_HISTORY_TXT.match(text):
        raise HistoryError(path, None, "a history.txt of Jepsen is for people: expected the history.edn beside it")
    is_json = path.suffix in {".json", ".jsonl"}
    if not is_json and importlib.util.find_spec("edn_format") is None:
        raise EnvironmentFailure("histories in EDN need a package: pip install 'kafka-chaos[importers]'")
    read_all = (lambda text: [parsed(line) for line in text.split("\n")]) if is_json else _edn_values
    if first in {"[", "("}:
        whole = _located(path, 1, text, (lambda text: [parsed(text)]) if is_json else read_all)
        if len(whole) != 1 or not isinstance(whole[0], (list, tuple)):
            raise HistoryError(path, 1, "expected one list of operations, or one operation per line")
        values: Iterable[tuple[int, Any]] = enumerate(whole[0], 1)
    else:
        lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
        values = ((number, _only_value(path, number, line, read_all)) for number, line in lines)
    for number, value in values:
        try:
            operation = _operation(value)
        except ValueError as error:
            raise HistoryError(path, number, str(error)) from error
        yield number, operation


def _only_value(path: Path, number: int, line: str, read_all: Callable[[str], list[Any]]) -> Any:
    values = _located(path, number, line, read_all)
    if len(values) != 1:
        raise HistoryError(path, number, f"holds {len(values)} values, expected one operation per line")
    return values[0]


def _located(path: Path, number: int, text: str, read_all: Callable[[str], list[Any]]) -> list[Any]:
    try:
        return read_all(text)
    except Exception as error:
        raise HistoryError(path, number, f"can't be read as an operation ({first_line(error)})") from error


def _edn_values(text: str) -> list[Any]:
    import edn_format
    from edn_format import edn_parse

    edn_format.add_tag("jepsen.history.Op", lambda operation: operation)
    # By itself, it takes the last value of a key that occurs twice.
    edn_parse.ImmutableDict = lambda pairs: each_once(list(pairs))
    return [_plain(value) for value in edn_format.loads_all(text)]


def _plain(value: Any) -> Any:
    """EDN's immutable collections and keywords as Python's own."""
    import edn_format

    if isinstance(value, (edn_format.Keyword, edn_format.Symbol)):
        return value.name
    if isinstance(value, Mapping):
        # A key may be there under two spellings, such as a keyword and a text.
        return each_once([(_plain(key), _plain(inner)) for key, inner in value.items()])
    if isinstance(value, (list, tuple, edn_format.ImmutableList)):
        return [_plain(inner) for inner in value]
    return value


def _operation(value: Any) -> Operation:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected an operation, a map, not {type(value).__name__}")
    operation = each_once([(str(key).lstrip(":"), inner) for key, inner in value.items()])
    for name in ("type", "f", "process"):
        if isinstance(operation.get(name), str):
            operation[name] = operation[name].lstrip(":")
    if operation.get("type") not in TYPES:
        raise ValueError(f"type is {operation.get('type')!r}, expected {', '.join(TYPES)}")
    return operation
