"""Small handmade run directories for the report's tests."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SECOND = 1_000_000_000
ANOMALIES = ("lost_write", "duplicate", "phantom")


def lane(name: str, **settings: Any) -> dict[str, Any]:
    """An entry of lanes.json."""
    return {
        "lane": name, "acks": "1", "min_insync_replicas": 1, "replication_factor": 3, "faults": ["pause"], **settings,
    }  # fmt: skip


def judged(
    name: str,
    *,
    verdict: str = "conforms",
    found: Mapping[str, tuple[int, str]] | None = None,
    predicted: Mapping[str, str] | None = None,
    not_judged: Mapping[str, str] | None = None,
    reasons: Sequence[str] = (),
    produced: int = 100,
) -> dict[str, Any]:
    """An entry of verdict.json; `found` maps an anomaly to its count and status."""
    anomalies = {
        key: {"count": count, "status": status, "examples": []} for key, (count, status) in (found or {}).items()
    }
    return {
        "lane": name,
        "verdict": verdict,
        "produced": produced,
        "acknowledged": produced,
        "consumed": produced,
        "anomalies": anomalies,
        "not_judged": dict(not_judged or {}),
        "predicted": {**dict.fromkeys(ANOMALIES, "forbidden"), **(predicted or {})},
        "reasons": list(reasons),
    }


def write(
    path: Path,
    lanes: Sequence[Mapping[str, Any]],
    verdicts: Sequence[Mapping[str, Any]],
    *,
    verdict: str = "conforms",
    prediction: Mapping[str, Any] | None = None,
    experiment: str | None = None,
    events: Sequence[Mapping[str, Any]] | None = None,
) -> Path:
    """A run directory with lanes.json, verdict.json and everything else that is given."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "lanes.json").write_text(json.dumps({"format_version": 1, "lanes": list(lanes)}))
    (path / "verdict.json").write_text(json.dumps({"format_version": 1, "verdict": verdict, "lanes": list(verdicts)}))
    if prediction is not None:
        (path / "prediction.json").write_text(json.dumps({"format_version": 1, "lanes": prediction}))
    if experiment is not None:
        (path / "experiment.yaml").write_text(experiment)
    if events is not None:
        (path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def event(seconds: float, type_: str, /, **values: Any) -> dict[str, Any]:
    """A line of events.jsonl."""
    return {"ts_ns": round(seconds * SECOND), "type": type_, **values}


def story(name: str = "orders") -> list[dict[str, Any]]:
    """Ten seconds of load with a frozen leader that was replaced and had to cut off the end of its log."""
    place = {"lane": name, "partition": 0}
    fault = {"fault_id": "load/pause-1"}
    return [
        event(0.5, "step", text="starting"),
        event(1, "phase_started", phase="load", lanes=[name]),
        event(1.1, "leader_changed", **place, before=None, leader=1),
        event(1.1, "isr_changed", **place, before=[], isr=[1, 2, 3]),
        event(1.0, "leader_elected", **place, broker=1, leader_epoch=0, start_offset=0, isr=[1, 2, 3]),
        event(1.2, "progress", counts={}),
        event(
            3, "fault_requested", **fault, kind="pause", target=f"leader({name})", resolved=["broker-1"], lanes=[name]
        ),
        event(3.1, "fault_proven", **fault, evidence={"broker-1": {"freezer": "FROZEN"}}),
        event(5, "leader_changed", **place, before=1, leader=2),
        event(5, "isr_changed", **place, before=[1, 2, 3], isr=[2, 3]),
        event(5, "leader_elected", **place, broker=2, leader_epoch=1, start_offset=40, isr=[2, 3]),
        event(8, "fault_healed", **fault),
        event(9, "log_truncated", **place, broker=1, offset=40, reason="due to leader epoch"),
        event(11, "phase_ended", phase="load"),
        event(12, "run_ended", verdict="conforms", seconds=11.5),
    ]
