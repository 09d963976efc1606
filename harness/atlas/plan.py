"""The plan of the atlas: a YAML file with clients, clusters, lanes, and the faults of each family.

A run has one cluster, one family of faults, and up to `lanes_per_run` lanes: those that were tried least.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import confluent_kafka
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.clients.kinds import ChosenClient, chosen
from kafka_chaos.harness.experiment.file import document_of, experiment_of, line_of, text_of
from kafka_chaos.harness.experiment.schedule import of_client
from kafka_chaos.harness.experiment.specs import Experiment, dotted
from kafka_chaos.harness.experiment.values import refusals
from kafka_chaos.harness.nightly.collecting import client_named
from kafka_chaos.harness.run.shared_cluster import topic_name
from kafka_chaos.reference_model.forecast.lane_runs import Cell, faults_of, settings_of


class AtlasPlan(BaseModel):
    """The keys of the file. `lanes`, `workload` and the faults of `families` are those of an experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="atlas", min_length=1)
    description: str = ""
    clusters: list[str] = Field(min_length=1)
    clients: list[str] = Field(min_length=1)
    lanes: list[dict[str, Any]] = Field(min_length=1)
    families: dict[str, list[dict[str, Any]]] = Field(min_length=1)
    workload: dict[str, Any] = Field(default_factory=dict)
    lanes_per_run: int = Field(default=6, ge=1)


@dataclass(frozen=True, slots=True)
class Trial:
    """A cell to be tried, with the lane's keys. `family`: the key in the file of its faults."""

    cell: Cell
    family: str
    lane: Mapping[str, Any]


@dataclass(frozen=True)
class Atlas:
    """A plan, checked: every combination of its cluster, family, client and lane is a valid experiment."""

    plan: AtlasPlan
    source: str

    @classmethod
    def of(cls, path: Path) -> Atlas:
        """The plan in a file; raises `UsageFailure` with file and line."""
        document, values = document_of(text_of(path), str(path), "an atlas")
        try:
            atlas = cls(AtlasPlan.model_validate(values), str(path))
        except ValidationError as error:
            place, message = refusals(error, AtlasPlan)[0]
            raise UsageFailure(f"{path}:{line_of(document, place)}: {dotted(place)}: {message}") from None
        if not atlas.trials:
            raise UsageFailure(f"{path}: clients: expected one that this machine can run")
        return atlas

    @cached_property
    def trials(self) -> Sequence[Trial]:
        """All combinations."""
        found = []
        for cluster in self.plan.clusters:
            for family in self.plan.families:
                lanes = [
                    self._lane(client, keys)
                    for client in self.plan.clients
                    if client not in self.left_out
                    for keys in self.plan.lanes
                ]
                experiment = self.experiment(cluster, family, lanes, seed=0)
                kinds = faults_of(fault.kind for phase in experiment.phases for fault in phase.faults())
                for keys, (_, spec, lane) in zip(lanes, experiment.lanes(), strict=True):
                    client = client_named(spec.client, confluent_kafka.libversion()[0])
                    found.append(Trial(Cell(client, cluster, settings_of(lane.to_json()), kinds), family, keys))
        return found

    @cached_property
    def left_out(self) -> Mapping[str, Sequence[str]]:
        """The clients that this machine can't run, and what it lacks for each."""
        kinds = {client: chosen(client) for client in self.plan.clients}
        lacking = {name: kind.kind.lacks() for name, kind in kinds.items() if isinstance(kind, ChosenClient)}
        return {name: lacks for name, lacks in lacking.items() if lacks}

    def next_run(self, tried: Mapping[Cell, int], seed: int) -> Experiment:
        """The experiment with the cells that were tried least; among equals, all of a cluster one after the other."""
        chance = random.Random(seed)
        order = {cluster: number for number, cluster in enumerate(self.plan.clusters)}
        trials = sorted(
            self.trials, key=lambda trial: (tried.get(trial.cell, 0), order[trial.cell.cluster], chance.random())
        )
        first = trials[0]
        beside = [trial for trial in trials if (trial.cell.cluster, trial.family) == (first.cell.cluster, first.family)]
        lanes = [trial.lane for trial in beside[: self.plan.lanes_per_run]]
        return self.experiment(first.cell.cluster, first.family, lanes, seed)

    def experiment(self, cluster: str, family: str, lanes: Iterable[Mapping[str, Any]], seed: int) -> Experiment:
        """The experiment of these lanes; raises `UsageFailure` if it is none."""
        version, _, mode = cluster.partition("/")
        values = {
            "name": f"{self.plan.name}-{family}",
            "seed": seed,
            "cluster": {"kafka_version": version, "metadata_mode": mode},
            "workload": self.plan.workload,
            "lanes": [{**lane, "topic": topic_name(str(lane["lane"]))} for lane in lanes],
            "schedule": self.plan.families[family],
        }
        return experiment_of(values, f"{self.source} ({cluster}, {family})")

    def _lane(self, client: str, keys: Mapping[str, Any]) -> dict[str, Any]:
        """A lane of a client."""
        number = self.plan.lanes.index(dict(keys)) + 1
        return of_client({"lane": f"{client.replace(' ', '-')}-{number}", "leader": 1, **keys}, client)
