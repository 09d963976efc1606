"""Compares a run directory with its manifest.json: which files are missing, which came later, and which changed.

Only this project's own runs write a manifest, and their experiment.yaml says so. Without either, a directory was filled
by another tool or an older version, and nothing is known of its files.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.command.errors import first_of, quoted
from kafka_chaos.contract.run_directory import DOCUMENTS, EVENTS_FILE, EXPERIMENT_FILE, LATER_EVENTS, MANIFEST_FILE
from kafka_chaos.verification.inputs.documents.reading import (
    digest_of,
    expect,
    is_given,
    is_whole,
    object_in,
    opened,
    parsed,
    parsed_yaml,
    read_object,
    read_versioned,
    size_of,
)
from kafka_chaos.verification.inputs.storage import RunPath, listed


def not_as_written(root: RunPath) -> list[str]:
    """How the files of a run directory differ from its manifest, in sentences; none where it has no manifest to have.

    Raises `RunDirectoryError` for a manifest that is none.
    """
    path = root / MANIFEST_FILE
    if not is_given(path):
        experiment = root / EXPERIMENT_FILE
        recorded = read_object(experiment, parsed_yaml).get("recorded") if is_given(experiment) else None
        if not isinstance(recorded, dict) or recorded.get("manifest") != MANIFEST_FILE:
            return []
        return [f"{MANIFEST_FILE} is missing: the run was not written to its end, or somebody removed the file"]
    entries = object_in(path, read_versioned(path), "files")
    for name, entry in entries.items():
        counts = ["rows", "bytes"] if name.endswith(".parquet") else ["bytes"]
        is_entry = isinstance(entry, dict) and isinstance(entry.get("sha256"), str)
        is_entry = is_entry and all(is_whole(entry.get(count)) for count in counts)
        expect(is_entry, path, f"files.{name}", f"{quoted(entry)}, expected {', '.join(counts)} and sha256")
    files = dict(_evidence(root))
    both = sorted(files.keys() & entries.keys())
    with ThreadPoolExecutor() as threads:
        is_same = threads.map(lambda name: _is_as_written(files[name], entries[name]), both)
        changed = [name for name, same in zip(both, is_same, strict=True) if not same]
    rows = {name: f" ({entry['rows']:,} rows)" for name, entry in entries.items() if "rows" in entry}
    differences = {
        "missing": [name + rows.get(name, "") for name in sorted(entries.keys() - files.keys())],
        "added": sorted(files.keys() - entries.keys()),
        "changed": changed,
    }
    return [
        f"{what} since the run wrote {MANIFEST_FILE}: {first_of(names)}" for what, names in differences.items() if names
    ]


def _evidence(root: RunPath) -> Iterator[tuple[str, RunPath]]:
    """The files that verification reads, by their names below the run directory."""
    for name in DOCUMENTS:
        if is_given(root / name):
            yield name, root / name
    for table in TABLES:
        for file in listed(root / table, "*.parquet"):
            yield f"{table}/{file.name}", file


def _is_as_written(file: RunPath, entry: Mapping[str, Any]) -> bool:
    size: int = entry["bytes"]
    is_whole = size_of(file) == size or (file.name == EVENTS_FILE and _tells_of_verification(file, size))
    return is_whole and digest_of(file, size) == entry["sha256"]


def _tells_of_verification(events: RunPath, size: int) -> bool:
    """Whether what events.jsonl has behind its first `size` bytes is no evidence."""
    with opened(events) as lines:
        lines.seek(size)
        try:
            return all(parsed(line)["type"] in LATER_EVENTS for line in lines)
        except (ValueError, TypeError, KeyError):
            return False
