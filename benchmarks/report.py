"""How long a report takes: `report.py DIR [--rounds N]`."""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from kafka_chaos.harness.report import write_report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_dir", type=Path, help="a verified run directory; its report is rewritten")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    seconds: list[float] = []
    # The first round imports what it needs, and is not counted.
    for _ in range(arguments.rounds + 1):
        start = time.perf_counter()
        write_report(arguments.run_dir)
        seconds.append(time.perf_counter() - start)
    print(f"report: {statistics.median(seconds[1:]):.2f} s (median of {arguments.rounds})")


if __name__ == "__main__":
    main()
