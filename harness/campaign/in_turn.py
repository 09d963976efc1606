"""The policy of `nightly`: experiments in turn, with `--on turn` on another version or mode of Kafka every night."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.campaign.loop import Attempt, Policy
from kafka_chaos.harness.cluster.containers.versions import VERSIONS, parse_cluster
from kafka_chaos.harness.experiment.file import experiment_values, load_experiment
from kafka_chaos.harness.experiment.specs import Experiment


def in_turn(experiments: Sequence[Path], load: Callable[[Path, int], Experiment], seeds: random.Random) -> Policy[None]:
    """Run the experiments in these files in turn, again and again. Each runs at least once, even without budget."""
    for number in itertools.count():
        for path in experiments:
            yield Attempt(load(path, seeds.randrange(2**31)), path.stem, ignores_budget=number == 0)


def experiments_in(paths: Sequence[Path]) -> list[Path]:
    """The experiment files that `paths` name or contain; raises `UsageFailure` for a path without any."""
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not inside:
            raise UsageFailure(f"{path}: no experiment in it, expected files *.yaml")
        files += inside
    # A file that is not valid is refused now, and not when its turn comes.
    for path in files:
        load_experiment(path)
    return files


def cluster_keys(text: str, day: date) -> dict[str, str]:
    """The keys of the cluster `VERSION/MODE`, or of the day's cluster if the text is `turn`. Raises `UsageFailure`.

    No day's cluster is older than 0.11, which brought idempotent producers: the experiments need them.
    """
    turns = [
        f"{version.number}/{mode}" for version in VERSIONS.values() if version.has_idempotence for mode in version.modes
    ]
    return parse_cluster(turns[day.toordinal() % len(turns)] if text == "turn" else text)


def load_for_cluster(cluster: Mapping[str, str] | None, path: Path, seed: int) -> Experiment:
    """The experiment in a file, on this cluster unless the file has the key `cluster`."""
    cluster_key = {} if cluster is None or "cluster" in experiment_values(path) else {"cluster": cluster}
    return load_experiment(path, overrides={"seed": seed, **cluster_key})
