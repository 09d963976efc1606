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
    experiment: Mapping[str, Any] = {}
    with suppress(OSError, ValueError):
        experiment = as_dict(parsed_yaml((path / EXPERIMENT_FILE).read_bytes()))
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
    values: list[tuple[str, object, object]] = [
        ("verdict", before.verdict, after.verdict),
        *_differing_leaves(_settings(before), _settings(after)),
    ]
    lanes_before, lanes_after = before.to_json()["lanes"], after.to_json()["lanes"]
    for lane in dict.fromkeys([*lanes_before, *lanes_after]):
        if (lane in lanes_before) != (lane in lanes_after):
            old, new = ("there" if lane in lanes else None for lanes in (lanes_before, lanes_after))
            values.append((f"lane {lane}", old, new))
            continue
        old, new = lanes_before[lane], lanes_after[lane]
        values.append((f"lane {lane}: verdict", old["verdict"], new["verdict"]))
        for anomaly in dict.fromkeys([*old["found"], *new["found"]]):
            values.append((f"lane {lane}: {anomaly}", old["found"].get(anomaly, 0), new["found"].get(anomaly, 0)))
    return [(name, _shown(old), _shown(new)) for name, old, new in values if old != new]


def _settings(run: Run) -> dict[str, Any]:
    settings = {key: value for key, value in run.experiment.items() if key not in ("recorded", "description")}
    return {**settings, "versions": run.recorded.get("versions", {})}


def _differing_leaves(before: Any, after: Any, place: str = "") -> list[tuple[str, Any, Any]]:
    """The leaves in which two documents differ; lists of one length are compared entry by entry."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = dict.fromkeys([*before, *after])
        inside = [(before.get(key), after.get(key), f"{place}.{key}" if place else str(key)) for key in keys]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        inside = [(*both, f"{place}[{index}]") for index, both in enumerate(zip(before, after, strict=True))]
    else:
        return [(place, before, after)] if before != after else []
    return [leaf for entry in inside for leaf in _differing_leaves(*entry)]


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)
