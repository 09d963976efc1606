"""Repeats experiments within a time budget, and counts what every lane showed in all repeats; on clusters that take
turns, if asked to: each supported version in each of its modes, another one every night.

Guarantee: each experiment runs at least once. If the environment fails a run, that is reported, never counted as clean.
The counts so far are written after every run, so that an interrupted nightly run leaves its summary.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure, KafkaChaosError, UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.campaign.lane_runs import append
from kafka_chaos.harness.cluster.containers.versions import VERSIONS, cluster_named
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.file import experiment_values, load_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.nightly.collecting import lane_runs_of
from kafka_chaos.harness.nightly.summary import LaneCount, LaneViolation, RunEntry, Summary, write_summary
from kafka_chaos.harness.nightly.trend import write_trend
from kafka_chaos.harness.report.inputs.actions import ACTIONS, actions_of
from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.report.listeners.waiting import duration
from kafka_chaos.harness.run.directory import versions
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.runner import require_available, run_experiment
from kafka_chaos.verification import LaneVerdict, RunDirectoryError, SparkUnavailableError

RunOne = Callable[[Experiment, Path, Sequence[Listener]], RunResult]


def experiments_in(paths: Sequence[Path]) -> list[Path]:
    """The experiment files that `paths` name or contain; raises `UsageFailure` for a path without any."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not inside:
            raise UsageFailure(f"{path}: no experiment in it, expected files *.yaml")
        found += inside
    for path in found:
        load_experiment(path)
    return found


def why_impossible(path: Path) -> str | None:
    """Why this machine can't do the faults of an experiment; None if it can."""
    try:
        require_available(load_experiment(path))
    except EnvironmentFailure as failure:
        return str(failure)
    return None


@dataclass
class Nightly:
    """One nightly run: `minutes` of repeats of `experiments` in turn, below `out`, all decided by `seed`.

    `repeats` limits the number of rounds. `say` gets a line before each run, and one with its outcome. `load`
    gives the experiment in a file for a seed.
    """

    experiments: Sequence[Path]
    out: Path
    minutes: float
    seed: int
    repeats: int | None = None
    say: Callable[[str], None] = print
    listeners: Sequence[Listener] = ()
    run_one: RunOne = lambda experiment, root, listeners: run_experiment(experiment, root=root, listeners=listeners)
    load: Callable[[Path, int], Experiment] = lambda path, seed: load_experiment(path, overrides={"seed": seed})
    clock: Callable[[], float] = time.monotonic
    record: Path | None = None
    """The record of runs that each run is added to."""
    runs: list[RunEntry] = field(default_factory=list)
    lanes: dict[tuple[str, str], tuple[Lane, list[LaneVerdict]]] = field(default_factory=dict)
    """The verdicts of the lanes of each experiment, by its name and theirs."""

    def __post_init__(self) -> None:
        self.name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        self.folder = self.out / self.name
        self._started = self.clock()
        self._seeds = random.Random(self.seed)
        self._kafka_version = ""
        self._actions = Counter(dict.fromkeys(ACTIONS, 0))

    def run(self) -> Summary:
        """Run until the time is over; also writes the summary into `folder`, and the trend page into `out`."""
        self.folder.mkdir(parents=True)
        number = 0
        while self.repeats is None or number < self.repeats:
            number += 1
            for path in self.experiments:
                seed = self._seeds.randrange(2**31)
                if number > 1 and not self._fits(path):
                    return self.summary()
                self._repeat(path, number, seed)
                self._write()
        return self.summary()

    def summary(self) -> Summary:
        """The summary of all repeats so far."""
        return Summary(
            night=self.name,
            verdict=Verdict.gravest(run.verdict or Verdict.UNKNOWN for run in self.runs),
            seed=self.seed,
            seconds=round(self.clock() - self._started, 1),
            versions=versions(self._kafka_version),
            runs=tuple(self.runs),
            lanes=tuple(LaneCount.of(experiment, *seen) for (experiment, _), seen in self.lanes.items()),
            actions=dict(self._actions),
        )

    def described(self) -> str:
        """How far it is, in a line."""
        passed = duration(self.clock() - self._started)
        most = f" of {self.repeats * len(self.experiments)}" if self.repeats else ""
        return f"run {len(self.runs) + 1}{most}, {passed} of {duration(self.minutes * 60)}"

    def _fits(self, path: Path) -> bool:
        """Whether another run of the experiment, as long as its longest one, ends within the budget."""
        longest = max((result.seconds for result in self.runs if result.experiment == path.stem), default=0.0)
        return self.clock() - self._started + longest <= self.minutes * 60

    def _repeat(self, path: Path, number: int, seed: int) -> None:
        experiment = self.load(path, seed)
        self._kafka_version = self._kafka_version or experiment.cluster.kafka_version
        self.say(f"round {number}: {experiment.name}, seed {seed}")
        start, verdict = self.clock(), None
        entry = RunEntry(experiment=path.stem, seed=seed, seconds=0.0)
        try:
            result = self.run_one(experiment, self.folder / "runs", self.listeners)
            self._remember(result.path)
            self._actions.update({action for of_lane in actions_of(result.path).values() for action in of_lane})
            verdict = result.verdict
            broken = [lane for lane in verdict.lanes if lane.verdict is Verdict.VIOLATION]
            entry = replace(
                entry,
                run_dir=str(result.path.relative_to(self.folder)),
                verdict=verdict.verdict,
                violations=tuple(LaneViolation(lane=lane.lane, reasons=lane.reasons) for lane in broken),
            )
        except (KafkaChaosError, SparkUnavailableError, RunDirectoryError) as error:
            entry = replace(entry, error=str(error))
        seconds = self.clock() - start
        self.runs.append(replace(entry, seconds=round(seconds, 1)))
        for _, _, lane in experiment.lanes():
            _, seen = self.lanes.setdefault((path.stem, lane.lane), (lane, []))
            if verdict is not None:
                seen.append(verdict.lane(lane.lane))
        self.say(f"  {entry.verdict or f'the run failed: {entry.error}'} after {seconds:.0f} s")

    def _remember(self, run_dir: Path) -> None:
        if self.record is not None:
            append(self.record, lane_runs_of(read_evidence(run_dir)).values())

    def _write(self) -> None:
        write_summary(self.folder, self.summary())
        write_trend(self.out)


def cluster_on(text: str, day: date) -> dict[str, str]:
    """The keys of the cluster `VERSION/MODE`, or of the day's for `turn`; raises `UsageFailure` for anything else.

    Versions without idempotent producers (before 0.11) have no turn: the experiments have some.
    """
    turns = [f"{one.number}/{mode}" for one in VERSIONS.values() if one.has_idempotence for mode in one.modes]
    return cluster_named(turns[day.toordinal() % len(turns)] if text == "turn" else text)


def load_on(cluster: Mapping[str, str] | None, path: Path, seed: int) -> Experiment:
    """The experiment in a file, on this cluster unless the file has the key `cluster`."""
    on = {} if cluster is None or "cluster" in experiment_values(path) else {"cluster": cluster}
    return load_experiment(path, overrides={"seed": seed, **on})
