"""Coverage of the runs in a folder: which lane configurations went through which faults, and what they showed.

Guarantee: a fault counts only with its proof, a lane only with a verdict, an anomaly only where it was judged, and an
action of the model only where it left a trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.lane.families import AnyAnomaly, anomaly_named
from kafka_chaos.contract.run_directory import EVENTS_FILE, LANES_FILE, RunDirectoryError
from kafka_chaos.harness.cli.runs import UNVERIFIED, Run, runs_below
from kafka_chaos.harness.nightly.summary import wilson
from kafka_chaos.harness.replay.actions import ACTIONS, actions_of
from kafka_chaos.harness.report.matrix import settings
from kafka_chaos.verification.inputs.documents.events import read_events
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.run_directory import read_lanes

PAGE = "coverage.html.j2"
Combination = tuple[str, str, str]
"""A lane's configuration, a fault kind, and the role that was its target."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An anomaly that predictions permit or require, in `judged` lanes of a configuration under the same faults.

    `shown`: how many of them showed it. Without one, what the model permits is a claim that no broker has confirmed.
    """

    configuration: str
    faults: str
    anomaly: AnyAnomaly
    judged: int
    shown: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the share that shows it."""
        return wilson(self.shown, self.judged)

    def to_json(self) -> dict[str, Any]:
        """The entry of `permitted`."""
        low, high = (round(bound, 4) for bound in self.interval)
        named = {"configuration": self.configuration, "faults": self.faults, "anomaly": str(self.anomaly)}
        return {**named, "judged": self.judged, "shown": self.shown, "low": low, "high": high}


@dataclass
class Coverage:
    """Counts over runs. `faults`: lanes that lived through a combination; `found`: lanes of a configuration that
    showed an anomaly; `lanes`: all lanes of a configuration that have a verdict. `judged` and `shown`: lanes of a
    configuration under the model's faults, by an anomaly that is permitted or required. `actions`: lanes of a
    configuration whose brokers or clients did what the model calls by that name (`replay.actions.ACTIONS`)."""

    runs: int = 0
    lanes: Counter[str] = field(default_factory=Counter)
    faults: Counter[Combination] = field(default_factory=Counter)
    found: Counter[tuple[str, AnyAnomaly]] = field(default_factory=Counter)
    judged: Counter[tuple[str, str, AnyAnomaly]] = field(default_factory=Counter)
    shown: Counter[tuple[str, str, AnyAnomaly]] = field(default_factory=Counter)
    actions: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def traces(self) -> Mapping[str, str]:
        """The evidence that shows each action of the model, by its name."""
        return ACTIONS

    @property
    def claims(self) -> list[Claim]:
        """Permitted and required anomalies, first those that no lane has shown, the most often judged first."""
        claims = [Claim(*key, judged, self.shown[key]) for key, judged in self.judged.items()]
        return sorted(claims, key=lambda one: (one.shown > 0, -one.judged, one.configuration, one.faults, one.anomaly))

    @property
    def targets(self) -> list[str]:
        """The roles that faults hit, by name."""
        return sorted({role for _, _, role in self.faults})

    def of_target(self, kind: str, role: str) -> int:
        """How often lanes lived through faults of a kind at a role."""
        return sum(count for (_, fault, one), count in self.faults.items() if (fault, one) == (kind, role))

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
                    "actions": {action: self.actions[configuration, action] for action in ACTIONS},
                }
                for configuration, count in sorted(self.lanes.items())
            ],
            "permitted": [claim.to_json() for claim in self.claims],
        }


def coverage_below(root: Path) -> Coverage:
    """The coverage of all runs with a verdict directly below `root`."""
    coverage = Coverage()
    for run in runs_below(root):
        if run.verdict != UNVERIFIED:
            _add(coverage, run)
    return coverage


def coverage_page(root: Path) -> str:
    """The page of what the runs directly below `root` have tried."""
    from kafka_chaos.harness.report.pages import environment

    return environment().get_template(PAGE).render(coverage=coverage_below(root), root=str(root))


def _add(coverage: Coverage, run: Run) -> None:
    faults = _proven(run.path)
    actions = actions_of(run.path)
    coverage.runs += 1
    for name, lane in run.lanes.items():
        if name not in run.judged:
            continue
        configuration = settings(lane)
        coverage.lanes[configuration] += 1
        for fault in faults:
            if fault.concerns(name):
                role = fault.target.partition("(")[0].partition(":")[0]
                coverage.faults[configuration, fault.kind, role] += 1
        coverage.actions.update((configuration, action) for action in actions.get(name, ()))
        counts = run.counts(name)
        for anomaly in counts:
            coverage.found[configuration, anomaly_named(anomaly)] += 1
        judged = run.judged[name]
        under = "+".join(sorted(map(str, lane.get("faults", ())))) or "no fault"
        for anomaly, status in judged.get("predicted", {}).items():
            if status != Status.FORBIDDEN and anomaly not in judged.get("not_judged", {}):
                claim = (configuration, under, anomaly_named(anomaly))
                coverage.judged[claim] += 1
                coverage.shown[claim] += anomaly in counts


def _proven(run: Path) -> list[FaultRecord]:
    """The faults that have a proof; none of a run whose documents can't be used."""
    try:
        events = read_events(run / EVENTS_FILE, read_lanes(run / LANES_FILE))
    except RunDirectoryError:
        return []
    return [fault for fault in events.faults or () if fault.requested and fault.proven]
