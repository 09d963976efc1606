"""Coverage of the runs in a folder: which lane configurations went through which faults, and what they showed.

Guarantee: a fault counts only with its proof, a lane only with a verdict, an anomaly only where it was judged, and an
action of the model only where it left a trace.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.campaign.lane_runs import NO_FAULT, LaneRun
from kafka_chaos.harness.campaign.shares import Share
from kafka_chaos.harness.cli.runs import directories_below
from kafka_chaos.harness.nightly.collecting import lane_runs_of
from kafka_chaos.harness.report.inputs.actions import ACTIONS, actions_of, lanes_and_events
from kafka_chaos.harness.report.inputs.evidence import Evidence, read_evidence
from kafka_chaos.harness.report.matrix import settings

PAGE = "coverage.html.j2"


@dataclass
class Configuration:
    """The lanes of a configuration that have a verdict. `faults`: how often they lived through a fault of a kind at a
    role. `actions`: how many of them have brokers or clients that did what the model calls by that name (`ACTIONS`)."""

    lanes: list[LaneRun] = field(default_factory=list)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)

    @property
    def found(self) -> Counter[str]:
        """How many lanes showed each anomaly."""
        return Counter(anomaly for run in self.lanes for anomaly in run.found)

    @property
    def kinds(self) -> Counter[str]:
        """How often they lived through faults of each kind."""
        return Counter(kind for kind, _ in self.faults.elements())


@dataclass
class Coverage:
    """The coverage of a number of runs, by configuration.

    `under`: its lanes that were predicted for the same faults, by each anomaly that is permitted or required.
    """

    runs: int = 0
    configurations: dict[str, Configuration] = field(default_factory=dict)
    under: dict[tuple[str, str, str], list[LaneRun]] = field(default_factory=dict)

    @property
    def faults(self) -> Counter[tuple[str, str]]:
        """How often lanes lived through a fault of a kind at a role."""
        return sum((one.faults for one in self.configurations.values()), Counter[tuple[str, str]]())

    @property
    def claims(self) -> dict[tuple[str, str, str], Share]:
        """By configuration, faults, and anomaly that predictions permit or require: in how many lanes it was found.

        First those that no lane has shown, the most often judged first: what the model permits is a claim then that no
        broker has confirmed.
        """
        shares = ((claim, Share.of(runs, claim[-1])) for claim, runs in self.under.items())
        judged = [(claim, share) for claim, share in shares if share.runs]
        return dict(sorted(judged, key=lambda one: (one[1].hits > 0, -one[1].runs, one[0])))

    def to_json(self) -> dict[str, Any]:
        """The counts as `--json` prints them."""
        return {
            "runs": self.runs,
            "configurations": [
                {
                    "configuration": name,
                    "lanes": len(one.lanes),
                    "faults": [
                        {"fault": kind, "target": role, "count": number}
                        for (kind, role), number in sorted(one.faults.items())
                    ],
                    "found": one.found,
                    "actions": {action: one.actions[action] for action in ACTIONS},
                }
                for name, one in sorted(self.configurations.items())
            ],
            "permitted": [
                {
                    "configuration": claim[0],
                    "faults": claim[1],
                    "anomaly": claim[2],
                    "judged": share.runs,
                    "shown": share.hits,
                    "low": round(share.interval[0], 4),
                    "high": round(share.interval[1], 4),
                }
                for claim, share in self.claims.items()
            ],
        }


def coverage_below(root: Path) -> Coverage:
    """The coverage of all runs with a verdict directly below `root`."""
    coverage = Coverage()
    for path in directories_below(root):
        with suppress(UsageFailure):
            _add(coverage, read_evidence(path))
    return coverage


def coverage_page(root: Path) -> str:
    """The page of what the runs directly below `root` have tried."""
    from kafka_chaos.harness.report.pages import environment

    return environment().get_template(PAGE).render(coverage=coverage_below(root), traces=ACTIONS, root=str(root))


def _add(coverage: Coverage, run: Evidence) -> None:
    lanes, actions = lane_runs_of(run), actions_of(run.path)
    _, events = lanes_and_events(run.path)
    coverage.runs += 1
    for name, lane in lanes.items():
        configuration = settings(run.lanes[name])
        one = coverage.configurations.setdefault(configuration, Configuration())
        one.lanes.append(lane)
        hit = [fault for fault in events.concerning(name) if fault.requested and fault.proven]
        one.faults.update((fault.kind, fault.target.partition("(")[0].partition(":")[0]) for fault in hit)
        one.actions.update(actions.get(name, {}).keys())
        faults = "+".join(sorted(map(str, run.lanes[name].get("faults", ())))) or NO_FAULT
        for anomaly in lane.predicted:
            coverage.under.setdefault((configuration, faults, anomaly), []).append(lane)
