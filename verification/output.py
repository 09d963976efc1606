"""Writes findings/ and verdict.json. A reader never sees a half-written one.

Guarantee: each is written under a temporary name in the same folder, then renamed. An old verdict.json is removed
first, and the new one appears last, so it always belongs to the findings beside it.
"""

import io
import json
import uuid
from collections.abc import Callable, Mapping, Sequence

from kafka_chaos.contract.columns import FINDINGS, arrow_schema
from kafka_chaos.contract.run_directory import FINDINGS_FOLDER, VERDICT_FILE
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, remove, replace_folder, write_text
from kafka_chaos.verification.judging.result import RunVerdict


def write_findings(run_dir: RunPath, write: Callable[[RunPath], None]) -> None:
    """Let `write` write findings/. A verdict.json that belongs to older ones is removed first."""
    fresh = run_dir / f".findings-{uuid.uuid4().hex}"
    try:
        write(fresh)
        remove(run_dir / VERDICT_FILE)
        replace_folder(fresh, run_dir / FINDINGS_FOLDER)
    finally:
        remove(fresh)


def write_rows(folder: RunPath, rows: Sequence[Mapping[str, str | int | None]]) -> None:
    """Write rows of findings/ that no engine finds, into a file of their own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema(FINDINGS)), content)
    (folder / "part-recovery.parquet").write_bytes(content.getvalue())


def write_verdict(run_dir: RunPath, verdict: RunVerdict) -> None:
    """Write verdict.json, which belongs to the findings beside it."""
    write_text(run_dir / VERDICT_FILE, json.dumps(verdict.to_json(), indent=2) + "\n")
