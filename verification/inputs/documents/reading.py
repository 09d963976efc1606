"""JSON files of a run directory: read, checked, and refused by file and key."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from kafka_chaos.contract.run_directory import FORMAT_VERSION, RunDirectoryError
from kafka_chaos.verification.inputs.file_systems.storage import RunPath


def read_json(path: RunPath) -> Any:
    """The document; raises `RunDirectoryError` if it is missing or not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise RunDirectoryError(path, "missing") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RunDirectoryError(path, f"not valid JSON ({error})") from error


def read_versioned(path: RunPath, versions: Collection[int] = (FORMAT_VERSION,)) -> dict[str, Any]:
    """The object, after checking its `format_version`: one of `versions`."""
    document = read_json(path)
    expect(isinstance(document, dict), path, "(top level)", "expected an object")
    version = document.get("format_version")
    expected = " or ".join(map(str, versions))
    expect(version in versions, path, "format_version", f"is {version!r}, expected {expected}")
    return dict(document)


def expect(holds: bool, path: RunPath, key: str, problem: str) -> None:
    """Raise `RunDirectoryError` for the key unless the condition holds."""
    if not holds:
        raise RunDirectoryError(path, problem, column=key)
