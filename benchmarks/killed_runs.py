"""Counts leftovers of runs that were killed with SIGKILL at random moments, after `kafka-chaos clean`.

    .venv/bin/python benchmarks/killed_runs.py [RUNS] [--seed SEED]

A disk of a broker is frozen for most of each run, and every other run is killed while it is. Then `clean` has to end
within a minute. Mounts, loop devices, containers, networks, images of disks and journals are counted, and the run's
history is read. The last line is JSON; it is added to docs/killed-runs.json, and the table in docs/performance.md is
written from that. Exits with 1 if something is left or can't be read. Measures nothing where this machine can't do
storage faults, and says why.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from leftovers import left_of
from tables import COMMAND, Row, read_rows, write_rows, write_table

from kafka_chaos.faults.storage.disks import why_no_disks

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/killed-runs.json"
PAGE = ROOT / "docs/performance.md"
TABLE_BEGINS = "<!-- from docs/killed-runs.json, by benchmarks/killed_runs.py -->"
TABLE_ENDS = "<!-- end of killed runs -->"
FROZEN_SECONDS = 6.0
RUN_SECONDS = 25.0
CLEAN_TIMEOUT = 60.0
EXPERIMENT = f"""
name: killed
workload: {{rate: 500, duration: {FROZEN_SECONDS + 2}}}
lanes:
  - {{lane: acks1, acks: "1", leader: 1}}
  - {{lane: idempotent, acks: all, min_insync_replicas: 2, idempotence: true, leader: 1, partitions: 2}}
schedule:
  - {{fault: freeze-disk, target: leader(acks1), at: 0.5, duration: {FROZEN_SECONDS}}}
"""
MOST_FAILED = 3


class RunEndedError(Exception):
    """A run ended by itself before its moment came, such as on a machine that was too busy for its cluster."""


def kill_a_run(out: Path, moment: float, *, while_frozen: bool) -> tuple[Path, bool]:
    """Start a run and kill it `moment` seconds after it began, or after a disk froze: its directory, whether frozen."""
    experiment = out / "killed.yaml"
    experiment.write_text(EXPERIMENT)
    command = [*COMMAND, "run", str(experiment), "--out", str(out), "--json"]
    # Events go to a file: nobody reads a pipe while this waits.
    events = out / "printed.jsonl"
    with events.open("w") as printed:
        run = subprocess.Popen(command, stdout=printed, start_new_session=True)
        try:
            await_event(events, "run_started", run)
            if while_frozen:
                await_event(events, "fault_proven", run)
            time.sleep(moment)
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
    names = [event["type"] for event in read_events(events)]
    (directory,) = (path for path in out.iterdir() if path.is_dir() and not path.is_symlink())
    return directory, "fault_proven" in names and "fault_healed" not in names


def await_event(path: Path, kind: str, run: subprocess.Popen[bytes]) -> None:
    while not any(event["type"] == kind for event in read_events(path)):
        if run.poll() is not None:
            raise RunEndedError(f"the run ended with {run.returncode} before {kind}")
        time.sleep(0.05)


def read_events(path: Path) -> Iterator[dict[str, object]]:
    """The events of a file whose last line may be torn."""
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            event = json.loads(line)
            if "type" in event:
                yield event


def history_rows(run: Path) -> int | None:
    """How many rows of the run's history can be read; None where a file can't."""
    try:
        list(read_events(run / "events.jsonl"))
        return sum(pq.read_table(path).num_rows for path in run.glob("*/**/*.parquet") if not path.name.startswith("."))
    except (OSError, ValueError, pa.ArrowException) as error:
        print(f"unreadable: {error}", flush=True)
        return None


def kill_runs(number: int, seed: int) -> Row:
    """Kill so many runs, and tell what came out. For one that ends by itself another is killed."""
    moments, left, frozen, unreadable, rows, slowest = random.Random(seed), Counter[str](), 0, 0, 0, 0.0
    killed = failed = 0
    while killed < number:
        while_frozen = killed % 2 == 0
        moment = moments.uniform(0, FROZEN_SECONDS - 1 if while_frozen else RUN_SECONDS)
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-killed-") as folder:
            try:
                run, was_frozen = kill_a_run(Path(folder), moment, while_frozen=while_frozen)
            except RunEndedError as ended:
                print(ended, flush=True)
                failed += 1
                if failed > MOST_FAILED:
                    raise
                continue
            killed += 1
            started = time.monotonic()
            subprocess.run([*COMMAND, "clean"], check=True, timeout=CLEAN_TIMEOUT, stdout=subprocess.DEVNULL)
            seconds = time.monotonic() - started
            found, read = left_of(run.name, run.glob("disks*")), history_rows(run)
        state = "with a frozen disk" if was_frozen else "without"
        print(f"killed {moment:.1f} s in, {state}: cleaned in {seconds:.1f} s, left {dict(found) or 'nothing'}; "
              f"{read if read is None else f'{read:,}'} rows readable", flush=True)  # fmt: skip
        left, frozen, unreadable = left + found, frozen + was_frozen, unreadable + (read is None)
        rows, slowest = rows + (read or 0), max(slowest, seconds)
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seed": seed,
        "killed": number,
        "while_frozen": frozen,
        "left": dict(left),
        "unreadable": unreadable,
        "rows": rows,
        "slowest_clean_seconds": round(slowest, 1),
    }


def table(rows: Sequence[Row]) -> str:
    """The totals of all runs."""
    killed, frozen, unreadable, read = (
        sum(row[field] for row in rows) for field in ("killed", "while_frozen", "unreadable", "rows")
    )
    left = sum(sum(row["left"].values()) for row in rows)
    slowest = max(row["slowest_clean_seconds"] for row in rows)
    return "\n".join(
        [
            "| killed | with a frozen disk | left behind | histories not readable | rows read back | slowest clean |",
            "| --- | --- | --- | --- | --- | --- |",
            f"| {killed} | {frozen} | {left} | {unreadable} | {read:,} | {slowest:.1f} s |",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=int, nargs="?", default=6)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    arguments = parser.parse_args()
    if (lacking := why_no_disks()) is not None:
        print(f"not measured: {lacking}")
        return
    row = kill_runs(arguments.runs, arguments.seed)
    rows = [*read_rows(RESULTS), row]
    write_rows(rows, RESULTS)
    write_table(PAGE, TABLE_BEGINS, table(rows), TABLE_ENDS)
    print(json.dumps(row))
    sys.exit(bool(row["left"] or row["unreadable"]))


if __name__ == "__main__":
    main()
