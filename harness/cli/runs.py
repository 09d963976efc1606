"""Reads the JSON and YAML files of run directories.

Guarantee: changes nothing, and never shows a run without a verdict as clean.
"""

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


class RunOnDisk(RunFiles):
    """A run directory, verified or not."""

    @property
    def name(self) -> str:
        """The run's id: its directory's name."""
        return self.path.name

    def counts(self, lane: str) -> dict[str, int]:
        """The number of cases of each anomaly that was found in a lane, by the anomaly's name."""
        anomalies = self.judged.get(lane, {}).get("anomalies", {})
        return {name: int(entry["count"]) for name, entry in anomalies.items() if entry.get("count")}

    def to_json(self) -> dict[str, Any]:
        """The run in one object, as `runs list --json` prints it."""
        verdicts = {name: str(self.judged.get(name, {}).get("verdict", UNVERIFIED)) for name in self.lanes}
        return {
            "run_id": self.name,
            "path": str(self.path),
            "experiment": self.experiment.get("name"),
            "started": self.started or None,
            "verdict": self.verdict,
            "lanes": {name: {"verdict": verdicts[name], "found": self.counts(name)} for name in self.lanes},
        }


def read_run(path: Path) -> RunOnDisk:
    """The run directory `path`; raises `UsageFailure` if it is no run directory, or if its files can't be used."""
    if path.name == LATEST and not path.exists():
        # The run that the link points to was removed: the latest run that is left takes its place.
        path = next((run.path for run in runs_below(path.parent)), path)
    if not (path / LANES_FILE).is_file():
        inside = next((f"; it holds runs, such as {run.path}" for run in runs_below(path)), "")
        raise UsageFailure(f"{path}: not a run directory, expected one with a {LANES_FILE}{inside}")
    resolved = path.resolve() if path.name == LATEST else path  # a run's name is its id, not `latest`
    lanes, _ = named_entries(path / LANES_FILE)
    verdict_file = path / VERDICT_FILE
    verdict, judged, _ = read_verdict(verdict_file) if verdict_file.is_file() else (UNVERIFIED, {}, None)
    experiment: Mapping[str, Any] = {}
    with suppress(OSError, ValueError):  # without the file, only the experiment's name and the start are unknown
        experiment = as_dict(parsed_yaml((path / EXPERIMENT_FILE).read_bytes()))
    return RunOnDisk(path=resolved, verdict=verdict, lanes=lanes, judged=judged, experiment=experiment)


def runs_below(root: Path) -> list[RunOnDisk]:
    """The readable run directories in `root`, the latest first: their names begin with the time."""
    folders = sorted(root.iterdir(), reverse=True) if root.is_dir() else []
    runs = []
    for path in folders:
        if path.is_dir() and not path.is_symlink() and (path / LANES_FILE).is_file():
            with suppress(UsageFailure):
                runs.append(read_run(path))
    return runs
