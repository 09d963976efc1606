"""Records small runs of every family, one for each row of covering arrays, so that later changes can judge them again.

    benchmarks/record_runs.py DIR [--runs 300] [--seed 0] [--workers 3]

A run has a cluster of its own, loads it for a few seconds under a fault, and is judged with DuckDB. What verification
reads stays in DIR: the logs of brokers and clients go. `benchmarks/verdicts_kept.py` judges such runs again.
Prints each lane that does not conform, with its reasons, and at the end how many lanes have which verdict. Exits with
1 if a lane is a violation, and with 3 if a lane is unknown, sent nothing, or came to no verdict.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kafka_chaos.contract.command.errors import KafkaChaosError  # noqa: E402
from kafka_chaos.contract.engines import Engine  # noqa: E402
from kafka_chaos.contract.run_directory import LOGS_FOLDER  # noqa: E402
from kafka_chaos.harness.experiment.file import experiment_of  # noqa: E402
from kafka_chaos.harness.run.runner import run_experiment  # noqa: E402
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS  # noqa: E402
from tests.harness.experiment.test_covering_array import experiments  # noqa: E402

Task = tuple[Path, dict[str, Any]]
Told = tuple[str, list[tuple[str, str, str]]]
"""What was run; and of each lane its name, its verdict and the reasons."""


def rows(seed: int) -> Iterator[dict[str, Any]]:
    """Experiments of one array after the other."""
    for number in count(seed):
        for row, values in enumerate(experiments(number)):
            yield {**values, "name": f"array-{number}-{row}"}


def record(task: Task) -> Told:
    """Run an experiment, and keep what is judged."""
    root, values = task
    name = values["name"]
    try:
        result = run_experiment(
            experiment_of(values, name), root=root, accept_known=MODELLED_DEFECTS, engine=Engine.DUCKDB, report=False
        )
    except KafkaChaosError as error:
        return name, [("", "no verdict", str(error))]
    shutil.rmtree(result.path / LOGS_FOLDER, ignore_errors=True)
    return name, [
        (lane.lane, lane.outcome if lane.acknowledged else "nothing acknowledged", "; ".join(lane.reasons))
        for lane in result.verdict.lanes
    ]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, metavar="DIR")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    tasks = [(options.root, values) for values in islice(rows(options.seed), options.runs)]
    verdicts = Counter[str]()
    with get_context("spawn").Pool(options.workers) as pool:
        for name, lanes in pool.imap_unordered(record, tasks):
            verdicts.update(verdict for _, verdict, _ in lanes)
            for lane, verdict, reasons in lanes:
                if verdict != "conforms":
                    print(f"{name} {lane}: {verdict}: {reasons}", flush=True)
    print(json.dumps({"runs": len(tasks), **verdicts}))
    raise SystemExit(1 if verdicts["violation"] else 3 if set(verdicts) - {"conforms"} else 0)


if __name__ == "__main__":
    main()
