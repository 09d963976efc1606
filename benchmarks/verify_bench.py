"""Verification side by side with DuckDB: the same files, the same cores, in turn, medians.

usage: verify_bench.py [--records 10000000] [--rounds 5] [--work-dir DIR] [--yardstick SCRIPT]

Makes a run directory of that many produced, consumed and log rows, with a realistic share of info outcomes and retries
and a few findings. Both count the anomalies, and the counts are compared. Spark also writes its findings. Its start,
and a first verification of a small directory that loads its classes, are not counted. The last line is one JSON object:
{"ratio": …, "spark_seconds": …, "duckdb_seconds": …}. `--yardstick`: another script with the interface of
verify_duckdb.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from generated_histories import LaneShape, lane_tables, write_run

from kafka_chaos.verification import RunVerdict, spark_session, verify

JUDGED_BY_BOTH = (
    "lost_write",
    "duplicate",
    "false_failure",
    "phantom",
    "inconsistent_offset",
    "offset_mismatch",
    "truncated_read",
    "unseen",
    "reordered",
    "nonmonotonic_poll",
    "offset_gap",
)
WARM_UP_RECORDS = 400_000


def shapes(records: int) -> list[LaneShape]:
    """Five lanes like those of a chaos run, whose settings differ in the cost of a leader change."""
    each = records // 5
    retried = ("duplicate",)
    lossy = ("lost_write", "inconsistent_offset")
    return [
        LaneShape(
            lane="acks0",
            records=each,
            partitions=6,
            acks="0",
            info_share=0.002,
            lost_tail=500,
            permitted=("lost_write",),
        ),
        LaneShape(
            lane="acks1",
            records=each,
            partitions=6,
            producers=2,
            acks="1",
            info_share=0.005,
            retry_share=0.0002,
            lost_tail=500,
            permitted=(*lossy, *retried),
        ),
        LaneShape(lane="all", records=each, info_share=0.005, retry_share=0.0005, restarts=3, permitted=retried),
        LaneShape(
            lane="all-min2",
            records=each,
            partitions=3,
            producers=3,
            info_share=0.01,
            fail_share=0.01,
            retry_share=0.0005,
            permitted=retried,
        ),
        LaneShape(lane="idempotent", records=each, partitions=6, info_share=0.005, restarts=5),
    ]


def make(folder: Path, records: int) -> Path:
    """A run directory of `records` produced rows, about as many read and as many in the log."""
    return write_run(folder, [lane_tables(shape, seed=1) for shape in shapes(records)])


def counts_of(verdict: RunVerdict) -> dict[str, dict[str, int]]:
    """Spark's counts, in the yardstick's form."""
    counts: dict[str, dict[str, int]] = {name: {} for name in JUDGED_BY_BOTH}
    for lane in verdict.lanes:
        for anomaly, seen in lane.observed.items():
            if anomaly.value in counts:
                counts[anomaly.value][lane.lane] = seen.count
    return counts


def run_yardstick(script: Path, run_dir: Path) -> dict[str, Any]:
    """The yardstick's answer, from a separate process."""
    command = [sys.executable, str(script), str(run_dir), "--threads", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(run_dir: Path, yardstick: Path, rounds: int) -> dict[str, float]:
    """Medians of `rounds` alternating runs; an error if the two disagree on any count."""
    spark_seconds, duckdb_seconds = [], []
    for number in range(1, rounds + 1):
        verdict = verify(run_dir, spark=spark_session())
        answer = run_yardstick(yardstick, run_dir)
        if counts_of(verdict) != answer["counts"]:
            raise SystemExit(f"the counts differ: {counts_of(verdict)} and {answer['counts']}")
        spark_seconds.append(verdict.seconds)
        duckdb_seconds.append(float(answer["seconds"]))
        print(f"round {number}: Spark {verdict.seconds:.1f} s, DuckDB {answer['seconds']:.1f} s", flush=True)
    spark, duckdb = statistics.median(spark_seconds), statistics.median(duckdb_seconds)
    return {"ratio": round(spark / duckdb, 3), "spark_seconds": round(spark, 2), "duckdb_seconds": round(duckdb, 2)}


def main() -> None:
    """Make the directory, warm up, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work-dir", type=Path, help="where to keep the run directory; default: a temporary one")
    parser.add_argument("--yardstick", type=Path, default=Path(__file__).with_name("verify_duckdb.py"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as scratch:
        work = arguments.work_dir or Path(scratch)
        run_dir = work / f"verify-{arguments.records}"
        if not (run_dir / "lanes.json").exists():
            print(f"making {arguments.records:,} records", flush=True)
            make(run_dir, arguments.records)
        warm_up = make(Path(scratch) / "warm-up", min(WARM_UP_RECORDS, arguments.records))
        for _ in range(2):
            verify(warm_up, spark=spark_session())
        print(json.dumps(compare(run_dir, arguments.yardstick, arguments.rounds)))


if __name__ == "__main__":
    main()
