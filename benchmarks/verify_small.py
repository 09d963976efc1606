"""How long the verification of a small run takes in a warm session, with a cached prediction.

usage: verify_small.py [--records 8000] [--warm 15] [--rounds 5]

Four lanes with one to four partitions, once clean and once with losses and duplicates in each, in turn. The last line
is one JSON object: {"clean": {"first": …, "median": …}, "lossy": {…}}, in seconds, `first` being that of the first
verification in a session that has just been started. Exits with 1 if a median is above 1.5 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from kafka_chaos.verification import spark_session, verify
from kafka_chaos.verification.generate import LaneShape, lane_tables, write_run

MOST = 1.5
KINDS = {"clean": {}, "lossy": {"acks": "1", "lost_tail": 50, "retry_share": 0.01}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=8000)
    parser.add_argument("--warm", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    spark = spark_session()
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-small-") as scratch:
        runs = {}
        for kind, further in KINDS.items():
            shapes = [
                LaneShape(lane=f"lane-{n}", records=arguments.records // 4, partitions=n, **further)  # type: ignore[arg-type]
                for n in range(1, 5)
            ]
            runs[kind] = write_run(Path(scratch) / kind, [lane_tables(shape) for shape in shapes])
        for _ in range(arguments.warm + arguments.rounds):
            for kind, run_dir in runs.items():
                started = time.perf_counter()
                verify(run_dir, spark=spark)
                seconds[kind].append(time.perf_counter() - started)
    figures = {
        kind: {"first": round(taken[0], 2), "median": round(statistics.median(taken[-arguments.rounds :]), 2)}
        for kind, taken in seconds.items()
    }
    print(json.dumps(figures))
    raise SystemExit(any(found["median"] > MOST for found in figures.values()))


if __name__ == "__main__":
    main()
