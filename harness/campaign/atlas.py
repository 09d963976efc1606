"""The policy of the command `atlas`, and its plan: YAML with clients, clusters, lanes, and the faults of each family.

A run has one cluster, one family of faults, and up to `lanes_per_run` lanes: the lanes that were tried least.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.campaign.loop import Attempt, Policy
from kafka_chaos.harness.campaign.record import Cell, client_and_version, faults_of, read_lane_runs, settings_of
from kafka_chaos.harness.clients.kinds import missing_programs
from kafka_chaos.harness.experiment.file import experiment_of, load_yaml
from kafka_chaos.harness.experiment.schedule import lane_of_client
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.shared_cluster import new_topic_name


@dataclass(frozen=True, slots=True)
class Trial:
    """A combination that the plan asks for (`cell`), with the lane's keys. `family`: the plan's name for its faults."""

    cell: Cell
    family: str
    lane: Mapping[str, Any]


class Atlas(BaseModel):
    """A plan: every combination of its cluster, family, client and lane is a valid experiment.

    `lanes`, `workload` and the faults of `families` have the keys of an experiment file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="atlas", min_length=1)
    description: str = ""
    clusters: list[str] = Field(min_length=1)
    clients: list[str] = Field(min_length=1)
    lanes: list[dict[str, Any]] = Field(min_length=1)
    families: dict[str, list[dict[str, Any]]] = Field(min_length=1)
    workload: dict[str, Any] = Field(default_factory=dict)
    lanes_per_run: int = Field(default=6, ge=1)
    _source: str = ""

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """The plan in a file; raises `UsageFailure` with file and line."""
        atlas = load_yaml(path, cls, "an atlas")
        atlas._source = str(path)
        if not atlas.trials:
            raise UsageFailure(f"{path}: clients: expected at least one that this machine can run")
        return atlas

    @cached_property
    def trials(self) -> Sequence[Trial]:
        """All combinations of the plan that this machine can run."""
        trials = []
        for cluster in self.clusters:
            for family in self.families:
                # Broker 1 leads all lanes, since the plan's faults may hit this broker by its number.
                lanes = [
                    lane_of_client({"lane": f"{client.replace(' ', '-')}-{number}", "leader": 1, **keys}, client)
                    for client in self.clients
                    if client not in self.unavailable
                    for number, keys in enumerate(self.lanes, 1)
                ]
                experiment = self.experiment(cluster, family, lanes, seed=0)
                kinds = faults_of(fault.kind for phase in experiment.phases for fault in phase.faults)
                for keys, (_, spec, lane) in zip(lanes, experiment.lanes, strict=True):
                    client = client_and_version(spec.client)
                    trials.append(Trial(Cell(client, cluster, settings_of(lane.to_json()), kinds), family, keys))
        return trials

    @cached_property
    def unavailable(self) -> Mapping[str, str]:
        """The clients that this machine can't run, and what it lacks for each."""
        return missing_programs(self.clients)

    def policy(self, record: Path, seeds: random.Random) -> Policy[None]:
        """Yield attempts of the trials with the fewest runs in the record. The first is made even without budget."""
        failed = Counter[Cell]()
        for number in itertools.count():
            tries = failed + Counter(run.cell for run in read_lane_runs(record))
            seed = seeds.randrange(2**31)
            trials = self.next_trials(tries, seed)
            cluster, lanes = trials[0].cell.cluster, [trial.lane for trial in trials]
            experiment = self.experiment(cluster, trials[0].family, lanes, seed)
            outcome = yield Attempt(experiment, Path(self._source).stem, ignores_budget=number == 0)
            if isinstance(outcome, Exception):
                # Not in the record. The other clusters come first now: the failure may be this cluster's.
                failed.update(trial.cell for trial in self.trials if trial.cell.cluster == cluster)

    def next_trials(self, tries: Mapping[Cell, int], seed: int) -> Sequence[Trial]:
        """The trials of the next run, those that were tried least; among equals, the first cluster's trials.

        `tries`: in how many runs each cell was.
        """
        chance = random.Random(seed)
        order = {cluster: number for number, cluster in enumerate(self.clusters)}
        trials = sorted(
            self.trials, key=lambda trial: (tries.get(trial.cell, 0), order[trial.cell.cluster], chance.random())
        )
        first = trials[0]
        group = [trial for trial in trials if (trial.cell.cluster, trial.family) == (first.cell.cluster, first.family)]
        return group[: self.lanes_per_run]

    def experiment(self, cluster: str, family: str, lanes: Iterable[Mapping[str, Any]], seed: int) -> Experiment:
        """The experiment with these lanes; raises `UsageFailure` if it is not valid."""
        version, _, mode = cluster.partition("/")
        values = {
            "name": f"{self.name}-{family}",
            "seed": seed,
            "cluster": {"kafka_version": version, "metadata_mode": mode},
            "workload": self.workload,
            "lanes": [{**lane, "topic": new_topic_name(str(lane["lane"]))} for lane in lanes],
            "schedule": self.families[family],
        }
        return experiment_of(values, f"{self._source} ({cluster}, {family})")
