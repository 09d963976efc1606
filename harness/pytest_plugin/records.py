"""The first records of a finding, as a failing test shows them: where, when and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka_chaos.contract.run_directory import FINDINGS_FOLDER

_PLACE = ("partition", "offset", "producer_id", "seq")


def first_records(run: Path, lane: str, anomaly: str, limit: int) -> Iterator[str]:
    """One line for each of the first `limit` records of an anomaly: offset, time of sending, and cause."""
    import pyarrow.parquet as pq

    where = [("lane", "=", lane), ("anomaly", "=", anomaly)]
    found = pq.read_table(run / FINDINGS_FOLDER, filters=where)
    order = [(name, "ascending") for name in _PLACE]
    rows = found.sort_by(order).slice(0, limit).to_pylist()
    times = _sent(run, lane, rows)
    for row in rows:
        parts = [f"{name} {row[name]}" for name in _PLACE if row[name] is not None]
        sent = times.get((row["producer_id"], row["seq"]))
        if sent is not None:
            parts.append(f"sent {sent:.3f} s after the lane's first record")
        yield ", ".join(parts) + (f": {row['cause']}" if row["cause"] else "")


def _sent(run: Path, lane: str, rows: list[dict[str, Any]]) -> dict[tuple[int, int], float]:
    """When the records with an identity were sent, in seconds, by producer id and sequence number."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    wanted = {(row["producer_id"], row["seq"]) for row in rows if row["seq"] is not None}
    if not wanted:
        return {}
    table = pq.read_table(run / "produced", columns=["producer_id", "seq", "invoke_ns"], filters=[("lane", "=", lane)])
    start = pc.min(table["invoke_ns"]).as_py()
    one_of = pc.is_in(table["seq"], value_set=_array([seq for _, seq in wanted]))
    chosen = table.filter(one_of).to_pylist()
    return {(row["producer_id"], row["seq"]): (row["invoke_ns"] - start) / 1e9 for row in chosen}


def _array(numbers: list[int]) -> Any:
    import pyarrow as pa

    return pa.array(numbers, pa.int64())
