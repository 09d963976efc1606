"""How long after its time in the schedule a fault is applied, from the events of runs.

    .venv/bin/kafka-chaos run benchmarks/fault-times.yaml
    .venv/bin/python benchmarks/fault_times.py runs/*

Counts every timed fault that was proven: its injection was done, as the clock of the events tells, so many milliseconds
after the schedule asked for it. The last line is JSON: the median per kind. Exits with 1 if the median of all kills,
pauses and cuts is over 150 ms.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

MOST_MILLISECONDS = 150.0
AT_ONCE = ("kill", "pause", "partition", "isolate", "packet-loss")
"""Kinds that are applied at once; a controlled shutdown takes as long as the broker needs."""


def delays(run: Path) -> Iterator[tuple[str, float]]:
    """Kind and delay in milliseconds of each timed fault of a run."""
    requested: dict[str, tuple[str, float]] = {}
    for line in (run / "events.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["type"] == "fault_requested" and event.get("late") is not None:
            requested[event["fault_id"]] = (event["kind"], event["ts_ns"] - event["late"] * 1e9)
        if event["type"] == "fault_proven" and event["fault_id"] in requested and event.get("applied_ns"):
            kind, due_ns = requested[event["fault_id"]]
            yield kind, (event["applied_ns"] - due_ns) / 1e6


def at_once(by_kind: Mapping[str, Sequence[float]]) -> list[float]:
    """Of all delays by kind, those of kinds that are applied at once."""
    return [delay for kind in AT_ONCE for delay in by_kind.get(kind, ())]


def main() -> None:
    by_kind: dict[str, list[float]] = defaultdict(list)
    for folder in map(Path, sys.argv[1:]):
        # `latest` names one of the others.
        if not folder.is_symlink() and (folder / "events.jsonl").is_file():
            for kind, delay in delays(folder):
                by_kind[kind].append(delay)
    if not by_kind:
        sys.exit("no timed faults: expected run directories as arguments")
    for kind, found in sorted(by_kind.items()):
        print(f"{kind:12} {len(found):4} faults, median {statistics.median(found):6.0f} ms, most {max(found):6.0f} ms")
    print(json.dumps({kind: round(statistics.median(found), 1) for kind, found in sorted(by_kind.items())}))
    immediate = at_once(by_kind)
    sys.exit(bool(immediate) and statistics.median(immediate) > MOST_MILLISECONDS)


if __name__ == "__main__":
    main()
