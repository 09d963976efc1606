"""Reads the small files of a run directory, once, for a report.

Guarantee: `verdict.json` and `lanes.json` exist and are usable, or `UsageFailure` names the file and what was
expected. Everything else may be missing or broken; `missing` then names it with what the report cannot show.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.contract import run_directory as contract
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.contract.event_lines import event_of
from kafka_chaos.contract.events import ClientStarted, Event
from kafka_chaos.contract.lane.families import FAMILY_KEYS
from kafka_chaos.contract.lane.lanes import client_text
from kafka_chaos.verification.inputs.documents.reading import parsed, parsed_yaml, read_object

_LOST_BY_FILE = {  # what a report can't show without the file
    contract.PREDICTION_FILE: "steps by which the model reaches an anomaly",
    contract.EXPERIMENT_FILE: "configuration, versions and seed",
    contract.EVENTS_FILE: "phases, faults, leader and ISR changes",
    contract.CHECKPOINTS_FILE: "ends of the brokers' logs",
}
_LOST_BY_TABLE = {  # what a report can't show without the table
    "produced": "rates, latencies, outcomes and gaps",
    "findings": "places of anomalies in the log",
    "log": "ends of partitions",
}
_LOST_PER_LANE = {
    "transactions": ("transactions over time", ("transactional",)),
    "assignments": ("holders of partitions over time", ("group", "loop")),
    "commits": ("commits of offsets over time", ("group", "loop")),
    "deliveries": ("deliveries to share groups", ("share",)),
    "share_starts": ("start offsets of share groups over time", ("share",)),
}
"""Tables of lanes with certain keys in lanes.json: what a report can't show without the table, and the keys."""
MOST_EVENTS = 200_000  # the most events that are read; events of progress do not count


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """Documents of a run directory. `lanes` and `judged`: by lane, the entries of lanes.json and verdict.json."""

    path: Path
    verdict: str
    lanes: Mapping[str, Mapping[str, Any]]
    judged: Mapping[str, Mapping[str, Any]]
    experiment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The run's additions to the experiment: run_id, versions, started. Older runs have them at the top level."""
        recorded = self.experiment.get("recorded")
        return recorded if isinstance(recorded, dict) else self.experiment

    @property
    def started(self) -> str:
        """When the run began, to the second; empty if the run did not record it."""
        return str(as_dict(self.recorded.get("started")).get("wall_clock", ""))[:19].replace("T", " ")


@dataclass(frozen=True, kw_only=True)
class Evidence(RunFiles):
    """A verified run directory's small files. `predicted` are the entries of prediction.json by lane.

    `tables`: by a table's name, its Parquet files. `verified_tables`: by a table's name, the rows that verdict.json
    counts (docs/ledger.md). `checkpoints`: by broker, its checkpoints by partition, such as `orders/0`.
    """

    verdict: Verdict
    predicted: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    experiment_text: str = ""
    events: tuple[Event, ...] = ()
    tables: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    verified_tables: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def predictions_of(self, lane: str) -> Mapping[str, Any]:
        """The entries of prediction.json for a lane, by anomaly."""
        entry = as_dict(self.predicted.get(lane))
        return {name: prediction for part in FAMILY_KEYS for name, prediction in as_dict(entry.get(part)).items()}

    @property
    def run_id(self) -> str:
        """The run's id; without one, the directory's name."""
        return str(self.recorded.get("run_id") or self.path.resolve().name)


def read_evidence(run_dir: Path) -> Evidence:
    """Read the small files of a run directory. Raises `UsageFailure` without a usable verdict.json and lanes.json."""
    if not (run_dir / contract.VERDICT_FILE).exists():
        raise UsageFailure(f"{run_dir / contract.VERDICT_FILE}: can't be read; a report needs it: verify the run first")
    verdict, judged, document = read_verdict(run_dir / contract.VERDICT_FILE)
    lanes = named_entries(run_dir / contract.LANES_FILE)[0]
    missing: list[str] = []
    prediction_file, experiment_file = run_dir / contract.PREDICTION_FILE, run_dir / contract.EXPERIMENT_FILE
    prediction = _optional_object(prediction_file, _optional_text(prediction_file, missing), parsed, missing)
    text = _optional_text(experiment_file, missing)
    tables = {name: tuple(sorted((run_dir / name).glob("*.parquet"))) for name in (*_LOST_BY_TABLE, *_LOST_PER_LANE)}
    lacks = _LOST_BY_TABLE | {
        name: lack
        for name, (lack, keys) in _LOST_PER_LANE.items()
        if any(lane.get(key) for lane in lanes.values() for key in keys)
    }
    missing += [f"{name}/: no {lack}" for name, lack in lacks.items() if not tables[name]]
    # A run need not have checkpoints: only a broken file counts as missing.
    checkpoints_file = run_dir / contract.CHECKPOINTS_FILE
    checkpoints_text = _optional_text(checkpoints_file, missing) if checkpoints_file.is_file() else ""
    checkpoints = _optional_object(checkpoints_file, checkpoints_text, parsed, missing)
    events = tuple(_read_events(_optional_text(run_dir / contract.EVENTS_FILE, missing).splitlines(), missing))
    # A lane's `client` is what its processes reported, or else what lanes.json declares.
    declared = {
        name: client_text(lane["client"]) for name, lane in lanes.items() if isinstance(lane.get("client"), Mapping)
    }
    started = [event for event in events if isinstance(event, ClientStarted)]
    clients = declared | {event.lane: f"{event.client} {event.version}" for event in started}
    return Evidence(
        path=run_dir,
        verdict=verdict,
        judged=judged,
        lanes={name: {**lane, "client": clients[name]} if name in clients else lane for name, lane in lanes.items()},
        predicted=as_dict(prediction.get("lanes")),
        experiment=_optional_object(experiment_file, text, parsed_yaml, missing),
        experiment_text=text,
        events=events,
        tables=tables,
        verified_tables=as_dict(document.get("tables")),
        checkpoints=as_dict(checkpoints.get("brokers")),
        missing=tuple(missing),
    )


def read_verdict(path: Path) -> tuple[Verdict, dict[str, Mapping[str, Any]], Mapping[str, Any]]:
    """The run's verdict, the entries of its lanes, and the whole document. Raises `UsageFailure`."""
    judged, document = named_entries(path)
    for prefix, entry in {"": document, **{f"lane {name!r}: ": entry for name, entry in judged.items()}}.items():
        if entry.get("verdict") not in set(Verdict):
            raise UsageFailure(f"{path}: {prefix}verdict: {entry.get('verdict')!r}, expected {', '.join(Verdict)}")
    return Verdict(document["verdict"]), judged, document


def named_entries(path: Path) -> tuple[dict[str, Mapping[str, Any]], Mapping[str, Any]]:
    """The entries of a document's `lanes` by the lane's name, and the document. Raises `UsageFailure`."""
    document = read_object(path)
    entries = document.get("lanes")
    if not isinstance(entries, list):
        raise UsageFailure(f"{path}: lanes: expected a list")
    by_lane: dict[str, Mapping[str, Any]] = {}
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("lane"), str):
            raise UsageFailure(f"{path}: lanes[{index}]: expected an object with the key lane")
        by_lane[entry["lane"]] = entry
    return by_lane, document


def _optional_text(path: Path, missing: list[str]) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        missing.append(f"{path.name}: no {_LOST_BY_FILE[path.name]}")
        return ""


def _optional_object(path: Path, text: str, parse: Callable[[str], Any], missing: list[str]) -> Mapping[str, Any]:
    try:
        return as_dict(parse(text)) if text else {}
    except ValueError:
        missing.append(f"{path.name} is not valid {path.suffix[1:].upper()}: no {_LOST_BY_FILE[path.name]}")
        return {}


def _read_events(lines: Iterable[str], missing: list[str]) -> list[Event]:
    """The events in order of time, without progress. Lines that a crash left broken are counted in `missing`."""
    events: list[Event] = []
    broken = 0
    for line in lines:
        if '"type": "progress"' in line or not line.strip():
            continue
        if len(events) == MOST_EVENTS:
            missing.append(f"events.jsonl: only the first {MOST_EVENTS:,} events are shown")
            break
        try:
            event = event_of(as_dict(parsed(line)))
        except ValueError:
            broken += 1
        else:
            events += [event] if event is not None else []
    if broken:
        no_events = "is no event and is" if broken == 1 else "are no events and are"
        missing.append(f"events.jsonl: {counted(broken, 'line')} {no_events} left out")
    return sorted(events, key=lambda event: event.ts_ns)


def as_dict(value: object) -> Mapping[str, Any]:
    """The value if it is an object of JSON or YAML, else an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[Any]:
    """The value if it is a list of JSON, else an empty list."""
    return value if isinstance(value, list) else ()
