"""One run of a schedule, with the question whether it shows a finding."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.families import ALL_ANOMALIES, AnyAnomaly, anomaly_named
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.replay.shrinking import OutOfBudget, Schedule
from kafka_chaos.harness.report.listeners.waiting import duration
from kafka_chaos.harness.run.runner import run_experiment

LEAD = 2.0
"""Seconds of load before the first fault of a candidate, unless it came earlier."""
TAIL = 3.0
"""Seconds of load after the last fault, at least."""


@dataclass(frozen=True)
class Finding:
    """An anomaly of a lane."""

    lane: str
    anomaly: AnyAnomaly

    def __str__(self) -> str:
        return f"{self.lane}:{self.anomaly}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """A finding as `LANE:ANOMALY`; raises `UsageFailure`."""
        lane, _, name = text.rpartition(":")
        if not lane or name not in ALL_ANOMALIES:
            raise UsageFailure(f"--finding: {text!r} is not a finding: expected LANE:ANOMALY, such as acks1:lost_write")
        return cls(lane, anomaly_named(name))


def findings(verdict: Mapping[str, Any]) -> dict[Finding, bool]:
    """All findings in the content of a verdict.json, with whether the prediction forbids them, in their run at least;
    those first."""
    found = {
        Finding(lane["lane"], anomaly_named(name)): Status.FORBIDDEN in (entry.get("status"), entry.get("in_this_run"))
        for lane in verdict["lanes"]
        for name, entry in lane["anomalies"].items()
        if entry["count"]
    }
    return dict(sorted(found.items(), key=lambda one: not one[1]))


@dataclass
class Trials:
    """Runs schedules in a phase of an experiment (`values`, the keys of its file), each on a cluster of its own.

    `deadline`: a reading of `time.monotonic()`; no run starts that would end later, as far as former runs tell.
    """

    values: Mapping[str, Any]
    phase: str
    finding: Finding
    root: Path
    deadline: float
    listeners: Sequence[Listener] = ()
    seconds: list[float] = field(default_factory=list)
    paths: list[tuple[Path, bool]] = field(default_factory=list)
    """The runs' directories, with whether they showed the finding."""

    def __call__(self, schedule: Schedule) -> bool:
        """Run the schedule; whether it showed the finding. Raises `OutOfBudget` if no time is left."""
        return self.finding.lane in self.run(self.experiment(schedule))[1]

    def run(self, values: Mapping[str, Any]) -> tuple[Path, set[str]]:
        """Run an experiment; its directory, and the lanes that showed the anomaly. Raises `OutOfBudget`."""
        started = time.monotonic()
        if started + max(self.seconds, default=0.0) > self.deadline:
            raise OutOfBudget
        experiment = experiment_of(values, "the shrunk schedule")
        result = run_experiment(experiment, root=self.root, listeners=self.listeners)
        self.seconds.append(time.monotonic() - started)
        shown = {one.lane for one in findings(result.verdict.to_json()) if one.anomaly == self.finding.anomaly}
        self.paths.append((result.path, self.finding.lane in shown))
        return result.path, shown

    def described(self) -> str:
        """How far it is, in a line."""
        left = self.deadline - time.monotonic()
        until = f", {duration(max(0.0, left))} left" if left < float("inf") else ""
        return f"run {len(self.seconds) + 1}{until}"

    def experiment(self, schedule: Schedule, *, quiet: bool = False) -> dict[str, Any]:
        """The experiment with this schedule alone: no other phase, no idle time before and after the faults.

        With clients that come and go, or a topic that is created late, the load keeps its time: theirs belongs to the
        finding. `quiet`: with the same load, and without the faults.
        """
        phase = next(one for one in self.values["phases"] if one["phase"] == self.phase)
        ends = [float(entry["at"]) + float(entry["duration"]) for entry in phase["schedule"]]
        tail = max(TAIL, float(phase["workload"]["duration"]) - max(ends))
        lanes = phase["lanes"]
        keeps_time = any(lane.get("lives") or lane.get("created_at") for lane in lanes)
        skipped = 0.0 if keeps_time else max(0.0, min(float(entry["at"]) for entry in schedule) - LEAD)
        moved = [{**entry, "at": round(float(entry["at"]) - skipped, 3)} for entry in schedule]
        load = max(entry["at"] + float(entry["duration"]) for entry in moved) + tail
        workload = phase["workload"] if keeps_time else {**phase["workload"], "duration": round(load, 1)}
        # No topic is created when a fault is over already.
        last = min(entry["at"] + float(entry["duration"]) for entry in moved) - 0.1
        lanes = [{**one, "created_at": min(last, one["created_at"])} if one.get("created_at") else one for one in lanes]
        changed = {"schedule": [] if quiet else moved, "workload": workload, "lanes": lanes}
        return {**self.values, "phases": [{**phase, **changed}]}
