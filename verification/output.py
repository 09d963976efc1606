"""Writes findings/ and verdict.json. A reader never sees a half-written one.

Guarantee: each is written under a temporary name in the same folder, then renamed. An old verdict.json is removed
first, and the new one appears last, so it always belongs to the findings beside it.
"""

from __future__ import annotations

import io
import json
import uuid

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from kafka_chaos.contract import columns as contract
from kafka_chaos.contract.run_directory import FINDINGS_FOLDER, VERDICT_FILE
from kafka_chaos.verification.inputs.file_systems.storage import (
    RunPath,
    remove,
    replace_folder,
    write_parquet,
    write_text,
)
from kafka_chaos.verification.judging.result import RunVerdict
from kafka_chaos.verification.schemas import FINDINGS

ROWS_PER_FILE = 200_000


def write_findings(run_dir: RunPath, cases: DataFrame | None, verdict: RunVerdict) -> None:
    """Write CASES (None: there are none) to findings/. A verdict.json that belongs to older ones is removed first."""
    fresh = run_dir / f".findings-{uuid.uuid4().hex}"
    try:
        if cases is None:
            _write_nothing(fresh)
        else:
            write_parquet(_few_files(cases, verdict).select(*FINDINGS.names), fresh)
        remove(run_dir / VERDICT_FILE)
        replace_folder(fresh, run_dir / FINDINGS_FOLDER)
    finally:
        remove(fresh)


def write_verdict(run_dir: RunPath, verdict: RunVerdict) -> None:
    """Write verdict.json, which belongs to the findings beside it."""
    write_text(run_dir / VERDICT_FILE, json.dumps(verdict.to_json(), indent=2) + "\n")


def _few_files(cases: DataFrame, verdict: RunVerdict) -> DataFrame:
    found = sum(seen.count for lane in verdict.lanes for seen in lane.observed.values())
    return cases.coalesce(1) if found < ROWS_PER_FILE else cases


def _write_nothing(folder: RunPath) -> None:
    folder.mkdir()
    schema = contract.arrow_schema(contract.FINDINGS)
    content = io.BytesIO()
    pq.write_table(schema.empty_table(), content)
    (folder / "part-00000.parquet").write_bytes(content.getvalue())
