"""Completes a history, once all evidence of a run is there: manifest.json names the rows and the SHA-256 of each file.

The verdict, the findings and the report come later, since they follow from the files that the manifest names. So do the
last lines of events.jsonl, which tell of the verification: the manifest names as many bytes of it as there were.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.manifest import sha256_of
from kafka_chaos.contract.run_directory import DOCUMENTS, EVENTS_FILE, FORMAT_VERSION, MANIFEST_FILE
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS
from kafka_chaos.harness.workload.history.writer import gather_parts


def complete_history(run_directory: Path) -> None:
    """Gather the small files of a run whose evidence is complete, write its manifest and delete the journal.

    From now on there is nothing to recover.
    """
    for table in TABLES:
        gather_parts(run_directory / table)
    write_manifest(run_directory)
    (run_directory / RESERVATIONS).unlink(missing_ok=True)


def write_manifest(run_directory: Path) -> None:
    """Write the manifest."""
    files = [run_directory / name for name in DOCUMENTS if (run_directory / name).exists()]
    for table in TABLES:
        files += sorted((run_directory / table).glob("*.parquet"))
    names = [file.relative_to(run_directory).as_posix() for file in files]
    with ThreadPoolExecutor() as threads:
        entries = dict(zip(names, threads.map(_entry, files), strict=True))
    document = {"format_version": FORMAT_VERSION, "files": entries}
    write_whole(run_directory / MANIFEST_FILE, json.dumps(document, indent=1) + "\n")


def _entry(file: Path) -> dict[str, Any]:
    size = file.stat().st_size
    if file.name == EVENTS_FILE:
        # Another thread may be about to write a line.
        size = file.read_bytes()[:size].rfind(b"\n") + 1
    with file.open("rb") as content:
        entry: dict[str, Any] = {"bytes": size, "sha256": sha256_of(content, size)}
    return entry if file.suffix != ".parquet" else {"rows": pq.read_metadata(file).num_rows, **entry}
