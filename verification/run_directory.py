"""A run directory opened for verification: its files found, its metadata parsed, every footer checked.

Guarantee: `open_run` either returns a directory whose tables and JSON files follow the contract, or raises
`RunDirectoryError` naming the file and the column or key; it writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.reference_model.anomalies import Anomaly, Status
from kafka_chaos.reference_model.lane import Lane, LaneError
from kafka_chaos.verification.contract import TABLES, RunDirectoryError, check_parquet
from kafka_chaos.verification.storage import RunPath, listed, run_path

FORMAT_VERSION = 1
REQUIRED_TABLES = ("produced", "consumed")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that events.jsonl says was requested. `lanes` None: it concerned every lane."""

    fault_id: str
    kind: str
    requested_ns: int
    lanes: tuple[str, ...] | None
    proven: bool
    reason: str | None

    def concerns(self, lane: str) -> bool:
        """Whether this fault was aimed at `lane` (or at all)."""
        return self.lanes is None or lane in self.lanes


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """What verification reads. `files` maps a table's name to its Parquet files; a missing table has none.

    `faults` is None without an events.jsonl; `predictions` holds what prediction.json says, lane by lane;
    `epochs` maps (lane, partition) to the final chain of (leader epoch, start offset); `high_watermarks` maps
    (lane, partition) to the lowest high watermark of all replicas. `first_poll_ns` is the lowest `poll_ns` that the
    footers tell: where they tell none, the screen takes times from 0 on.
    """

    path: RunPath
    lanes: tuple[Lane, ...]
    files: Mapping[str, tuple[RunPath, ...]]
    rows: Mapping[str, int]
    faults: tuple[Fault, ...] | None
    predictions: Mapping[str, Mapping[Anomaly, Status]]
    epochs: Mapping[tuple[str, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    high_watermarks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    reports_high_watermarks: bool = False
    first_poll_ns: int = 0

    @property
    def has_log(self) -> bool:
        """Whether there is a final log to judge by."""
        return bool(self.files["log"])

    def file_names(self, table: str) -> list[str]:
        """The files of a table, by name."""
        return [str(file) for file in self.files[table]]

    def lane(self, name: str) -> Lane:
        """The lane of that name."""
        return next(lane for lane in self.lanes if lane.lane == name)


def open_run(path: str | RunPath) -> RunDirectory:
    """Open and check the run directory at `path`, local or with a scheme; see the module's guarantee."""
    root = run_path(path)
    if not root.is_dir():
        raise RunDirectoryError(root, "no such directory, expected a run directory")
    lanes = read_lanes(root / "lanes.json")
    names = {lane.lane for lane in lanes}
    files = {table: tuple(listed(root / table, "*.parquet")) for table in TABLES}
    for table in REQUIRED_TABLES:
        if not (root / table).is_dir():
            raise RunDirectoryError(root / table, "missing, expected a folder of Parquet files")
    footers = {table: [check_parquet(file, table) for file in files[table]] for table in TABLES}
    polls = [footer.first_poll_ns for footer in footers["consumed"] if footer.first_poll_ns is not None]
    faults, reports = _read_events(root / "events.jsonl", names)
    epochs, high_watermarks = _read_checkpoints(root / "checkpoints.json")
    return RunDirectory(
        path=root,
        lanes=lanes,
        files=files,
        rows={table: sum(footer.rows for footer in found) for table, found in footers.items()},
        faults=faults,
        predictions=read_predictions(root / "prediction.json"),
        epochs=epochs,
        high_watermarks=high_watermarks,
        reports_high_watermarks=reports,
        first_poll_ns=min(polls, default=0),
    )


def _read_json(path: RunPath) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise RunDirectoryError(path, "missing") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RunDirectoryError(path, f"not valid JSON ({error})") from error


def _expect(holds: bool, path: RunPath, key: str, problem: str) -> None:
    if not holds:
        raise RunDirectoryError(path, problem, column=key)


def _read_versioned(path: RunPath) -> dict[str, Any]:
    document = _read_json(path)
    _expect(isinstance(document, dict), path, "(top level)", "expected an object")
    version = document.get("format_version")
    _expect(version == FORMAT_VERSION, path, "format_version", f"is {version!r}, expected {FORMAT_VERSION}")
    return dict(document)


def read_lanes(path: RunPath) -> tuple[Lane, ...]:
    """The lanes of a lanes.json; `RunDirectoryError` names the key at fault."""
    entries = _read_versioned(path).get("lanes")
    if not isinstance(entries, list) or not entries:
        raise RunDirectoryError(path, "expected a list of at least one lane", column="lanes")
    lanes: list[Lane] = []
    for index, entry in enumerate(entries):
        place = f"lanes[{index}]"
        _expect(isinstance(entry, dict), path, place, "expected an object")
        try:
            lane = Lane.from_json(entry)
        except LaneError as error:
            raise RunDirectoryError(path, str(error), column=f"{place}.{error.key}") from error
        twice = any(lane.lane == other.lane for other in lanes)
        _expect(not twice, path, f"{place}.lane", f"{lane.lane!r} is named twice")
        lanes.append(lane)
    return tuple(lanes)


def read_predictions(path: RunPath) -> dict[str, dict[Anomaly, Status]]:
    """What a prediction.json says, by lane; nothing if it is not there."""
    if not path.exists():
        return {}
    lanes = _read_versioned(path).get("lanes")
    if not isinstance(lanes, dict):
        raise RunDirectoryError(path, "expected an object of lanes", column="lanes")
    predictions: dict[str, dict[Anomaly, Status]] = {}
    for name, entry in lanes.items():
        anomalies = entry.get("anomalies") if isinstance(entry, dict) else None
        if not isinstance(anomalies, dict):
            raise RunDirectoryError(path, "expected an object", column=f"lanes.{name}.anomalies")
        predictions[name] = {}
        for anomaly, answer in anomalies.items():
            key = f"lanes.{name}.anomalies.{anomaly}"
            _expect(anomaly in set(Anomaly), path, key, f"no such anomaly; they are {', '.join(Anomaly)}")
            status = answer.get("status") if isinstance(answer, dict) else None
            _expect(status in set(Status), path, f"{key}.status", f"{status!r}, expected {', '.join(Status)}")
            predictions[name][Anomaly(anomaly)] = Status(str(status))
    return predictions


def _read_events(path: RunPath, lanes: set[str]) -> tuple[tuple[Fault, ...] | None, bool]:
    if not path.exists():
        return None, False
    requested: dict[str, dict[str, Any]] = {}
    proven: set[str] = set()
    reasons: dict[str, str] = {}
    reports = False
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            event = _parse_event(path, number, line)
            kind = event["type"]
            if kind == "high_watermark":
                reports = True
            elif kind in {"fault_requested", "fault_proven", "fault_not_proven"}:
                fault_id = event.get("fault_id")
                if not isinstance(fault_id, str):
                    raise RunDirectoryError(path, f"{kind} without a fault_id", column=f"line {number}")
                if kind == "fault_requested":
                    _check_requested(path, number, event, lanes)
                    requested[fault_id] = event
                elif kind == "fault_proven":
                    proven.add(fault_id)
                else:
                    reasons[fault_id] = str(event.get("reason") or "no reason given")
    faults = tuple(
        Fault(
            fault_id=fault_id,
            kind=str(event.get("kind", "?")),
            requested_ns=event["ts_ns"],
            lanes=None if event.get("lanes") is None else tuple(event["lanes"]),
            proven=fault_id in proven,
            reason=reasons.get(fault_id),
        )
        for fault_id, event in requested.items()
    )
    return faults, reports


def _parse_event(path: RunPath, number: int, line: str) -> dict[str, Any]:
    place = f"line {number}"
    try:
        event = json.loads(line)
    except json.JSONDecodeError as error:
        raise RunDirectoryError(path, f"not valid JSON ({error})", column=place) from error
    _expect(isinstance(event, dict) and isinstance(event.get("type"), str), path, place, "expected a type")
    stamp = event.get("ts_ns")
    is_stamp = isinstance(stamp, int) and not isinstance(stamp, bool)
    _expect(is_stamp, path, place, f"ts_ns is {stamp!r}, expected whole nanoseconds")
    return dict(event)


def _check_requested(path: RunPath, number: int, event: Mapping[str, Any], lanes: set[str]) -> None:
    concerned = event.get("lanes")
    if concerned is None:
        return
    _expect(isinstance(concerned, list), path, f"line {number}", "lanes: expected a list of lane names")
    for name in concerned:
        _expect(name in lanes, path, f"line {number}", f"lanes: {name!r} is not in lanes.json")


def _read_checkpoints(
    path: RunPath,
) -> tuple[dict[tuple[str, int], tuple[tuple[int, int], ...]], dict[tuple[str, int], int]]:
    """Per partition: the epoch chain of the replica that has seen the newest epoch; the lowest high watermark."""
    if not path.exists():
        return {}, {}
    document = _read_json(path)
    brokers = document.get("brokers") if isinstance(document, dict) else None
    if not isinstance(brokers, dict):
        raise RunDirectoryError(path, "expected an object of brokers", column="brokers")
    epochs: dict[tuple[str, int], tuple[tuple[int, int], ...]] = {}
    high_watermarks: dict[tuple[str, int], int] = {}
    for broker, partitions in brokers.items():
        _expect(isinstance(partitions, dict), path, f"brokers.{broker}", "expected an object of partitions")
        for name, entry in partitions.items():
            key = f"brokers.{broker}.{name}"
            lane, _, partition = name.rpartition("/")
            _expect(bool(lane) and partition.isdecimal(), path, key, "expected '<lane>/<partition>'")
            try:
                high_watermark = int(entry["high_watermark"])
                chain = tuple((int(epoch), int(start)) for epoch, start in entry.get("leader_epochs") or ())
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                problem = f"expected high_watermark and leader_epochs [[epoch, start_offset], …] ({error!r})"
                raise RunDirectoryError(path, problem, column=key) from error
            place = (lane, int(partition))
            high_watermarks[place] = min(high_watermark, high_watermarks.get(place, high_watermark))
            if chain and (place not in epochs or chain[-1][0] > epochs[place][-1][0]):
                epochs[place] = chain
    return epochs, high_watermarks
