"""Run directories for tests: a few rows written out, with every default filled in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.columns import TABLES, arrow_schema
from tests.verification.oracle.rows import Case, LaneHistory, case_order


def prediction(lanes: Iterable[str], **statuses: str) -> dict[str, Any]:
    """Every anomaly forbidden in every lane, but for those named."""
    answers = {anomaly.value: {"status": statuses.get(anomaly.value, "forbidden"), "why": []} for anomaly in Anomaly}
    return {"format_version": 1, "lanes": {lane: {"anomalies": answers} for lane in lanes}}


@dataclass
class Rows:
    """Rows of a run, one lane unless said otherwise; times are counted up where they are not given."""

    lanes: list[dict[str, Any]] = field(default_factory=lambda: [{"lane": "a"}])
    produced: list[dict[str, Any]] = field(default_factory=list)
    consumed: list[dict[str, Any]] = field(default_factory=list)
    log: list[dict[str, Any]] | None = field(default_factory=list)
    replicas: list[dict[str, Any]] | None = None
    transactions: list[dict[str, Any]] | None = None
    assignments: list[dict[str, Any]] | None = None
    commits: list[dict[str, Any]] | None = None
    deliveries: list[dict[str, Any]] | None = None
    share_starts: list[dict[str, Any]] | None = None
    dead_letters: list[dict[str, Any]] | None = None
    events: list[dict[str, Any]] | None = None
    checkpoints: dict[str, Any] | None = None
    timings: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    clock: int = 1000

    @property
    def format_version(self) -> int:
        if any(lane.get("share") for lane in self.lanes):
            return 3
        return 2 if any(lane.get(key) for lane in self.lanes for key in ("transactional", "group", "loop")) else 1

    def tick(self) -> int:
        self.clock += 1000
        return self.clock

    def send(
        self,
        seq: int,
        offset: int | None,
        outcome: str = "ok",
        *,
        lane: str = "a",
        producer_id: int = 0,
        partition: int = 0,
    ) -> Rows:
        begin = self.tick()
        row = {"lane": lane, "producer_id": producer_id, "seq": seq, "partition": partition, "offset": offset}
        self.produced.append({**row, "invoke_ns": begin, "complete_ns": begin + 500, "outcome": outcome})
        return self

    def read(
        self, offset: int, seq: int, *, lane: str = "a", consumer: str = "c0", partition: int = 0, producer_id: int = 0
    ) -> Rows:
        row = {"lane": lane, "consumer": consumer, "partition": partition, "offset": offset}
        self.consumed.append({**row, "producer_id": producer_id, "seq": seq, "poll_ns": self.tick()})
        return self

    def store(self, offset: int, seq: int, *, lane: str = "a", partition: int = 0, producer_id: int = 0) -> Rows:
        assert self.log is not None
        row = {"lane": lane, "partition": partition, "offset": offset}
        self.log.append({**row, "producer_id": producer_id, "seq": seq})
        return self

    def all(self, offset: int, seq: int, **where: Any) -> Rows:
        """Acknowledged, read and stored at `offset`."""
        self.send(seq, offset, **where).read(offset, seq, **where)
        return self if self.log is None else self.store(offset, seq, **where)

    def replica(
        self,
        broker: int,
        offset: int,
        seq: int,
        *,
        epoch: int = 0,
        lane: str = "a",
        partition: int = 0,
        producer_epoch: int | None = None,
    ) -> Rows:
        row = {"lane": lane, "partition": partition, "broker": broker, "offset": offset, "leader_epoch": epoch}
        self.replicas = self.replicas or []
        self.replicas.append({**row, "producer_id": 0, "seq": seq, "producer_epoch": producer_epoch})
        return self

    def event(self, type: str, /, **fields: Any) -> Rows:
        self.events = self.events or []
        self.events.append({"ts_ns": fields.pop("ts_ns", None) or self.tick(), "type": type, **fields})
        return self

    def write(self, folder: Path, *, files: int = 1) -> Path:
        """Write the run directory, the rows of each table distributed over `files` files in turn."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "lanes.json", {"format_version": self.format_version, "lanes": self.lanes})
        names = [lane["lane"] for lane in self.lanes]
        write_json(folder / "prediction.json", self.prediction or prediction(names))
        for table in TABLES:
            rows = getattr(self, table)
            if rows is not None:
                write_table(folder / table, table, rows, files=files)
        if self.events is not None:
            text = "".join(json.dumps(event) + "\n" for event in self.events)
            (folder / "events.jsonl").write_text(text)
        if self.checkpoints is not None:
            write_json(folder / "checkpoints.json", self.checkpoints)
        if self.timings is not None:
            write_json(folder / "timings.json", {"format_version": 1, "lanes": self.timings})
        return folder


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document))


def write_table(folder: Path, table: str, rows: list[dict[str, Any]], *, files: int = 1) -> None:
    folder.mkdir(exist_ok=True)
    for index in range(files):
        part = pa.Table.from_pylist(rows[index::files], schema=arrow_schema(TABLES[table]))
        pq.write_table(part, folder / f"part-{index:05d}.parquet")


def as_planned(run: Path, ns: int) -> Path:
    """The run directory as if kafka-chaos had made it; its last event is of this time."""
    write_json(run / "experiment.yaml", {})
    write_json(run / "events.jsonl", {"ts_ns": ns, "type": "step", "text": "verifying"})
    return run


def lane_of(name: str, history: LaneHistory, clients: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The entry of lanes.json for a history."""
    entry: dict[str, Any] = {"lane": name, "partitions": 4}
    if history.timeout_ms is not None:
        entry |= {"idempotence": True, "transactional": {"timeout_ms": history.timeout_ms}}
    return {**entry, **(clients or {})}


def rows_of(count: int = 20, **lane: Any) -> Rows:
    """A lane `a` with these settings, and so many records: each is acknowledged, read and stored at its number."""
    rows = Rows(lanes=[{"lane": "a", **lane}])
    for seq in range(count):
        rows.all(seq, seq)
    return rows


def rows_of_histories(
    histories: Mapping[str, LaneHistory], clients: Mapping[str, Mapping[str, Any]] | None = None
) -> Rows:
    """The rows of several lanes; there is a final log if the first lane has one. `clients`: as `write_histories`."""
    final_log = next(iter(histories.values())).log is not None
    rows = Rows(lanes=[lane_of(name, history, (clients or {}).get(name)) for name, history in histories.items()])
    brokers: dict[str, dict[str, Any]] = {}
    for table in TABLES:
        of_lanes = ((lane, row) for lane, history in histories.items() for row in getattr(history, table) or ())
        setattr(rows, table, [{"lane": lane, **row._asdict()} for lane, row in of_lanes])
    if rows.format_version < 3:
        rows.deliveries = rows.share_starts = rows.dead_letters = None
    if rows.format_version == 1:
        rows.transactions = rows.assignments = rows.commits = None
    rows.log, rows.replicas = rows.log if final_log else None, rows.replicas or None
    for lane, history in histories.items():
        for partition, mark in history.high_watermarks.items():
            for broker, own in {1: mark, **history.marks.get(partition, {})}.items():
                brokers.setdefault(str(broker), {})[f"{lane}/{partition}"] = {"high_watermark": own}
    rows.checkpoints = {"brokers": brokers} if brokers else None
    return rows


def write_histories(
    folder: Path,
    histories: Mapping[str, LaneHistory],
    clients: Mapping[str, Mapping[str, Any]] | None = None,
    groups: Mapping[str, Mapping[str, int]] | None = None,
) -> Path:
    """The run directory of several lanes.

    `clients`: by lane further keys of lanes.json, such as its group. `groups`: the content of groups.json.
    """
    if groups is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "groups.json", {"groups": groups})
    return rows_of_histories(histories, clients).write(folder, files=2)


def read_causes(run_dir: Path) -> set[tuple[str, str, str]]:
    """Lane, anomaly and cause of every finding."""
    return {(row["lane"], row["anomaly"], row["cause"]) for row in pq.read_table(run_dir / "findings").to_pylist()}


def read_cases(folder: Path) -> dict[str, list[Case]]:
    """The rows of findings/ as the oracle's cases, sorted, by lane."""
    cases: dict[str, list[Case]] = {}
    for row in pq.read_table(folder / "findings").to_pylist():
        values = [row[name] for name in Case._fields]
        cases.setdefault(row["lane"], []).append(Case(*values))
    return {lane: sorted(found, key=case_order) for lane, found in cases.items()}
