"""Time and peak memory of verification from 10⁴ to 10⁸ records: Spark, DuckDB, and eleven queries on the same files.

usage: verify_sizes.py [--sizes 10000 100000 …] [--plot runs/verify-sizes.svg] [--into FIGURES.json]
                       [--work-dir DIR]

Each measurement is a separate process, whose peak memory is measured: resident pages of the process and, for
Spark, of its JVM, read from /proc every 0.1 s. Spark's driver has 2 GB; its start and two small runs are not counted.
Every run directory is removed after its measurement. `--into` keeps former measurements, so sizes can be
added one by one. The last line is one JSON object: size → contender → {"seconds": …, "peak_mib": …}. Exits with 1 if
Spark takes more than 14 times as long for 10⁸ records as for 10⁷.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CONTENDERS = ("spark", "duckdb", "queries")
MOST_TIMES = 14


def make(folder: Path, records: int, *, dirty: bool) -> Path:
    """The history of verify_bench.py, lane by lane: a hundred million rows do not fit into memory at once."""
    from generated_histories import LaneShape, lane_tables, write_run
    from verify_bench import shapes

    chosen = shapes(records)
    if dirty:
        chosen = [LaneShape(lane="a", records=records, partitions=6, producers=2, retry_share=1.0)]
    return write_run(folder, (lane_tables(shape, seed=1) for shape in chosen))


def with_spark(run_dir: Path) -> dict[str, Any]:
    from generated_histories import LaneShape, lane_tables, write_run

    from kafka_chaos.verification import spark_session, verify

    spark = spark_session()
    with tempfile.TemporaryDirectory() as scratch:
        small = write_run(Path(scratch) / "run", [lane_tables(LaneShape(lane="a", records=100_000, retry_share=0.01))])
        for _ in range(2):
            verify(small, spark=spark)
    verdict = verify(run_dir, spark=spark)
    return {
        "seconds": round(verdict.seconds, 2),
        "found": sum(s.count for lane in verdict.lanes for s in lane.observed.values()),
    }


def with_queries(run_dir: Path) -> dict[str, Any]:
    from verify_duckdb import measure

    answer: Any = measure(run_dir, 2)
    return {
        "seconds": answer["seconds"],
        "found": sum(n for lanes in answer["counts"].values() for n in lanes.values()),
    }


def with_engine(run_dir: Path) -> dict[str, Any]:
    from kafka_chaos.verification import verify

    verdict = verify(run_dir, engine="duckdb")
    return {
        "seconds": round(verdict.seconds, 2),
        "found": sum(s.count for lane in verdict.lanes for s in lane.observed.values()),
    }


def resident_mib(pid: int) -> float:
    """Resident memory of a process and its children."""
    total = 0.0
    for process in (pid, *children(pid)):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)
    return total


def children(pid: int) -> list[int]:
    try:
        direct = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [process for child in direct for process in (child, *children(child))]


def measured(contender: str, run_dir: Path) -> dict[str, Any]:
    """One contender in a separate process."""
    return measured_process([__file__, "--contender", contender, str(run_dir)])


def measured_process(arguments: list[str]) -> dict[str, Any]:
    """The JSON object that a Python script prints last, with the script's peak memory as `peak_mib`."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as started:
        peak, done = [0.0], threading.Event()

        def look() -> None:
            while not done.wait(0.1):
                peak[0] = max(peak[0], resident_mib(started.pid))

        looker = threading.Thread(target=look)
        looker.start()
        try:
            output, _ = started.communicate()
        finally:
            done.set()
            looker.join()
    if started.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    return {**json.loads(output.splitlines()[-1]), "peak_mib": round(peak[0])}


def cpu_seconds() -> float:
    """Processor seconds of this process and its children, such as Spark's JVM, so far."""
    ticks = 0
    for process in (os.getpid(), *children(os.getpid())):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def plot(figures: dict[str, dict[str, dict[str, Any]]], target: Path) -> None:
    """Two panels over the number of records: seconds and peak memory."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axes, what, title in ((left, "seconds", "time, s"), (right, "peak_mib", "peak memory, MiB")):
        for contender in CONTENDERS:
            points = [(int(n), found[contender][what]) for n, found in figures.items() if contender in found]
            if points:
                axes.plot(*zip(*sorted(points), strict=True), marker="o", label=contender)
        axes.set(xscale="log", yscale="log", xlabel="produced records (as many read, as many stored)", title=title)
        axes.grid(alpha=0.3)
        axes.legend()
    target.parent.mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "kafka-chaos"
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**power for power in range(4, 9)])
    parser.add_argument("--contenders", nargs="*", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--dirty", action="store_true", help="a history in which every batch was written twice")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--work-dir", type=Path)
    parser.add_argument("--contender", nargs=2, metavar=("NAME", "DIR"), help="measure one, in this process")
    arguments = parser.parse_args()
    if arguments.contender:
        name, run_dir = arguments.contender
        print(json.dumps({"spark": with_spark, "duckdb": with_engine, "queries": with_queries}[name](Path(run_dir))))
        return
    figures: dict[str, Any] = {}
    if arguments.into is not None and arguments.into.exists():
        figures = json.loads(arguments.into.read_text())
    for records in arguments.sizes:
        with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="kafka-chaos-sizes-") as scratch:
            run_dir = make(Path(scratch), records, dirty=arguments.dirty)
            for contender in arguments.contenders:
                found = measured(contender, run_dir)
                figures.setdefault(str(records), {})[contender] = found
                print(f"{records:,} {contender}: {found}", flush=True)
        if arguments.into is not None:
            arguments.into.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    if arguments.plot is not None:
        plot(figures, arguments.plot)
    print(json.dumps(figures))
    tenth, whole = (figures.get(str(records), {}).get("spark") for records in (10**7, 10**8))
    if tenth and whole and whole["seconds"] > MOST_TIMES * tenth["seconds"]:
        raise SystemExit(f"{whole['seconds']} s for 10⁸ records, more than {MOST_TIMES} × {tenth['seconds']} s")


if __name__ == "__main__":
    main()
