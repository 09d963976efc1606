"""JSON of a run directory: read, checked, and refused by file and key.

Guarantee: `parsed` gives what every reader of JSON makes of a text, or refuses it: a key that occurs twice, a number
beyond 64 bits, NaN and infinity, half a character, more than `DEEPEST` levels.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import FORMAT_VERSION, RunDirectoryError, sha256_of
from kafka_chaos.verification.inputs.storage import RunPath

DEEPEST = 50
"""How deep objects and lists may be nested; the documents of the contract need a tenth of it."""
NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
"""A partition or a broker as a key names it: there is one spelling of each."""
_TAKES_A_LOOK = re.compile(r"\\u[dD][89a-fA-F]")
"""The escape of half a character."""


def parsed(text: str | bytes) -> Any:
    """The value that a JSON text has; `ValueError` says why it has none, or not the same to every reader."""
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        value = _DECODER.decode(text)
        is_deep = text.count("{") + text.count("[") > DEEPEST and _depth(value) > DEEPEST
    except UnicodeDecodeError as error:
        raise ValueError(f"not valid JSON (not UTF-8 at byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    if is_deep:
        raise ValueError(_TOO_DEEP)
    if _TAKES_A_LOOK.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("not valid JSON (half a character, expected the other half beside it)") from error
    return value


def parsed_yaml(text: str | bytes) -> Any:
    """The value that a YAML text has, such as experiment.yaml; `ValueError` says why it has none."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text.decode("utf-8") if isinstance(text, bytes) else text)
    except (YAMLError, ValueError, LookupError, RecursionError) as error:
        raise ValueError(f"not valid YAML ({(str(error).splitlines() or ['nested too deep'])[0]})") from error


def is_given(path: RunPath) -> bool:
    """Whether the run has the document: a link to nowhere is one that can't be read."""
    return path.exists() or (isinstance(path, Path) and path.is_symlink())


@contextmanager
def opened(path: RunPath) -> Iterator[BinaryIO]:
    """The document's bytes; raises `RunDirectoryError` if it is missing or can't be read."""
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise RunDirectoryError(path, "missing") from error
    except OSError as error:
        raise RunDirectoryError(path, f"can't be read ({error.strerror or error})") from error


def size_of(path: RunPath) -> int:
    """The document's length in bytes."""
    with opened(path) as file:
        return file.seek(0, SEEK_END)


def digest_of(path: RunPath, size: int) -> str:
    """The SHA-256, in hexadecimal, of the first `size` bytes of the document; of all, where there are fewer."""
    with opened(path) as file:
        return sha256_of(file, size)


def read_object(path: RunPath, parse: Callable[[bytes], Any] = parsed) -> dict[str, Any]:
    """The document, which is one object. Raises `RunDirectoryError` if it is missing, or if `parse` refuses it."""
    with opened(path) as file:
        try:
            document = parse(file.read())
        except ValueError as error:
            raise RunDirectoryError(path, str(error)) from error
    expect(isinstance(document, dict), path, "(top level)", "expected an object")
    return dict(document)


def object_in(path: RunPath, document: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under a key such as `lanes`, an object of lanes, which is the document's only content."""
    found = document.get(key)
    if not isinstance(found, dict):
        raise RunDirectoryError(path, f"expected an object of {key}", column=key)
    return found


def json_lines(path: RunPath, *, torn: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a document that has one on each line, with the lines' numbers; blank lines are left out.

    Raises `RunDirectoryError`, which names the line. `torn`: a last line without its end, as a process leaves it that
    is killed while it writes, is left out, too.
    """
    with opened(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                value = parsed(line)
                if not isinstance(value, dict):
                    raise ValueError("expected a JSON object per line")
            except ValueError as error:
                if torn and not line.endswith(b"\n"):
                    return
                raise RunDirectoryError(path, str(error), column=f"line {number}") from error
            yield number, value


def read_versioned(path: RunPath, versions: Collection[int] = (FORMAT_VERSION,)) -> dict[str, Any]:
    """The object, after checking its `format_version`: one of `versions`."""
    document = read_object(path)
    version = document.get("format_version")
    expected = " or ".join(map(str, versions))
    expect(is_whole(version) and version in versions, path, "format_version", f"is {version!r}, expected {expected}")
    return document


def of_lanes(path: RunPath, lanes: Sequence[Lane] | None) -> dict[str, Any]:
    """The object `lanes` of a versioned document, empty if there is no document; `lanes`: refuse others than these."""
    entries = object_in(path, read_versioned(path), "lanes") if is_given(path) else {}
    names = list(entries) if lanes is None else [lane.lane for lane in lanes]
    for name in entries:
        expect(name in names, path, f"lanes.{name}", f"no such lane; they are {', '.join(names)}")
    return entries


def expect(holds: bool, path: RunPath, key: str, problem: str) -> None:
    """Raise `RunDirectoryError` for the key unless the condition holds."""
    if not holds:
        raise RunDirectoryError(path, problem, column=key)


def number_named(path: RunPath, key: str, name: str, expected: str) -> int:
    """The number that a key names, in its one spelling: 1, never 01."""
    expect(NUMBER.fullmatch(name) is not None, path, key, f"expected {expected}")
    return int(name)


def partition_named(path: RunPath, key: str, name: str, partitions: Mapping[str, int]) -> tuple[str, int]:
    """Lane and partition that a key names as '<lane>/<partition>'. `partitions`: the number of each lane's."""
    lane, _, number = name.rpartition("/")
    expect(bool(lane), path, key, "expected '<lane>/<partition>'")
    partition = number_named(path, key, number, "'<lane>/<partition>', with the partition as in 0, 1, … 10")
    expect(lane in partitions, path, key, f"lane {lane!r} is not in lanes.json")
    expect(partition < partitions[lane], path, key, f"lane {lane!r} has {partitions[lane]} partitions")
    return lane, partition


def is_whole(value: object) -> TypeGuard[int]:
    """Whether JSON gave a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_offset(value: object) -> TypeGuard[int]:
    """Whether JSON gave a whole number of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def each_once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """An object of these keys and values; `ValueError` for a key that occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise ValueError(f"key {quoted(twice)} occurs twice in one object, expected each once")
    return found


def _whole(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
        raise ValueError(f"{quoted(digits)} does not fit 64 bits, expected a smaller number")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{quoted(text)} is not valid JSON, expected a finite number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=each_once, parse_int=_whole, parse_float=_finite, parse_constant=_finite)
_TOO_DEEP = f"more than {DEEPEST} levels of objects and lists, expected fewer"


def _depth(value: Any) -> int:
    """How many levels of objects and lists are around the value's innermost one."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((1 + _depth(one) for one in inner), default=0)
