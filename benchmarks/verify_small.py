"""How long the verification of a small run takes, with a cached prediction: in a warm session, and cold without Spark.

usage: verify_small.py [--records 8000] [--warm 15] [--rounds 5] [--duckdb-only]

Four lanes with one to four partitions, once clean and once with losses and duplicates in each, in turn. The last line
is one JSON object: {"clean": {"first": …, "median": …, "duckdb": …}, "lossy": {…}}, in seconds. `first`: the first
verification in a session that has just been started; `median`: the last ones. `duckdb`: the median of cold commands,
`kafka-chaos verify --engine duckdb`, each from the start of its process to its end. Exits with 1 if a median is above
1.5 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from generated_histories import LaneShape, lane_tables, write_run

from kafka_chaos.verification import spark_session, verify

MOST = 1.5
KINDS = {"clean": {}, "lossy": {"acks": "1", "lost_tail": 50, "retry_share": 0.01}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=8000)
    parser.add_argument("--warm", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--duckdb-only", action="store_true", help="start no Spark")
    arguments = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-small-") as scratch:
        runs = {}
        for kind, further in KINDS.items():
            shapes = [
                LaneShape(lane=f"lane-{n}", records=arguments.records // 4, partitions=n, **further)  # type: ignore[arg-type]
                for n in range(1, 5)
            ]
            runs[kind] = write_run(Path(scratch) / kind, [lane_tables(shape) for shape in shapes])
        for kind, run_dir in runs.items():
            cold = [timed(lambda run_dir=run_dir: command(run_dir)) for _ in range(arguments.rounds + 1)]  # type: ignore[misc]
            # The first one writes the prediction's answers to the cache.
            figures[kind] = {"duckdb": round(statistics.median(cold[1:]), 2)}
        if not arguments.duckdb_only:
            for kind, taken in by_spark(runs, arguments.warm + arguments.rounds).items():
                median = statistics.median(taken[-arguments.rounds :])
                figures[kind] |= {"first": round(taken[0], 2), "median": round(median, 2)}
    print(json.dumps(figures))
    raise SystemExit(any(found.get(name, 0) > MOST for found in figures.values() for name in ("duckdb", "median")))


def by_spark(runs: dict[str, Path], rounds: int) -> dict[str, list[float]]:
    spark = spark_session()
    seconds: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(rounds):
        for kind, run_dir in runs.items():
            seconds[kind].append(timed(lambda run_dir=run_dir: verify(run_dir, spark=spark)))  # type: ignore[misc]
    return seconds


def command(run_dir: Path) -> None:
    program = [sys.executable, "-m", "kafka_chaos.harness.cli.main", "verify", "--engine", "duckdb", "--quiet"]
    ended = subprocess.run([*program, str(run_dir)], check=False)
    assert ended.returncode < 3, ended


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
