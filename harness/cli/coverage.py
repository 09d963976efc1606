"""What the runs in a folder have tried: which lane configurations lived through which faults, and what they showed.

Guarantee: a fault counts only with its proof, and a lane only with a verdict.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.contract.run_directory import EVENTS_FILE
from kafka_chaos.contract.transactions import AnyAnomaly, anomaly_named
from kafka_chaos.harness.cli.runs import UNVERIFIED, Run, runs_below
from kafka_chaos.harness.report.matrix import settings

Combination = tuple[str, str, str]
"""A lane's configuration, a fault kind, and the role that was its target."""


@dataclass
class Coverage:
    """Counts over runs. `faults`: lanes that lived through a combination; `found`: lanes of a configuration that
    showed an anomaly; `lanes`: all lanes of a configuration that have a verdict."""

    runs: int = 0
    lanes: Counter[str] = field(default_factory=Counter)
    faults: Counter[Combination] = field(default_factory=Counter)
    found: Counter[tuple[str, AnyAnomaly]] = field(default_factory=Counter)

    @property
    def kinds(self) -> list[str]:
        """The fault kinds that occurred, by name."""
        return sorted({kind for _, kind, _ in self.faults})

    def of_kind(self, configuration: str, kind: str) -> int:
        """How often lanes of a configuration lived through faults of a kind."""
        return sum(count for (one, fault, _), count in self.faults.items() if (one, fault) == (configuration, kind))

    def to_json(self) -> dict[str, Any]:
        """The counts as `--json` prints them."""
        return {
            "runs": self.runs,
            "configurations": [
                {
                    "configuration": configuration,
                    "lanes": count,
                    "faults": [
                        {"fault": kind, "target": role, "count": number}
                        for (one, kind, role), number in sorted(self.faults.items())
                        if one == configuration
                    ],
                    "found": {str(name): number for (one, name), number in self.found.items() if one == configuration},
                }
                for configuration, count in sorted(self.lanes.items())
            ],
        }


def coverage_below(root: Path) -> Coverage:
    """What all runs with a verdict directly below `root` have tried."""
    coverage = Coverage()
    for run in runs_below(root):
        if run.verdict != UNVERIFIED:
            _add(coverage, run)
    return coverage


def _add(coverage: Coverage, run: Run) -> None:
    faults = list(_proven(run.path / EVENTS_FILE))
    coverage.runs += 1
    for name, lane in run.lanes.items():
        if name not in run.judged:
            continue
        configuration = settings(lane)
        coverage.lanes[configuration] += 1
        for kind, role, concerned in faults:
            if concerned is None or name in concerned:
                coverage.faults[configuration, kind, role] += 1
        for anomaly in run.counts(name):
            coverage.found[configuration, anomaly_named(anomaly)] += 1


def _proven(path: Path) -> Iterator[tuple[str, str, tuple[str, ...] | None]]:
    """Kind, role and lanes (None: all) of each fault that has a proof."""
    requested: dict[str, Mapping[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        event = json.loads(line)
        if event.get("type") == "fault_requested":
            requested[str(event.get("fault_id"))] = event
        elif event.get("type") == "fault_proven" and (fault := requested.get(str(event.get("fault_id")))):
            lanes = fault.get("lanes")
            role = str(fault.get("target", "")).partition("(")[0].partition(":")[0]
            yield str(fault.get("kind", "?")), role, tuple(map(str, lanes)) if isinstance(lanes, list) else None
