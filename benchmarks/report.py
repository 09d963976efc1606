"""How long a report takes in a warm Spark session, and how many Spark jobs: `report.py DIR [--rounds N]`."""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from kafka_chaos.harness.report import write_report
from kafka_chaos.verification import spark_session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_dir", type=Path, help="a verified run directory; its report is rewritten")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    spark = spark_session()
    tracker = spark.sparkContext.statusTracker()
    seconds: list[float] = []
    jobs = 0
    # The first round warms the session and is not counted.
    for _ in range(arguments.rounds + 1):
        before = len(tracker.getJobIdsForGroup())
        start = time.perf_counter()
        write_report(arguments.run_dir, spark=spark)
        seconds.append(time.perf_counter() - start)
        jobs = len(tracker.getJobIdsForGroup()) - before
    print(f"report: {statistics.median(seconds[1:]):.2f} s (median of {arguments.rounds}), {jobs} Spark jobs")


if __name__ == "__main__":
    main()
