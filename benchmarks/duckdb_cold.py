"""How long the engine `duckdb` takes from the start of its process to its verdict, beside the floor: reading alone.

usage: duckdb_cold.py [--sizes 10000 1000000] [--rounds 3] [--command COMMAND] [--work-dir DIR]

The histories are those of verify_bench.py; a size is the number of records that are produced. Each measurement is a
process of its own, in turn with the floor: DuckDB reads the same columns, with a hash and the extremes of each. The
last line is one JSON object: size → {"seconds": …, "cpu_seconds": …, "floor_seconds": …, "floor_cpu_seconds": …},
medians. On a machine that does other work, too, only the seconds of the processor tell something.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from verify_bench import make

FLOOR = """
import duckdb, sys
for table in ("produced", "consumed", "log"):
    rows = duckdb.sql(f"SELECT * FROM read_parquet('{sys.argv[1]}/{table}/*.parquet', union_by_name = true)")
    parts = [f'SUM(HASH("{name}")), MIN("{name}"), MAX("{name}")' for name in rows.columns if name != "key"]
    duckdb.sql(f"SELECT {', '.join(parts)} FROM rows").fetchall()
"""


def measured(command: Sequence[str]) -> tuple[float, float]:
    """The seconds of a command, and those of the processor."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Make each history, measure in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--command", default="kafka-chaos verify --engine duckdb", help="what takes a run directory")
    parser.add_argument("--work-dir", type=Path, help="where histories are kept; default: a temporary folder")
    arguments = parser.parse_args()
    answers = {}
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-cold-") as scratch:
        for size in arguments.sizes:
            run_dir = (arguments.work_dir or Path(scratch)) / f"bench-{size}"
            if not (run_dir / "lanes.json").exists():
                make(run_dir, size)
            commands = ([*shlex.split(arguments.command), str(run_dir)], [sys.executable, "-c", FLOOR, str(run_dir)])
            rounds = [[value for command in commands for value in measured(command)] for _ in range(arguments.rounds)]
            names = ("seconds", "cpu_seconds", "floor_seconds", "floor_cpu_seconds")
            medians = (round(statistics.median(of), 2) for of in zip(*rounds, strict=True))
            answers[size] = dict(zip(names, medians, strict=True))
            print(f"{size:,}: {answers[size]}", flush=True)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
