"""Where the minutes of a test run go: by level, by folder and by test, and how much of each is waiting.

    .venv/bin/python benchmarks/test_times.py [--into FILE] [PYTEST ARGUMENT ...]

Without arguments, the tests of `make test`. Tests run one by one: side by side, no figure belongs to one test. A test's
time is that of its setup, its call and its teardown; what a session's first test sets up counts there. "Waiting" is the
part of it in which no processor of this machine was busy, engine and containers included: measure on a quiet machine.
The last line is JSON: minutes and the number of tests by level. As a pytest plugin (`-p test_times`) the module records
the figures that the program prints.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

LEVELS = ("cluster", "spark")
"""The markers of what a test needs; a test with both counts as the first, one with neither as `unit`."""
SLOWEST = 50
_RECORDS = "KAFKA_CHAOS_TEST_TIMES"


class Times(NamedTuple):
    """The times of one test in seconds. `busy`: at least one processor's worth of the machine worked."""

    test: str
    level: str
    wall: float
    busy: float

    @property
    def waiting(self) -> float:
        """The seconds in which no processor was busy for it."""
        return max(0.0, self.wall - self.busy)

    @property
    def folder(self) -> str:
        """The folder of its module."""
        return self.test.partition("::")[0].rpartition("/")[0]


def _busy_seconds() -> float:
    """The seconds of all processors since the start in which they were neither idle nor waiting for a disk."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _iowait, *rest = (int(number) for number in stat.readline().split()[1:])
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the times of one test."""
    level = next((name for name in LEVELS if item.get_closest_marker(name)), "unit")
    started, busy = time.monotonic(), _busy_seconds()
    try:
        return (yield)
    finally:
        times = Times(item.nodeid, level, time.monotonic() - started, _busy_seconds() - busy)
        if _RECORDS in os.environ:
            with open(os.environ[_RECORDS], "a") as records:
                records.write(json.dumps(times) + "\n")


def _sums(groups: dict[str, list[Times]], title: str) -> Iterator[str]:
    yield f"| {title} | tests | minutes | of it waiting |"
    yield "| --- | ---: | ---: | ---: |"
    for name, times in sorted(groups.items(), key=lambda item: -sum(one.wall for one in item[1])):
        wall, waiting = sum(one.wall for one in times), sum(one.waiting for one in times)
        yield f"| {name} | {len(times)} | {wall / 60:.2f} | {waiting / max(wall, 1e-9):.0%} |"
    yield ""


def tables(measured: Iterable[Times]) -> Iterator[str]:
    """The tables in Markdown, line by line."""
    measured = list(measured)
    by_level: dict[str, list[Times]] = defaultdict(list)
    by_folder: dict[str, list[Times]] = defaultdict(list)
    for one in measured:
        by_level[one.level].append(one)
        by_folder[one.folder].append(one)
    yield from _sums(by_level, "level")
    yield from _sums(by_folder, "folder")
    yield f"| the {SLOWEST} slowest tests | level | seconds | of it waiting |"
    yield "| --- | --- | ---: | ---: |"
    for one in sorted(measured, key=lambda one: -one.wall)[:SLOWEST]:
        yield f"| {one.test} | {one.level} | {one.wall:.1f} | {one.waiting / max(one.wall, 1e-9):.0%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--into", type=Path, help="a file for the tables; by default they are printed")
    arguments, of_pytest = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-benchmark-") as scratch:
        records = Path(scratch) / "times"
        command = (sys.executable, "-m", "pytest", "-p", "test_times", *(of_pytest or ("-m", "not slow")))
        code = subprocess.run(command, env={**os.environ, _RECORDS: str(records)}, check=False).returncode
        measured = [Times(*json.loads(line)) for line in records.read_text().splitlines()]
    text = "\n".join(tables(measured)) + "\n"
    if arguments.into:
        arguments.into.write_text(text)
    else:
        print(text)
    levels: dict[str, dict[str, float]] = {}
    for one in measured:
        level = levels.setdefault(one.level, {"tests": 0, "minutes": 0.0})
        level["tests"] += 1
        level["minutes"] += one.wall / 60
    print(json.dumps({name: {key: round(number, 2) for key, number in of.items()} for name, of in levels.items()}))
    raise SystemExit(code)


if __name__ == "__main__":
    main()
