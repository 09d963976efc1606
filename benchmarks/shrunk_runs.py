"""To how few faults `kafka-chaos shrink` gets, in how many minutes, and how often the result shows the finding again.

    .venv/bin/python benchmarks/shrunk_runs.py [RUNS] [--seed SEED]

Each run draws a schedule of four faults, and one of the findings that it shows, which `shrink` then has 15 minutes for.
A run without a finding is drawn anew. The last line of each is JSON; it is added to docs/shrunk-runs.json, and the
table in docs/performance.md is written from that. Exits with 1 if more than three faults are left, it took longer, or
the result showed the finding in fewer than four of five runs.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tables import COMMAND, Row, read_rows, write_rows, write_table

from kafka_chaos.contract.run_directory import VERDICT_FILE
from kafka_chaos.harness.campaign.realised import realised_values
from kafka_chaos.harness.campaign.record import findings_in
from kafka_chaos.harness.signals import end_on_signals

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/shrunk-runs.json"
PAGE = ROOT / "docs/performance.md"
TABLE_BEGINS = "<!-- from docs/shrunk-runs.json, by benchmarks/shrunk_runs.py -->"
TABLE_ENDS = "<!-- end of shrunk runs -->"
FAULTS = 4
MOST_FAULTS_LEFT = 3
MINUTES = 15
REPEATS = 5
LEAST_SHOWN = 4
MOST_DRAWN = 10
EXPERIMENT: dict[str, Any] = {
    "name": "shrunk",
    "workload": {"rate": 1000, "duration": 40},
    "lanes": [
        {"lane": "acks1", "acks": "1", "leader": 1},
        {"lane": "acks1-min2", "acks": "1", "min_insync_replicas": 2, "leader": 2},
        {"lane": "unclean", "acks": "all", "unclean_leader_election": True, "leader": 3},
        {"lane": "safe", "acks": "all", "min_insync_replicas": 2, "idempotence": True, "leader": 1},
    ],
    "schedule": {
        "generate": {
            "faults": ["kill", "stop", "pause", "partition", "isolate", "power-loss"],
            "targets": ["leader(acks1)", "leader(unclean)", "follower(safe)", "random"],
            "count": FAULTS,
            "duration": [2, 6],
            "breaks": "one",
            "quiet_end": 5,
        }
    },
}


def shrink_one(folder: Path, choices: random.Random) -> Row:
    """Draw runs until one shows something, and shrink that."""
    experiment = folder / "shrunk-runs.yaml"
    experiment.write_text(json.dumps(EXPERIMENT))
    for _ in range(MOST_DRAWN):
        seed = choices.randrange(2**31)
        out = folder / str(seed)
        called("run", str(experiment), "--seed", str(seed), "--out", str(out), "--quiet", expected=(0,))
        run = out / "latest"
        found = list(findings_in(json.loads((run / VERDICT_FILE).read_text())))
        faults = len(realised_values(run)["phases"][0]["schedule"])
        if found and faults > MOST_FAULTS_LEFT:
            break
    else:
        sys.exit(f"none of {MOST_DRAWN} runs with {FAULTS} faults showed anything")
    finding = choices.choice(found)
    started = time.monotonic()
    printed = called(
        *("shrink", str(run), "--finding", str(finding), "--minutes", str(MINUTES), "--repeats", str(REPEATS)),
        *("--into", str(folder / "smallest.yaml"), "--out", str(out), "--json"),
        expected=(0, 2),
    )
    seconds = time.monotonic() - started
    # Without a line, the run's own schedule did not show the finding again.
    result = json.loads(printed.splitlines()[-1]) if printed else {"schedule": None, "shown": 0, "tried": []}
    smallest = result["schedule"]
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seed": seed,
        "finding": str(finding),
        "faults": faults,
        "left": None if smallest is None else [f"{one['fault']} for {one['duration']:g} s" for one in smallest],
        "runs": len(result["tried"]),
        "minutes": round(seconds / 60, 1),
        "shown": result["shown"],
        "of": REPEATS,
    }


def called(*arguments: str, expected: Sequence[int]) -> str:
    """The output of a command; exits with its errors if its exit code is not an expected one."""
    print("kafka-chaos", *arguments, flush=True)
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            printed, _ = process.communicate()
        except BaseException:
            # It removes its cluster, and then ends.
            process.terminate()
            process.wait()
            raise
    if process.returncode not in expected:
        sys.exit(f"kafka-chaos {arguments[0]} ended with {process.returncode}, expected one of {expected}")
    return printed


def is_good(row: Row) -> bool:
    """Whether a row reaches all aims."""
    few = row["left"] is not None and len(row["left"]) <= MOST_FAULTS_LEFT
    return few and row["minutes"] <= MINUTES and row["shown"] >= LEAST_SHOWN


def table(rows: Iterable[Row]) -> str:
    """One line per shrunk run."""
    lines = [
        "| seed | finding | faults | left | runs | minutes | shown again |",
        "| --- | --- | ---: | --- | ---: | ---: | --- |",
    ]
    for row in rows:
        left = "not shown by its own schedule again" if row["left"] is None else ", ".join(row["left"])
        lines.append(
            f"| {row['seed']} | {row['finding']} | {row['faults']} | {left} | {row['runs']} | {row['minutes']} "
            f"| {row['shown']} of {row['of']} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=int, nargs="?", default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    arguments = parser.parse_args()
    end_on_signals()
    choices = random.Random(arguments.seed)
    good = True
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-shrunk-") as folder:
            row = shrink_one(Path(folder), choices)
        good &= is_good(row)
        rows = [*read_rows(RESULTS), row]
        write_rows(rows, RESULTS)
        write_table(PAGE, TABLE_BEGINS, table(rows), TABLE_ENDS)
        print(json.dumps(row), flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
