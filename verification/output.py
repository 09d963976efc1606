"""Writing findings/ and verdict.json so that a reader never meets a half-written one.

Guarantee: each is written under a temporary name beside its place and renamed; an old verdict.json is taken
away first and the new one comes last, so that it always belongs to the findings that stand beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from kafka_chaos.verification import contract
from kafka_chaos.verification.result import RunVerdict
from kafka_chaos.verification.schemas import FINDINGS

ROWS_PER_FILE = 200_000

_ARROW = {"string": pa.string(), "int32": pa.int32(), "int64": pa.int64()}


def write(run_dir: Path, cases: DataFrame | None, verdict: RunVerdict) -> None:
    """Write CASES (None: there are none) to findings/ and the result to verdict.json."""
    final = run_dir / "findings"
    fresh = run_dir / f".findings-{uuid.uuid4().hex}"
    try:
        if cases is None:
            _write_nothing(fresh)
        else:
            _few_files(cases, verdict).select(*FINDINGS.names).write.parquet(str(fresh.absolute()))
            for leftover in fresh.glob(".*.crc"):
                leftover.unlink()
        (run_dir / "verdict.json").unlink(missing_ok=True)
        _replace_folder(fresh, final)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    write_text(run_dir / "verdict.json", json.dumps(verdict.to_json(), indent=2) + "\n")


def _few_files(cases: DataFrame, verdict: RunVerdict) -> DataFrame:
    found = sum(seen.count for lane in verdict.lanes for seen in lane.observed.values())
    return cases.coalesce(1) if found < ROWS_PER_FILE else cases


def write_text(path: Path, text: str) -> None:
    """Write a small file under a temporary name, then rename it into place."""
    fresh = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        fresh.write_text(text, "utf-8")
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _write_nothing(folder: Path) -> None:
    folder.mkdir()
    schema = pa.schema([(column.name, _ARROW[column.type]) for column in contract.FINDINGS])
    pq.write_table(schema.empty_table(), folder / "part-00000.parquet")


def _replace_folder(fresh: Path, final: Path) -> None:
    old = final.with_name(f".findings-old-{uuid.uuid4().hex}")
    if final.exists():
        final.rename(old)
    fresh.rename(final)
    shutil.rmtree(old, ignore_errors=True)
