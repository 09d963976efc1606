"""Finds in a run's trace the precondition of KAFKA-17754: an EndTxn arrived after its producer had sent it again.

Only a link, a relay before a broker, sees both when a request was sent and when it went on to the broker.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.contract.run_directory import TRACE_FILE

_NS = 1e9


def late_end_txns(run_directory: Path, lanes: Mapping[str, str]) -> Iterator[DefectPrecondition]:
    """An event for each late EndTxn, from the trace and transactions/. `lanes`: the lane of each transactional id."""
    incarnations, end_txns = _incarnations(run_directory), _end_txns(run_directory)
    for transactional_id in sorted(end_txns.keys() & lanes.keys()):
        for late, repetition, arrived_ns in _overtaken_requests(end_txns[transactional_id]):
            incarnation_starts = sorted(incarnations.get(transactional_id, ()))
            producer_ids = [producer_id for begun_ns, producer_id in incarnation_starts if begun_ns <= late["ns"]]
            # An EndTxn of a later incarnation is not a repetition: its epoch fences the late request.
            if not producer_ids or any(late["ns"] < ns <= repetition["ns"] for ns, _ in incarnation_starts):
                continue
            yield DefectPrecondition(
                defect="KAFKA-17754",
                lane=lanes[transactional_id],
                producer_id=producer_ids[-1],  # of the last incarnation that had begun when the request was sent
                evidence=f"an EndTxn request of {transactional_id} (correlation id {late['correlation_id']}) arrived "
                f"{(arrived_ns - late['ns']) / _NS:.1f} s late, {(arrived_ns - repetition['ns']) / _NS:.1f} s after it "
                "had been sent again",
                occurred_ns=arrived_ns,
                transactional_id=transactional_id,
                commits=late.get("detail", {}).get("committed"),
            )


def _end_txns(run_directory: Path) -> Mapping[str, list[dict[str, Any]]]:
    """The EndTxn requests of each transactional id, in the order in which they were sent."""
    ends = defaultdict(list)
    with (run_directory / TRACE_FILE).open(encoding="utf-8") as trace:
        for line in map(json.loads, trace):
            if line["api"] == "EndTxn":
                for transactional_id in line.get("transactional_ids", ()):
                    ends[transactional_id].append(line)
    return {name: sorted(lines, key=lambda line: int(line["ns"])) for name, lines in ends.items()}


def _overtaken_requests(sent: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any], int]]:
    """Each request that arrived after its repetition was sent, with the repetition and the time of the arrival."""
    # A producer ends no further transaction before it has an answer, so the next EndTxn is the repetition.
    for request, repetition in pairwise(sent):
        fault = request.get("fault") or {}
        arrived_ns = fault.get("until_ns") if fault.get("side") == "request" else None
        if arrived_ns is not None and repetition["ns"] < arrived_ns:
            yield request, repetition, arrived_ns


def _incarnations(run_directory: Path) -> Mapping[str, set[tuple[int, int]]]:
    """The incarnations of each transactional id: when each one began, in nanoseconds, and its producer id."""
    incarnations: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for path in (run_directory / "transactions").glob("*.parquet"):
        for row in pq.read_table(path, columns=["transactional_id", "producer_id", "initialised_ns"]).to_pylist():
            if row["initialised_ns"] is not None:
                incarnations[row["transactional_id"]].add((int(row["initialised_ns"]), int(row["producer_id"])))
    return incarnations
