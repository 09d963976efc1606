"""Makes a record of runs the one that is kept beside this file, and writes the table of docs/guides/atlas.md from it.

    .venv/bin/python benchmarks/atlas_record.py RECORD

The record has no reports then: they stay where the runs are. The table says for each client and lane in how many runs
of all clusters and faults something was lost, duplicated or reordered. The last line is JSON: lanes of runs, cells, and
those of them with five runs at least.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tables import write_table

from kafka_chaos.harness.campaign.cells import COLUMNS, CellSummary
from kafka_chaos.harness.campaign.record import Cell, LaneRun, append, read_lane_runs

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "benchmarks/atlas.jsonl"
PAGE = ROOT / "docs/guides/atlas.md"
BEGIN, END = "<!-- from atlas.jsonl, by benchmarks/atlas_record.py -->", "<!-- end of atlas.jsonl -->"
ENOUGH = 5


def table(record: Sequence[LaneRun]) -> str:
    """A row for each client and lane; clusters and faults taken together."""
    lines = [
        "| client | lane | runs | lost | duplicated | reordered | longest gap, s |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in sorted(together(record), key=lambda one: (one.cell.client, one.cell.settings)):
        shares = [row.shares[name] for name in COLUMNS]
        found = [f"{share.hits} (≤ {share.most_findings:,})" if share.hits else "0" for share in shares]
        gaps = "" if row.gaps is None else f"{row.gaps[0]:.1f} – {row.gaps[2]:.1f}"
        lane = row.settings_described.replace(" · 3 replicas", "")
        lines.append(f"| {row.cell.client} | {lane} | {len(row.runs)} | {' | '.join(found)} | {gaps} |")
    return "\n".join(lines)


def together(record: Sequence[LaneRun]) -> list[CellSummary]:
    """The runs of each client and lane."""
    found: dict[Cell, list[LaneRun]] = {}
    for run in record:
        found.setdefault(Cell(run.client, "3.9.1/zookeeper", run.settings, "any"), []).append(run)
    return [CellSummary(cell, runs) for cell, runs in found.items()]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path)
    record = [replace(run, report=None) for run in read_lane_runs(parser.parse_args().record)]
    KEPT.unlink(missing_ok=True)
    append(KEPT, record)
    write_table(PAGE, BEGIN, table(record), END)
    counts = Counter(run.cell for run in record).values()
    print(json.dumps({"lanes": len(record), "cells": len(counts), "enough": sum(n >= ENOUGH for n in counts)}))


if __name__ == "__main__":
    main()
