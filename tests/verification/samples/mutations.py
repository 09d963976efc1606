"""A run directory and what can happen to its pieces: removed, nulled, truncated, renamed, doubled, misnamed, hidden."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.lane.recovery import USUAL_TIMINGS
from tests.verification.samples.run_dirs import Rows, rows_of

JSON_FILES = ("lanes.json", "prediction.json", "events.jsonl", "checkpoints.json", "timings.json")
TABLES = ("produced", "consumed", "log", "replicas")
PIECES = (*JSON_FILES, *(f"{table}/" for table in TABLES), *(f"{table}/part-00001.parquet" for table in TABLES))


def conforming() -> Rows:
    """Forty records, a kill that is proven and healed, three replicas, high watermarks: nothing is left out."""
    rows = rows_of(20, faults=["kill"])
    rows.event("fault_requested", fault_id="k", kind="kill").event("fault_proven", fault_id="k")
    rows.event("fault_healed", fault_id="k")
    for mark in (20, 40):
        rows.event("high_watermark", lane="a", partition=0, broker=1, leader_epoch=0, high_watermark=mark)
    rows.event("isr_changed", lane="a", partition=0, isr=[1, 2, 3])
    rows.timings = {"a": USUAL_TIMINGS.to_json()}
    for seq in range(20, 40):
        rows.all(seq, seq)
    for broker in (1, 2, 3):
        for seq in range(40):
            rows.replica(broker, seq, seq)
    entry = {"high_watermark": 40, "log_end_offset": 40, "leader_epochs": [[0, 0]]}
    rows.checkpoints = {"brokers": {str(broker): {"a/0": dict(entry)} for broker in (1, 2, 3)}}
    return rows


def violating() -> Rows:
    """The same with two acknowledged records that the log lacks, in both files of produced/."""
    return conforming().send(100, None).send(101, None)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def null(path: Path) -> None:
    if path.is_dir():
        for file in path.iterdir():
            null(file)
    elif path.suffix == ".parquet":
        rows = pq.read_table(path)
        index = rows.column_names.index("seq")
        pq.write_table(rows.set_column(index, "seq", pa.nulls(len(rows), pa.int64())), path, write_statistics=False)
    elif path.suffix == ".jsonl":
        first, *others = path.read_text().splitlines(keepends=True)
        path.write_text("".join([json.dumps({**json.loads(first), "fault_id": None}) + "\n", *others]))
    else:
        path.write_text(json.dumps(_nulled(json.loads(path.read_text()))))


def _nulled(document: Any) -> Any:
    """The document with its first innermost value replaced by null, lists and `format_version` apart."""
    if isinstance(document, dict):
        key = next(key for key in document if key != "format_version")
        return {**document, key: _nulled(document[key])}
    if isinstance(document, list) and document:
        return [_nulled(document[0]), *document[1:]]
    return None


def truncate(path: Path) -> None:
    if path.is_dir():
        for file in path.iterdir():
            truncate(file)
    elif path.suffix == ".jsonl":
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    else:
        path.write_bytes(path.read_bytes()[:-40])


def rename(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.old"))


def duplicate(path: Path) -> None:
    if path.is_dir():
        for file in list(path.iterdir()):
            duplicate(file)
    else:
        shutil.copy(path, path.with_name(f"copy-{path.name}"))


def misname(path: Path) -> None:
    path.rename(path.with_name(path.name.upper()))


def hide(path: Path) -> None:
    path.rename(path.with_name(f"_{path.name}"))


MUTATIONS: tuple[Callable[[Path], None], ...] = (remove, null, truncate, rename, duplicate, misname, hide)
