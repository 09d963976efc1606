"""From a run with a finding to the least that shows it: its lane alone, the fewest and shortest faults, and beside it
the nearest control, a lane that differs in one setting and does not show it. Written as an experiment, and as the draft
of a report.

Guarantee: the odds in the draft are those of one experiment: of the lane and of its controls in the same runs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import KafkaChaosError, UsageFailure, counted
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.harness.clients.kinds import IN_PROCESS
from kafka_chaos.harness.experiment.file import dump_experiment, experiment_of
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.nightly.collecting import client_named
from kafka_chaos.harness.replay.novelty import lines_of
from kafka_chaos.harness.replay.realised import realised_values
from kafka_chaos.harness.replay.shrinking import OutOfBudget, Schedule, Shrinking
from kafka_chaos.harness.replay.trial import Finding, Trials
from kafka_chaos.harness.report.pages import environment

_MOST_LINES = 15


@dataclass
class Narrowing:
    """The way from the run in `run_dir` to the least that shows a finding of it; `deadline` as that of `Trials`.

    `controls`: by the name of a lane, how it differs from the finding's. `hits` counts by lane in how many of `repeats`
    runs it showed the anomaly; `quiet` is the run of the same without faults, with whether it did.
    """

    run_dir: Path
    finding: Finding
    root: Path
    deadline: float
    say: Callable[[str], None]
    confirm: int = 2
    repeats: int = 10
    schedule: Schedule = ()
    controls: Mapping[str, str] = field(default_factory=dict)
    hits: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    shown_by: Path | None = None
    quiet: tuple[Path, bool] | None = None

    def __post_init__(self) -> None:
        values = realised_values(self.run_dir)
        self.phase = next(
            one for one in values["phases"] if self.finding.lane in [lane["lane"] for lane in one["lanes"]]
        )
        if not self.phase["schedule"]:
            raise UsageFailure(f"{self.run_dir}: the phase {self.phase['phase']} has no timed faults to shrink")
        self.trials = Trials(values, self.phase["phase"], self.finding, self.root, self.deadline)
        for lane in self.phase["lanes"]:
            # On a cluster of its own, it has its own name.
            lane["topic"] = None
        self.whole = tuple(self.phase["schedule"])

    def narrow(self) -> bool:
        """Shrink what is needed, and count how often it shows the finding; whether it showed it again at all.

        Raises `OutOfBudget` if there is no time for the first runs.
        """
        shrinking = self._confirmed()
        if shrinking is None:
            return False
        # The last runs say how reliable the result is: their time is kept free.
        self.trials.deadline -= (self.repeats + 1) * max(self.trials.seconds)
        self.schedule = shrinking.shrink()
        self.trials.deadline = float("inf")
        self._compare()
        return True

    def write(self, into: Path) -> Path:
        """Write the experiment, with the nearest control, and beside it the draft; returns the draft's path."""
        farther = self.controls.keys() - {self.nearest}
        self._set_lanes([lane for lane in self.phase["lanes"] if lane["lane"] not in farther])
        experiment = experiment_of(self.trials.experiment(self.schedule), str(into))
        text = dump_experiment(experiment)
        write_whole(into, text)
        page = environment().overlay(autoescape=False).get_template("draft.md.j2")
        draft = into.with_suffix(".md")
        lane = next(one for one in experiment.phases[0].lanes if one.lane == self.finding.lane)
        write_whole(
            draft,
            page.render(
                one=self,
                lane=lane,
                client=client_named(lane.client),
                experiment=experiment,
                lines=dict(self._lines()),
                text=text,
                file=into.name,
            ),
        )
        return draft

    @property
    def nearest(self) -> str | None:
        """The first control that did not show the finding in any run."""
        return next((name for name in self.controls if not self.hits[name]), None) if self.runs else None

    def described(self, lane: str) -> str:
        """How often a lane showed it, in words."""
        return f"{self.hits[lane]} of {counted(self.runs, 'run')}"

    def _confirmed(self) -> Shrinking | None:
        """With the finding's lane alone, and clients that stay, if it shows it so; else with more."""
        every = list(self.phase["lanes"])
        alone = [lane for lane in every if lane["lane"] == self.finding.lane and not lane.get("loop")]
        staying = [{**lane, "lives": []} for lane in alone if lane.get("lives")]
        for lanes in [one for one in (staying, alone if len(alone) < len(every) else [], every) if one]:
            self._set_lanes(lanes)
            shrinking = Shrinking(self.trials, self.say)
            try:
                if shrinking.confirm(self.whole, wanted=self.confirm):
                    return shrinking
            except OutOfBudget:
                took = max(self.trials.seconds, default=0.0)
                raise OutOfBudget(f"too short for the first runs; one took {took:.0f} s") from None
            self.say(f"{self.finding} was shown by only {shrinking.shown} of {counted(shrinking.tried, 'run')}")
        return None

    def _compare(self) -> None:
        """Run the result beside controls, and once without faults."""
        lanes = list(self.phase["lanes"])
        lane = next(one for one in lanes if one["lane"] == self.finding.lane)
        differing = {}
        for number, (what, keys) in enumerate(_changes(LaneSpec.model_validate(lane)), 1):
            control = {**lane, **keys, "lane": f"control-{number}", "topic": None}
            self._set_lanes([*lanes, control])
            try:
                experiment_of(self.trials.experiment(self.schedule), "the control")
            except KafkaChaosError:
                continue
            lanes.append(control)
            differing[control["lane"]] = what
        self._set_lanes(lanes)
        self.controls = differing
        for _ in range(self.repeats):
            path, found = self.trials.run(self.trials.experiment(self.schedule))
            self.runs += 1
            self.hits.update(found)
            if self.finding.lane in found:
                self.shown_by = path
        path, found = self.trials.run(self.trials.experiment(self.schedule, quiet=True))
        self.quiet = path, self.finding.lane in found

    def _set_lanes(self, lanes: Sequence[Mapping[str, Any]]) -> None:
        self.phase["lanes"] = list(lanes)

    def _lines(self) -> Iterator[tuple[str, list[str]]]:
        """By log, the lines that the run without faults has none like, nor a log before; not those of controls."""
        told = {line for lines in lines_of(self.quiet[0]).values() for line in lines} if self.quiet else set()
        for name, lines in lines_of(self.shown_by or self.run_dir).items():
            new = [line for form, line in lines.items() if form not in told]
            if new and not name.startswith(tuple(f"client-{control}-" for control in self.controls)):
                told |= lines.keys()
                yield name, new[:_MOST_LINES]


def _changes(lane: LaneSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lanes that differ in one setting: what differs, and the keys for it. Some may be refused."""
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
