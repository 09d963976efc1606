"""Random schedules, one after the other on one cluster, drawn most often from what has been tried least and from what
led to something new: an action of the model that its lane configuration had not shown yet.

Guarantee: every forbidden finding keeps its run directory, and its
schedule is shrunk.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.fault import Fault
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.file import experiment_of, experiment_values
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.replay.actions import actions_of
from kafka_chaos.harness.replay.realised import realised_values
from kafka_chaos.harness.replay.shrinking import OutOfBudget, Shrinking
from kafka_chaos.harness.replay.trial import Finding, Trials, forbidden
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns, topic_name

CONFIRMATIONS = 2


@dataclass
class Hunt:
    """Draws and runs schedules, and notes what they found; as a context manager it removes its cluster at the end.

    `values`: the keys of an experiment file with one phase, whose `schedule` has the key `generate`.
    """

    values: Mapping[str, Any]
    source: str
    tried: Counter[str] = field(default_factory=Counter)
    """How often each fault kind and each target was injected."""
    shown: set[tuple[str, str]] = field(default_factory=set)
    """The actions of the model that lanes have shown: the lane, and the action (`actions.ACTIONS`)."""
    led_to: Counter[str] = field(default_factory=Counter)
    """How many runs with a fault of each kind, or at each target, showed one of these first."""
    found: dict[Finding, Path] = field(default_factory=dict)
    """Forbidden findings, each with the first run that showed it."""
    cluster: ClusterOfRuns = field(default_factory=lambda: ClusterOfRuns("hunt"))

    @classmethod
    def of(cls, path: Path) -> Hunt:
        """A hunt with the experiment in a file; raises `UsageFailure` unless its schedule is generated."""
        values = experiment_values(path)
        schedule = values.get("schedule")
        if "phases" in values or not isinstance(schedule, Mapping) or "generate" not in schedule:
            raise UsageFailure(f"{path}: expected an experiment with one phase and `schedule: {{generate: …}}`")
        return cls(values, str(path))

    def __enter__(self) -> Hunt:
        return self

    def __exit__(self, *what: object) -> None:
        self.cluster.__exit__(*what)

    def draw(self, _: Path, seed: int) -> Experiment:
        """The next experiment: its seed, topics of its own, and weights.

        What was tried least has most weight; so has what led to actions that lanes had not shown before.
        """
        generate = dict(self.values["schedule"]["generate"])
        given = generate.get("weights", {})
        names = [*generate["faults"], *generate["targets"]]
        generate["weights"] = {
            name: given.get(name, 1.0) * (1 + self.led_to[name]) / (1 + self.tried[name]) for name in names
        }
        lanes = [{**lane, "topic": topic_name(str(lane["lane"]))} for lane in self.values["lanes"]]
        values = {**self.values, "seed": seed, "lanes": lanes, "schedule": {"generate": generate}}
        return experiment_of(values, self.source)

    def run(self, experiment: Experiment, root: Path, listeners: Sequence[Listener]) -> RunResult:
        """Run an experiment on the shared cluster, and note what it tried and found."""
        result = self.cluster.run(experiment, root, listeners)
        actions = {(lane, action) for lane, counts in actions_of(result.path).items() for action in counts}
        is_new = not actions <= self.shown
        self.shown |= actions
        for name in (name for fault in experiment.phases[0].faults() for name in _names(fault)):
            self.tried[name] += 1
            self.led_to[name] += is_new
        for finding in forbidden(result.verdict.to_json()):
            self.found.setdefault(finding, result.path)
        return result

    def shrink(self, finding: Finding, folder: Path, *, minutes: float, say: Callable[[str], None]) -> Path | None:
        """Shrink the schedule that showed a finding to an experiment in `folder`; None if it did not show again."""
        values = realised_values(self.found[finding])
        for lane in values["phases"][0]["lanes"]:
            lane["topic"] = None
        deadline = time.monotonic() + minutes * 60
        trials = Trials(values, values["phases"][0]["phase"], finding, folder / "runs", deadline)
        shrinking = Shrinking(trials, say)
        schedule = tuple(values["phases"][0]["schedule"])
        say(f"shrinking {finding} of {self.found[finding]}")
        try:
            if not shrinking.confirm(schedule, wanted=CONFIRMATIONS):
                return None
        except OutOfBudget:
            say("no time is left to confirm it")
            return None
        into = folder / f"{finding.lane}-{finding.anomaly}.yaml"
        trials.write(shrinking.shrink(), into)
        return into


def _names(fault: Fault) -> tuple[str, str]:
    return fault.kind, fault.target.text
