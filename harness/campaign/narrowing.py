"""The policy of `shrink`: from a run with a finding to the smallest experiment that shows the finding.

That experiment has the fewest lanes and the fewest and shortest faults with which the finding's lane shows the finding,
and the nearest control, a lane that differs in one setting and does not show it. A draft of a report is written, too.

Guarantee: the draft tells in how many runs the lane and its controls showed the finding, counted in the same runs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import KafkaChaosError, UsageFailure, counted
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.harness.campaign.hunting import lines_of
from kafka_chaos.harness.campaign.loop import Attempt, Budget, Outcome, OutOfBudget, Policy, RunExperiment, follow
from kafka_chaos.harness.campaign.realised import realised_values
from kafka_chaos.harness.campaign.record import Finding, client_and_version, findings_in
from kafka_chaos.harness.campaign.shrinking import Schedule, Shrinking
from kafka_chaos.harness.clients.kinds import IN_PROCESS
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.file import dump_experiment, experiment_of
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.report.pages import environment

LEAD = 2.0
"""Seconds of load before the first fault of a candidate; fewer if the fault came earlier in the run to shrink."""
TAIL = 3.0
"""The fewest seconds of load after the last fault."""
_MOST_LINES_PER_LOG = 15
_ATTEMPTS = "shrunk"
"""The name of all attempts: the budget expects each to last as long as the longest of that name."""


@dataclass
class Narrowing:
    """Shrinks the run in `run_dir` to the result: the smallest experiment that shows the run's finding.

    The directories of all further runs are in `root`. `confirm`: how often the whole schedule has to show the finding
    first. `repeats`: how often the result is run. `schedule`: the faults of the result, once it is found.
    """

    run_dir: Path
    finding: Finding
    root: Path
    budget: Budget
    say: Callable[[str], None]
    run_experiment: RunExperiment
    confirm: int = 2
    repeats: int = 10
    listeners: Sequence[Listener] = ()
    schedule: Schedule = ()
    controls: Mapping[str, str] = field(default_factory=dict)
    """How each control lane, by its name, differs from the finding's lane."""
    hits: Counter[str] = field(default_factory=Counter)
    """In how many of the result's runs (`run_count`) each lane showed the anomaly."""
    run_count: int = 0
    """How often the result was run."""
    tried: list[tuple[Path, bool]] = field(default_factory=list)
    """All runs' directories, with whether they showed the finding."""
    last_showing_run: Path | None = None
    """The last run of the result that showed the finding."""
    faultless_run: tuple[Path, bool] | None = None
    """The run of the result without faults, with whether it showed the finding."""

    def __post_init__(self) -> None:
        self.values = realised_values(self.run_dir)
        self.phase = next(
            phase for phase in self.values["phases"] if self.finding.lane in [lane["lane"] for lane in phase["lanes"]]
        )
        if not self.phase["schedule"]:
            raise UsageFailure(f"{self.run_dir}: the phase {self.phase['phase']} has no timed faults to shrink")
        for lane in self.phase["lanes"]:
            # The result runs on a cluster of its own, where the topic can have the lane's name again.
            lane["topic"] = None
        self.whole_schedule = tuple(self.phase["schedule"])

    def narrow(self) -> bool:
        """Shrink the schedule, and count how often the result shows the finding.

        Returns False if the whole schedule did not show the finding again. Raises `UsageFailure` if time is too short.
        """

        def perform(attempt: Attempt) -> Outcome:
            return self.run_experiment(attempt.experiment, root=self.root, listeners=self.listeners)

        return bool(follow(self.policy(), self.budget, perform))

    def policy(self) -> Policy[bool]:
        """Confirm the finding, shrink the schedule and compare with controls; returns whether it was confirmed."""
        shrinking = yield from self._confirm()
        if shrinking is None:
            return False
        self.schedule = yield from shrinking.shrink()
        yield from self._compare()
        return True

    def write(self, file: Path) -> Path:
        """Write the experiment, with the nearest control, and the draft beside it; returns the draft's path."""
        other_controls = self.controls.keys() - {self.nearest}
        self.phase["lanes"] = [lane for lane in self.phase["lanes"] if lane["lane"] not in other_controls]
        experiment = experiment_of(self.experiment(self.schedule), str(file))
        text = dump_experiment(experiment)
        write_whole(file, text)
        lane = next(lane for lane in experiment.phases[0].lanes if lane.lane == self.finding.lane)
        draft = file.with_suffix(".md")
        page = environment().overlay(autoescape=False).get_template("draft.md.j2")
        details = {"lane": lane, "client": client_and_version(lane.client), "lines": dict(self._lines())}
        write_whole(draft, page.render(narrowing=self, experiment=experiment, text=text, file=file.name, **details))
        return draft

    @property
    def nearest(self) -> str | None:
        """The first control that did not show the finding in any run."""
        return next((name for name in self.controls if not self.hits[name]), None) if self.run_count else None

    def described(self, lane: str) -> str:
        """How often a lane showed the finding, in words."""
        return f"{self.hits[lane]} of {counted(self.run_count, 'run')}"

    def experiment(self, schedule: Schedule, *, faultless: bool = False) -> dict[str, Any]:
        """The experiment with only this phase and schedule, and at most LEAD seconds of load before the first fault.

        After the last fault, the load lasts as long as in the run to shrink. If clients come and go, or a topic is
        created late, the whole load keeps its length, since these times may matter to the finding. `faultless`: the
        same load without the faults.
        """
        phase = self.phase
        ends = [float(entry["at"]) + float(entry["duration"]) for entry in phase["schedule"]]
        tail = max(TAIL, float(phase["workload"]["duration"]) - max(ends))
        keeps_time = any(lane.get("lives") or lane.get("created_at") for lane in phase["lanes"])
        skipped = 0.0 if keeps_time else max(0.0, min(float(entry["at"]) for entry in schedule) - LEAD)
        moved = [{**entry, "at": round(float(entry["at"]) - skipped, 3)} for entry in schedule]
        duration = max(entry["at"] + float(entry["duration"]) for entry in moved) + tail
        workload = phase["workload"] if keeps_time else {**phase["workload"], "duration": round(duration, 1)}
        # A topic that is created late is created before the first fault ends, so that every fault can hit it.
        latest = min(entry["at"] + float(entry["duration"]) for entry in moved) - 0.1
        lanes = [
            {**lane, "created_at": min(latest, lane["created_at"])} if lane.get("created_at") else lane
            for lane in phase["lanes"]
        ]
        changed = {"schedule": [] if faultless else moved, "workload": workload, "lanes": lanes}
        return {**self.values, "phases": [{**phase, **changed}]}

    def _run(self, values: Mapping[str, Any], *, ignores_budget: bool = False, spare: int = 0) -> Policy[set[str]]:
        """Run an experiment; return the lanes that showed the anomaly. `ignores_budget`, `spare`: as in `Attempt`."""
        experiment = experiment_of(values, "the shrunk schedule")
        outcome = yield Attempt(experiment, _ATTEMPTS, ignores_budget=ignores_budget, spare=spare)
        if isinstance(outcome, Exception):
            raise outcome
        run_findings = findings_in(outcome.verdict.to_json())
        shown = {finding.lane for finding in run_findings if finding.anomaly == self.finding.anomaly}
        self.tried.append((outcome.path, self.finding.lane in shown))
        return shown

    def _confirm(self) -> Policy[Shrinking | None]:
        """Find the fewest lanes with which the whole schedule shows the finding, and leave only these in the phase.

        Returns the `Shrinking` that counted these runs; None if too few runs showed the finding, whatever the lanes.
        First the finding's lane is tried with clients that stay, then with its own clients, then beside all lanes of
        its phase. A lane with a loop is never tried alone, since it reads another lane.
        """
        all_lanes = list(self.phase["lanes"])
        alone = [lane for lane in all_lanes if lane["lane"] == self.finding.lane and not lane.get("loop")]
        with_staying_clients = [{**lane, "lives": []} for lane in alone if lane.get("lives")]
        for lanes in filter(None, (with_staying_clients, alone if len(alone) < len(all_lanes) else [], all_lanes)):
            self.phase["lanes"] = list(lanes)
            is_confirmed = False

            def trial(schedule: Schedule) -> Policy[bool]:
                # Time is kept free for the comparison: it runs the result `repeats` times, and once without faults.
                spare = self.repeats + 1 if is_confirmed else 0  # noqa: B023 - read anew at each trial
                shown = yield from self._run(self.experiment(schedule), spare=spare)
                return self.finding.lane in shown

            shrinking = Shrinking(trial, self.say)
            try:
                is_confirmed = yield from shrinking.confirm(self.whole_schedule, wanted=self.confirm)
            except OutOfBudget:
                took = self.budget.longest_seconds.get(_ATTEMPTS, 0.0)
                minutes = f"{self.budget.minutes:g} minutes"
                raise UsageFailure(f"{minutes} are too short for the first runs; one took {took:.0f} s") from None
            if is_confirmed:
                return shrinking
            self.say(f"{self.finding} was shown by only {shrinking.shown} of {counted(shrinking.tried, 'run')}")
        return None

    def _compare(self) -> Policy[None]:
        """Run the result beside controls, and once without faults. A control that would be refused is left out."""
        lanes = list(self.phase["lanes"])
        lane = next(lane for lane in lanes if lane["lane"] == self.finding.lane)
        controls = {}
        for number, (change, keys) in enumerate(_changes(LaneSpec.model_validate(lane)), 1):
            control = {**lane, **keys, "lane": f"control-{number}", "topic": None}
            # `self.experiment` reads the lanes of the phase.
            self.phase["lanes"] = [*lanes, control]
            try:
                experiment_of(self.experiment(self.schedule), "the control")
            except KafkaChaosError:
                continue
            lanes.append(control)
            controls[control["lane"]] = change
        self.phase["lanes"] = lanes
        self.controls = controls
        for _ in range(self.repeats):
            shown = yield from self._run(self.experiment(self.schedule), ignores_budget=True)
            self.run_count += 1
            self.hits.update(shown)
            if self.finding.lane in shown:
                self.last_showing_run = self.tried[-1][0]
        yield from self._run(self.experiment(self.schedule, faultless=True), ignores_budget=True)
        self.faultless_run = self.tried[-1]

    def _lines(self) -> Iterator[tuple[str, list[str]]]:
        """For each log, the lines that the run without faults did not log, each once; no logs of controls' clients."""
        usual = set[str]().union(*(lines_of(self.faultless_run[0]).values() if self.faultless_run else ()))
        for name, lines in lines_of(self.last_showing_run or self.run_dir).items():
            new = [line for normalised, line in lines.items() if normalised not in usual]
            if new and not name.startswith(tuple(f"client-{control}-" for control in self.controls)):
                usual |= lines.keys()
                yield name, new[:_MOST_LINES_PER_LOG]


def _changes(lane: LaneSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    """The changes of one setting that make a control of a lane, each in words and as keys. Some may be refused."""
    if lane.max_in_flight > 1:
        yield "one request in flight", {"max_in_flight": 1}
    if lane.producer_configs:
        yield "the client's own configs", {"producer_configs": {}}
    if lane.idempotence and lane.transactional is None:
        yield "no idempotence", {"idempotence": False}
    if lane.lives:
        yield "only clients that stay", {"lives": []}
    if lane.created_at is not None:
        yield "the topic created before the load", {"created_at": None}
    if lane.client != IN_PROCESS:
        yield f"the client {IN_PROCESS} in process", {"client": IN_PROCESS}
