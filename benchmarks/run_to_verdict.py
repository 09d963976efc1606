"""How long a user waits from the end of the load to the verdict and the report.

    .venv/bin/python benchmarks/run_to_verdict.py [--rounds 2] [--engine duckdb]

The demo, each round in a fresh process, and then further runs of a small experiment in one process, as in a pytest
session. The last line is JSON: medians in seconds. Exits with 1 if the demo takes more than 10 s with Spark or 4 s with
DuckDB, or a further run more than 5 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.run.runner import run_experiment

DEMO = Path(__file__).parent.parent / "experiments" / "demo.yaml"
LOAD_ENDS = "waiting for the outcome of records in flight"
MOST_SECONDS = {Engine.SPARK: 10.0, Engine.DUCKDB: 4.0}
MOST_FURTHER_SECONDS = 5.0

SMALL = {
    "name": "further",
    "phases": [
        {
            "phase": "freeze",
            "workload": {"rate": 500, "duration": 4},
            "lanes": [
                {"lane": "acks1", "acks": "1", "leader": 1},
                {"lane": "idempotent", "acks": "all", "min_insync_replicas": 2, "idempotence": True, "leader": 1},
            ],
            "schedule": [{"fault": "pause", "target": "leader(acks1)", "at": 1, "duration": 1}],
        }
    ],
}


def waited(run: Path) -> float:
    """The seconds from the end of the last load to the end of the run."""
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    load_ended = max(event["ts_ns"] for event in events if event.get("text") == LOAD_ENDS)
    run_ended = next(event["ts_ns"] for event in events if event["type"] == "run_ended")
    return float(run_ended - load_ended) / 1e9


def demo(folder: Path, engine: Engine) -> float:
    """One demo in a fresh process."""
    command = [sys.executable, "-m", "kafka_chaos.harness.cli.main", "run", str(DEMO), "--out", str(folder)]
    subprocess.run([*command, "--engine", engine], check=True, stdout=subprocess.DEVNULL)
    return waited(folder / "latest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--engine", type=Engine, choices=list(Engine), default=Engine.SPARK)
    options = parser.parse_args()
    rounds = options.rounds
    seconds: dict[str, list[float]] = {"demo": [], "further_run": []}
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as scratch:
        for number in range(rounds):
            seconds["demo"].append(demo(Path(scratch) / f"demo-{number}", options.engine))
            print(f"demo: {seconds['demo'][-1]:.1f} s from the end of the load to the verdict", flush=True)
        # The first run of the process starts Spark, where it is the engine, and is not counted.
        for number in range(rounds + 1):
            further = experiment_of(SMALL, "benchmark")
            result = run_experiment(further, root=Path(scratch) / "further", engine=options.engine)
            if number:
                seconds["further_run"].append(waited(result.path))
                print(f"further run: {seconds['further_run'][-1]:.1f} s", flush=True)
    medians = {name: round(statistics.median(found), 2) for name, found in seconds.items()}
    print(json.dumps({**medians, "engine": options.engine, "rounds": rounds}))
    if medians["demo"] > MOST_SECONDS[options.engine] or medians["further_run"] > MOST_FURTHER_SECONDS:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
