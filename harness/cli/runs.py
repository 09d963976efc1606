"""Reads the small files of run directories: lists runs, and compares two of them.

Guarantee: changes nothing, and never shows a run without a verdict as clean.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.run_directory import EXPERIMENT_FILE, LANES_FILE, VERDICT_FILE
from kafka_chaos.harness.report.inputs.evidence import RunFiles, as_dict, named_entries, read_verdict
from kafka_chaos.harness.run.directory import LATEST
from kafka_chaos.verification.inputs.documents.reading import parsed_yaml

UNVERIFIED = "not verified"


class Run(RunFiles):
    """A run directory, verified or not."""

    @property
    def name(self) -> str:
        """The run's id: its directory's name."""
        return self.path.name

    def counts(self, lane: str) -> dict[str, int]:
        """The anomalies that were found in a lane, by name."""
        anomalies = self.judged.get(lane, {}).get("anomalies", {})
        return {name: int(entry["count"]) for name, entry in anomalies.items() if entry.get("count")}

    def to_json(self) -> dict[str, Any]:
        """The run in one object, as `runs list --json` prints it."""
        judged = {lane: str(self.judged[lane]["verdict"]) if lane in self.judged else UNVERIFIED for lane in self.lanes}
        return {
            "run_id": self.name,
            "path": str(self.path),
            "experiment": self.experiment.get("name"),
            "started": self.started or None,
            "verdict": self.verdict,
            "lanes": {lane: {"verdict": judged[lane], "found": self.counts(lane)} for lane in self.lanes},
        }


def read_run(path: Path) -> Run:
    """One run directory; raises `UsageFailure` if it is none, or if its files can't be used."""
    if path.name == LATEST and not path.exists():
        # The run that the link points to was removed.
        path = next((run.path for run in runs_below(path.parent)), path)
    if not (path / LANES_FILE).is_file():
        inside = next((f"; it holds runs, such as {run.path}" for run in runs_below(path)), "")
        raise UsageFailure(f"{path}: not a run directory, expected one with a {LANES_FILE}{inside}")
    resolved = path.resolve() if path.name == LATEST else path
    lanes, _ = named_entries(path / LANES_FILE)
    verdict, judged, _ = (
        read_verdict(path / VERDICT_FILE) if (path / VERDICT_FILE).is_file() else (UNVERIFIED, {}, None)
    )
    experiment = _experiment(path / EXPERIMENT_FILE)
    return Run(path=resolved, verdict=verdict, lanes=lanes, judged=judged, experiment=experiment)


def runs_below(root: Path) -> list[Run]:
    """All run directories directly below `root`, the latest first; unreadable ones are skipped."""
    folders = sorted(root.iterdir(), reverse=True) if root.is_dir() else []
    runs = []
    for path in folders:
        if path.is_dir() and not path.is_symlink() and (path / LANES_FILE).is_file():
            with suppress(UsageFailure):
                runs.append(read_run(path))
    return runs


def differences(before: Run, after: Run) -> list[tuple[str, str, str]]:
    """The differences of two runs in settings, versions, lanes, verdicts and counts: (name, before, after)."""
    found: list[tuple[str, str, str]] = []

    def compare(what: str, one: object, other: object) -> None:
        if one != other:
            found.append((what, _shown(one), _shown(other)))

    compare("verdict", before.verdict, after.verdict)
    for place, one, other in _walk(_settings(before), _settings(after)):
        compare(place, one, other)
    for lane in dict.fromkeys([*before.lanes, *after.lanes]):
        if (lane in before.lanes) != (lane in after.lanes):
            compare(f"lane {lane}", "there" if lane in before.lanes else None, "there" if lane in after.lanes else None)
            continue
        one, other = before.to_json()["lanes"][lane], after.to_json()["lanes"][lane]
        compare(f"lane {lane}: verdict", one["verdict"], other["verdict"])
        for anomaly in dict.fromkeys([*one["found"], *other["found"]]):
            compare(f"lane {lane}: {anomaly}", one["found"].get(anomaly, 0), other["found"].get(anomaly, 0))
    return found


def _settings(run: Run) -> dict[str, Any]:
    settings = {key: value for key, value in run.experiment.items() if key not in ("recorded", "description")}
    return {**settings, "versions": run.recorded.get("versions", {})}


def _walk(one: Any, other: Any, place: str = "") -> list[tuple[str, Any, Any]]:
    """The leaves in which two documents differ; lists are compared entry by entry."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = dict.fromkeys([*one, *other])
        inside = [(one.get(key), other.get(key), f"{place}.{key}" if place else str(key)) for key in keys]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        inside = [(*both, f"{place}[{index}]") for index, both in enumerate(zip(one, other, strict=True))]
    else:
        return [(place, one, other)] if one != other else []
    return [leaf for entry in inside for leaf in _walk(*entry)]


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _experiment(path: Path) -> Mapping[str, Any]:
    try:
        return as_dict(parsed_yaml(path.read_bytes()))
    except (OSError, ValueError):
        return {}
