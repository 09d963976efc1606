"""Clusters that nightly runs take turns on: each supported version in each of its modes, another one every night."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.metadata import METADATA_MODES
from kafka_chaos.harness.cluster.containers.versions import VERSIONS, check_version
from kafka_chaos.harness.experiment.file import experiment_values, load_experiment
from kafka_chaos.harness.experiment.specs import Experiment

TURN = "turn"


@dataclass(frozen=True, slots=True)
class Turn:
    """A version of Kafka and a metadata mode."""

    kafka_version: str
    metadata_mode: str

    @classmethod
    def parse(cls, text: str, day: date) -> Turn:
        """`VERSION/MODE`, or `turn` for that of a day; raises `UsageFailure` for anything else."""
        if text == TURN:
            return of_day(day)
        version, slash, mode = text.partition("/")
        if not slash or mode not in METADATA_MODES:
            raise UsageFailure(f"--on {text}: expected VERSION/MODE, such as 4.2.0/kraft or 3.9.1/zookeeper, or {TURN}")
        check_version(version, mode)
        return cls(version, mode)

    def load(self, path: Path, seed: int) -> Experiment:
        """The experiment in a file, on this cluster unless the file has the key `cluster`."""
        overrides: dict[str, Any] = {"seed": seed}
        if "cluster" not in experiment_values(path):
            overrides["cluster"] = {"kafka_version": self.kafka_version, "metadata_mode": self.metadata_mode}
        return load_experiment(path, overrides=overrides)

    def __str__(self) -> str:
        return f"Kafka {self.kafka_version}, {self.metadata_mode}"


def of_day(day: date) -> Turn:
    """The day's turn. Versions without idempotent producers (before 0.11) take none: the experiments have some."""
    turns = [Turn(one.number, mode) for one in VERSIONS.values() if one.has_idempotence for mode in one.modes]
    return turns[day.toordinal() % len(turns)]
