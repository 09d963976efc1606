"""Records small runs of every family, one for each row of covering arrays, so that later changes can judge them again.

    benchmarks/record_runs.py DIR [--runs 300] [--seed 0] [--workers 3]

A run loads a cluster for a few seconds under a fault, and is judged with DuckDB. What verification reads stays in DIR:
the logs of brokers and clients go. Runs that are in DIR already are not made again. `benchmarks/verdicts_kept.py`
judges such runs again. Prints each lane that does not conform, with its reasons, and at the end how many lanes have
which verdict. Exits with 1 if a lane is a violation, and with 3 if a lane is unknown, had nothing acknowledged, or came
to no verdict.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kafka_chaos.contract.command.errors import KafkaChaosError  # noqa: E402
from kafka_chaos.contract.engines import Engine  # noqa: E402
from kafka_chaos.contract.run_directory import LOGS_FOLDER  # noqa: E402
from kafka_chaos.harness.experiment.file import experiment_of  # noqa: E402
from kafka_chaos.harness.experiment.specs import Experiment  # noqa: E402
from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns, new_topic_name  # noqa: E402
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS  # noqa: E402
from tests.harness.experiment.test_covering_array import experiments  # noqa: E402

Told = tuple[str, list[tuple[str, str, str]]]
"""What was run; and of each lane its name, its verdict and the reasons."""
TOGETHER = 12
"""At most so many runs share a cluster."""


def rows(seed: int) -> Iterator[dict[str, Any]]:
    """Experiments of one array after the other."""
    for number in count(seed):
        for row, values in enumerate(experiments(number)):
            lanes = [{**lane, "topic": new_topic_name(lane["lane"])} for lane in values["lanes"]]
            yield {**values, "name": f"array-{number}-{row}", "lanes": lanes}


def together(values: Iterable[dict[str, Any]]) -> list[list[Experiment]]:
    """Experiments that can share a cluster."""
    alike: dict[str, list[Experiment]] = {}
    for experiment in (experiment_of(each, each["name"]) for each in values):
        alike.setdefault(repr(experiment.layout), []).append(experiment)
    groups = [group[first : first + TOGETHER] for group in alike.values() for first in range(0, len(group), TOGETHER)]
    return sorted(groups, key=len, reverse=True)


def record(group: list[Experiment], *, root: Path) -> list[Told]:
    """Run experiments on one cluster, and keep what is judged."""
    told: list[Told] = []
    with ClusterOfRuns("recorded", Engine.DUCKDB, MODELLED_DEFECTS) as cluster:
        for experiment in group:
            try:
                result = cluster.run(experiment, root=root)
            except KafkaChaosError as error:
                told.append((experiment.name, [("", "no verdict", str(error))]))
                continue
            shutil.rmtree(result.path / LOGS_FOLDER, ignore_errors=True)
            lanes = [
                (lane.lane, lane.outcome if lane.acknowledged else "nothing acknowledged", "; ".join(lane.reasons))
                for lane in result.verdict.lanes
            ]
            told.append((experiment.name, lanes))
    return told


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, metavar="DIR")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    # DATE-TIME-array-SEED-ROW-RANDOM
    there = {path.parent.name[16:-5] for path in options.root.glob("2*/verdict.json")}
    groups = together(values for values in islice(rows(options.seed), options.runs) if values["name"] not in there)
    verdicts = Counter[str]()
    with get_context("spawn").Pool(options.workers) as pool:
        for name, lanes in chain.from_iterable(pool.imap_unordered(partial(record, root=options.root), groups)):
            verdicts.update(verdict for _, verdict, _ in lanes)
            for lane, verdict, reasons in lanes:
                if verdict != "conforms":
                    print(f"{name} {lane}: {verdict}: {reasons}", flush=True)
    print(json.dumps({"runs": sum(map(len, groups)), **verdicts}))
    raise SystemExit(1 if verdicts["violation"] else 3 if set(verdicts) - {"conforms"} else 0)


if __name__ == "__main__":
    main()
