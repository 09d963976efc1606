"""A campaign with a folder of its own: it counts what every lane showed in all runs.

Guarantee: if the environment fails a run, that is reported, never counted as clean. The counts so far are written after
every run, so that an interrupted campaign leaves its summary.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.campaign.collecting import lane_runs_of
from kafka_chaos.harness.campaign.lane_runs import append
from kafka_chaos.harness.campaign.loop import Attempt, Budget, Outcome, Policy, RunExperiment, follow, run_alone
from kafka_chaos.harness.campaign.summary import LaneCount, LaneViolation, RunEntry, Summary, write_summary
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.report.inputs.actions import ACTIONS, actions_of
from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.run.directory import versions
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.verification import LaneVerdict, RunDirectoryError, SparkUnavailableError


@dataclass
class Night:
    """Runs within a `budget`, in a folder below `out`; `seed` decides all of them.

    `say` gets a line before each run, and one with its outcome. Each run is added to the `record`, if there is one.
    """

    out: Path
    budget: Budget
    seed: int
    say: Callable[[str], None] = print
    listeners: Sequence[Listener] = ()
    run_experiment: RunExperiment = run_alone
    record: Path | None = None
    runs: list[RunEntry] = field(default_factory=list)
    lanes: dict[tuple[str, str], tuple[Lane, list[LaneVerdict]]] = field(default_factory=dict)
    """The verdicts of the lanes of each experiment, by its name and theirs."""

    def __post_init__(self) -> None:
        self.name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        self.folder = self.out / self.name
        self.seeds = random.Random(self.seed)
        self._kafka_version = ""
        self._actions = Counter(dict.fromkeys(ACTIONS, 0))

    def follow(self, policy: Policy[Any]) -> Summary:
        """Perform what the policy wants; also writes the summary into `folder`."""
        self.folder.mkdir(parents=True)
        follow(policy, self.budget, self._perform)
        return self.summary()

    def summary(self) -> Summary:
        """The summary of all runs so far."""
        return Summary(
            night=self.name,
            verdict=Verdict.gravest(run.verdict or Verdict.UNKNOWN for run in self.runs),
            seed=self.seed,
            seconds=round(self.budget.passed, 1),
            versions=versions(self._kafka_version),
            runs=tuple(self.runs),
            lanes=tuple(LaneCount.of(experiment, *judged) for (experiment, _), judged in self.lanes.items()),
            actions=dict(self._actions),
        )

    def _perform(self, attempt: Attempt) -> Outcome:
        experiment = attempt.experiment
        self._kafka_version = self._kafka_version or experiment.cluster.kafka_version
        number = 1 + sum(run.experiment == attempt.name for run in self.runs)
        self.say(f"round {number}: {experiment.name}, seed {experiment.seed}")
        started = self.budget.clock()
        entry = RunEntry(experiment=attempt.name, seed=experiment.seed, seconds=0.0)
        outcome: Outcome
        try:
            outcome = self.run_experiment(experiment, self.folder / "runs", self.listeners)
            entry = self._judged(entry, outcome)
        except (KafkaChaosError, SparkUnavailableError, RunDirectoryError) as error:
            outcome, entry = error, replace(entry, error=str(error))
        seconds = self.budget.clock() - started
        self.runs.append(replace(entry, seconds=round(seconds, 1)))
        for _, _, lane in experiment.lanes():
            _, verdicts = self.lanes.setdefault((attempt.name, lane.lane), (lane, []))
            if not isinstance(outcome, Exception):
                verdicts.append(outcome.verdict.lane(lane.lane))
        self.say(f"  {entry.verdict or f'the run failed: {entry.error}'} after {seconds:.0f} s")
        write_summary(self.folder, self.summary())
        return outcome

    def _judged(self, entry: RunEntry, result: RunResult) -> RunEntry:
        if self.record is not None:
            append(self.record, lane_runs_of(read_evidence(result.path)).values())
        self._actions.update({action for of_lane in actions_of(result.path).values() for action in of_lane})
        broken = [lane for lane in result.verdict.lanes if lane.verdict is Verdict.VIOLATION]
        return replace(
            entry,
            run_dir=str(result.path.relative_to(self.folder)),
            verdict=result.verdict.verdict,
            violations=tuple(LaneViolation(lane=lane.lane, reasons=lane.reasons) for lane in broken),
        )
