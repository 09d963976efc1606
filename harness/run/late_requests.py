"""Tells from a run's trace when the precondition of a known defect has occurred.

KAFKA-17754: an EndTxn request arrived after its producer had sent it again. Only a link sees both times: when a request
was sent, and when it went on to the broker.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.contract.run_directory import TRACE_FILE
from kafka_chaos.reference_model.protocol.known_defects import KAFKA_17754


def late_ends(run_directory: Path, lanes: Mapping[str, str]) -> Iterator[DefectPrecondition]:
    """One event per producer whose EndTxn came late; `lanes` are by transactional id. The tables must be written."""
    ends = defaultdict(list)
    with (run_directory / TRACE_FILE).open(encoding="utf-8") as trace:
        for line in map(json.loads, trace):
            if line["api"] == "EndTxn":
                for transactional_id in line.get("transactional_ids", ()):
                    ends[transactional_id].append(line)
    told = set()
    for transactional_id, sent in sorted(ends.items()):
        lane = lanes.get(transactional_id)
        for line in sent if lane is not None else ():
            arrived = (line.get("fault") or {}).get("until_ns")
            if line.get("fault", {}).get("side") != "request" or arrived is None:
                continue
            again = sorted((other for other in sent if line["ns"] < other["ns"] < arrived), key=_sent_ns)
            producer_id = _producer_of(run_directory, transactional_id, line["ns"]) if again else None
            if producer_id is None or (transactional_id, producer_id) in told:
                continue
            told.add((transactional_id, producer_id))
            assert lane is not None
            yield DefectPrecondition(
                defect=KAFKA_17754.id,
                lane=lane,
                producer_id=producer_id,
                evidence=_evidence(transactional_id, line, again[0], arrived),
            )


def _sent_ns(line: Mapping[str, Any]) -> int:
    return int(line["ns"])


def _evidence(transactional_id: str, late: Mapping[str, Any], again: Mapping[str, Any], arrived: int) -> str:
    seconds = (arrived - late["ns"]) / 1e9
    earlier = (arrived - again["ns"]) / 1e9
    return (
        f"an EndTxn request of {transactional_id} (correlation id {late['correlation_id']}) arrived {seconds:.1f} s "
        f"late, {earlier:.1f} s after it had been sent again"
    )


def _producer_of(run_directory: Path, transactional_id: str, moment: int) -> int | None:
    """The incarnation that was the last to begin under a transactional id before a moment."""
    latest: tuple[int, int] | None = None
    for path in (run_directory / "transactions").glob("*.parquet"):
        for row in pq.read_table(path, columns=["transactional_id", "producer_id", "initialised_ns"]).to_pylist():
            began = row["initialised_ns"]
            if row["transactional_id"] == transactional_id and began is not None and began <= moment:
                latest = max(latest or (0, 0), (began, int(row["producer_id"])))
    return None if latest is None else latest[1]
