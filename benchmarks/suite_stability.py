"""How often `make test` is green, and how long it takes: N runs in a row, alone on the machine or beside other work.

    .venv/bin/python benchmarks/suite_stability.py N [--busy]

`--busy`: beside two processes that never rest and one that writes to the disk of the checkout. Each run adds a row to
docs/suite-stability.json, and docs/test-suite.md has the table of them. Exits with 1 if a run was not green; its output
is kept in .kafka-chaos/. The last line is JSON: runs, green runs, and the minutes of the fastest, the median and the
slowest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tables import Row, commit, read_rows, write_rows, write_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "suite-stability.json"
PAGE = ROOT / "docs" / "test-suite.md"
BEGIN, END = "<!-- suite stability: begin -->", "<!-- suite stability: end -->"
BUSY = "while True: pass"
WRITING = """
import os, sys
block = os.urandom(1 << 20)
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(256):
            file.write(block)
        os.fsync(file.fileno())
"""


@contextmanager
def beside() -> Iterator[None]:
    """Two processes that never rest, and one that writes 256 MiB to the disk again and again."""
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=ROOT / ".kafka-chaos"))
        commands = [[sys.executable, "-c", BUSY]] * 2 + [[sys.executable, "-c", WRITING, f"{scratch}/block"]]
        for command in commands:
            process = subprocess.Popen(command)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def run_once(busy: bool) -> Row:
    """The row of one run."""
    started = time.monotonic()
    done = subprocess.run(["make", "test"], cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        kept = ROOT / ".kafka-chaos" / f"suite-{time.strftime('%Y%m%d-%H%M%S')}.log"
        kept.write_bytes(done.stdout)
        print(f"not green: {kept.relative_to(ROOT)}", flush=True)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", output[-400:])}
    return {
        "commit": commit(),
        "busy": busy,
        "minutes": round((time.monotonic() - started) / 60, 2),
        "green": done.returncode == 0,
        "passed": counts.get("passed", 0),
        "failed": sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE))),
        "load": round(os.getloadavg()[2], 1),
    }


def table(rows: list[Row]) -> str:
    """A line for all runs of a commit, alone or beside other work."""
    lines = ["| commit | beside other work | runs | green | minutes: fastest, median, slowest | what failed |"]
    lines += ["| --- | --- | ---: | ---: | --- | --- |"]
    kinds: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        kinds.setdefault((row["commit"], row["busy"]), []).append(row)
    for (revision, busy), of in kinds.items():
        minutes = sorted(row["minutes"] for row in of)
        spread = f"{minutes[0]:.1f}, {statistics.median(minutes):.1f}, {minutes[-1]:.1f}"
        failed = ", ".join(sorted({name for row in of for name in row["failed"]})) or "nothing"
        green = sum(row["green"] for row in of)
        lines.append(f"| {revision} | {'yes' if busy else 'no'} | {len(of)} | {green} | {spread} | {failed} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=int)
    parser.add_argument("--busy", action="store_true", help="beside two busy loops and a writer to the same disk")
    arguments = parser.parse_args()
    now = []
    for _ in range(arguments.runs):
        with beside() if arguments.busy else ExitStack():
            now.append(run_once(arguments.busy))
        print(json.dumps(now[-1]), flush=True)
        rows = [*read_rows(RESULTS), now[-1]]
        write_rows(rows, RESULTS)
        write_table(PAGE, BEGIN, table(rows), END)
    minutes = sorted(row["minutes"] for row in now)
    green = sum(row["green"] for row in now)
    print(
        json.dumps({"runs": len(now), "green": green, "minutes": [minutes[0], statistics.median(minutes), minutes[-1]]})
    )
    raise SystemExit(green < len(now))


if __name__ == "__main__":
    main()
