"""A campaign with a folder of its own, which counts in how many runs each lane showed each anomaly.

Guarantee: a run counts for an anomaly only if that anomaly was judged. A run that failed is reported, and never counted
as clean. The counts so far are written after every run, so an interrupted campaign leaves them.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.campaign.cells import ShareOfRuns
from kafka_chaos.harness.campaign.loop import Attempt, Budget, Outcome, Policy, RunExperiment, failure_in, follow
from kafka_chaos.harness.campaign.record import append, lane_runs_of
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.report.inputs.actions import ACTIONS, actions_of
from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.run.directory import versions
from kafka_chaos.verification import LaneVerdict

_SETTINGS = ("acks", "idempotence", "min_insync_replicas", "unclean_leader_election", "faults")  # in the summary


@dataclass(frozen=True)
class FinishedAttempt:
    """An attempt of a campaign, what became of it, and how many seconds that took."""

    attempt: Attempt
    outcome: Outcome
    seconds: float

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of the run; None if the run failed."""
        return None if isinstance(self.outcome, Exception) else self.outcome.verdict.verdict

    def to_json(self, folder: Path) -> dict[str, Any]:
        """The attempt's entry in summary.json, which is in `folder`."""
        entry = {
            "experiment": self.attempt.name,
            "seed": self.attempt.experiment.seed,
            "seconds": round(self.seconds, 1),
            "verdict": self.verdict,
        }
        if isinstance(self.outcome, Exception):
            return {**entry, "run_dir": None, "error": str(self.outcome), "violations": []}
        violated = [lane for lane in self.outcome.verdict.lanes if lane.verdict is Verdict.VIOLATION]
        violations = [{"lane": lane.lane, "reasons": list(lane.reasons)} for lane in violated]
        run_dir = str(self.outcome.path.relative_to(folder))
        return {**entry, "run_dir": run_dir, "error": None, "violations": violations}


@dataclass
class CountedCampaign:
    """One call of `nightly`, `hunt` or `atlas`: its runs within a `budget`, in a folder below `out`.

    `seed` decides the seeds of all runs. `say` gets a line before each run, and a line with the outcome after it. Runs
    are added to `record`, a file with the runs of all campaigns.
    """

    out: Path
    budget: Budget
    seed: int
    say: Callable[[str], None]
    run_experiment: RunExperiment
    listeners: Sequence[Listener] = ()
    record: Path | None = None
    runs: list[FinishedAttempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
        self.folder = self.out / self.name
        self.seeds = random.Random(self.seed)
        self._actions = Counter(dict.fromkeys(ACTIONS, 0))

    def follow(self, policy: Policy[Any]) -> None:
        """Perform what the policy wants, and write summary.json and summary.md into `folder` after each run."""
        self.folder.mkdir(parents=True)
        follow(policy, self.budget, self._perform)

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of all runs; a run that failed counts as unknown."""
        return Verdict.gravest(run.verdict or Verdict.UNKNOWN for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """The content of summary.json: the runs in order, and what every lane showed in them.

        `actions`: in how many runs each action of the model left its trace (`ACTIONS`).
        """
        return {
            "format_version": 1,
            "night": self.name,
            "verdict": self.verdict,
            "seed": self.seed,
            "seconds": round(self.budget.elapsed, 1),
            "versions": versions(self.runs[0].attempt.experiment.cluster.kafka_version if self.runs else ""),
            "runs": [run.to_json(self.folder) for run in self.runs],
            "lanes": list(self._lanes()),
            "actions": dict(self._actions),
        }

    def to_markdown(self) -> str:
        """The summary for people: violations and failures, then the findings with the intervals of their shares."""
        from kafka_chaos.harness.report.pages import environment

        return environment().overlay(autoescape=False).get_template("summary.md.j2").render(summary=self.to_json())

    def _perform(self, attempt: Attempt) -> Outcome:
        experiment = attempt.experiment
        number = 1 + sum(run.attempt.name == attempt.name for run in self.runs)
        self.say(f"round {number}: {experiment.name}, seed {experiment.seed}")
        started = self.budget.clock()
        outcome: Outcome
        try:
            outcome = self.run_experiment(experiment, root=self.folder / "runs", listeners=self.listeners)
        except Exception as error:  # noqa: BLE001 - `failure_in` raises what is no failure of the run
            outcome = failure_in(error)
        finished = FinishedAttempt(attempt, outcome, self.budget.clock() - started)
        self.runs.append(finished)
        if not isinstance(outcome, Exception):
            if self.record is not None:
                append(self.record, lane_runs_of(read_evidence(outcome.path)).values())
            self._actions.update({action for counts in actions_of(outcome.path).values() for action in counts})
        self.say(f"  {finished.verdict or f'the run failed: {outcome}'} after {finished.seconds:.0f} s")
        write_whole(self.folder / "summary.json", json.dumps(self.to_json(), indent=1) + "\n")
        write_whole(self.folder / "summary.md", self.to_markdown())
        # Nothing can run on this machine once an experiment failed twice with a version, and nothing ran in between.
        last_failed = takewhile(lambda run: isinstance(run.outcome, EnvironmentFailure), reversed(self.runs))
        tried = [(run.attempt.name, run.attempt.experiment.cluster.kafka_version) for run in last_failed]
        if isinstance(outcome, Exception) and len(set(tried)) < len(tried):
            raise outcome
        return outcome

    def _lanes(self) -> Iterator[dict[str, Any]]:
        """Each lane of each experiment: its settings, its verdicts, and its counts of each anomaly that was judged."""
        lanes: dict[tuple[str, str], tuple[Lane, list[LaneVerdict]]] = {}
        for run in self.runs:
            for _, _, lane in run.attempt.experiment.lanes:
                _, verdicts = lanes.setdefault((run.attempt.name, lane.lane), (lane, []))
                if not isinstance(run.outcome, Exception):
                    verdicts.append(run.outcome.verdict.lane(lane.lane))
        for (experiment, name), (lane, verdicts) in lanes.items():
            judged: dict[str, list[tuple[Status, int]]] = {}
            for verdict in verdicts:
                for anomaly, status in verdict.predicted.items():
                    if (count := verdict.count(anomaly)) is not None:
                        judged.setdefault(anomaly.value, []).append((status, count))
            settings = lane.to_json()
            verdict_counts = Counter(verdict.verdict for verdict in verdicts)
            yield {
                "experiment": experiment,
                "lane": name,
                "settings": {key: settings[key] for key in _SETTINGS},
                "verdicts": {str(verdict): verdict_counts[verdict] for verdict in Verdict},
                "anomalies": {anomaly: _anomaly_entry(counts) for anomaly, counts in judged.items()},
            }


def _anomaly_entry(judged: Sequence[tuple[Status, int]]) -> dict[str, Any]:
    """An anomaly in summary.json, from its status and count in each run that judged it: how many runs judged and found
    it, how many records it concerned, and the 95 % interval (`low` to `high`) of the share of runs that found it."""
    share = ShareOfRuns([count for _, count in judged])
    low, high = (round(bound, 4) for bound in share.interval)
    status = max((status for status, _ in judged), key=list(Status).index)
    records = sum(share.counts)
    return {"status": status, "runs": share.run_count, "hits": share.hits, "records": records, "low": low, "high": high}
