"""JSON files of a run directory: read, checked, and refused by file and key."""

from __future__ import annotations

import json
from typing import Any

from kafka_chaos.contract.run_directory import FORMAT_VERSION, RunDirectoryError
from kafka_chaos.verification.inputs.storage import RunPath


def read_json(path: RunPath) -> Any:
    """The document; raises `RunDirectoryError` if it is missing or not JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise RunDirectoryError(path, "missing") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RunDirectoryError(path, f"not valid JSON ({error})") from error


def read_versioned(path: RunPath) -> dict[str, Any]:
    """The object, after checking its `format_version`."""
    document = read_json(path)
    expect(isinstance(document, dict), path, "(top level)", "expected an object")
    version = document.get("format_version")
    expect(version == FORMAT_VERSION, path, "format_version", f"is {version!r}, expected {FORMAT_VERSION}")
    return dict(document)


def expect(holds: bool, path: RunPath, key: str, problem: str) -> None:
    """Raise `RunDirectoryError` for the key unless the condition holds."""
    if not holds:
        raise RunDirectoryError(path, problem, column=key)
