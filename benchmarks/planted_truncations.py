"""How often a truncation bug that is planted in brokers becomes a violation where its faults permit the loss.

    .venv/bin/python benchmarks/planted_truncations.py [RUNS] [--minutes MINUTES]

Each run of tests/harness/run/planted/planted.yaml has lanes with the bug and, on the same brokers, lanes without it.
Runs are added to docs/planted-truncations.json until there are RUNS of them, or until so many minutes have passed; the
next call continues. The table in docs/ledger.md is written from that. Exits with 1 where a lane with the bug
conforms, or one without it does not.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from tables import Row, read_rows, write_rows, write_table

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.ledger import Ledger
from kafka_chaos.verification.judging.result import LaneVerdict
from tests.harness.run.planted.runs import PLANTED, SOUND, planted_run

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/planted-truncations.json"
PAGE = ROOT / "docs/ledger.md"
BEGIN, END = "<!-- from docs/planted-truncations.json -->", "<!-- end of planted truncations -->"


def row_of(lane: LaneVerdict) -> Row:
    """The row of one lane in the verdict."""
    ledger = lane.ledger
    assert isinstance(ledger, Ledger)
    assert ledger.observations is not None
    lost = lane.observed.get(Anomaly.LOST_WRITE)
    return {
        "verdict": lane.verdict.value,
        "status": lane.predicted[Anomaly.LOST_WRITE].value,
        "complete": all(one.complete for one in ledger.observations.partitions),
        "lost": lost.count if lost else 0,
    }


def is_good(run: Row) -> bool:
    """Whether the lanes with the bug are violations, and those without it conform."""
    wanted = dict.fromkeys(PLANTED, Verdict.VIOLATION) | dict.fromkeys(SOUND, Verdict.CONFORMS)
    return all(run["lanes"][name]["verdict"] == verdict for name, verdict in wanted.items())


def write(rows: list[Row]) -> None:
    """Keep the runs, and write their table."""
    write_rows(rows, RESULTS)
    lines = ["| lane | runs | as expected | loss for these faults | ISRs complete | lost records |", "|" + " --- |" * 6]
    for name in (*PLANTED, *SOUND):
        found = [row["lanes"][name] for row in rows]
        wanted = Verdict.VIOLATION if name in PLANTED else Verdict.CONFORMS
        good = sum(one["verdict"] == wanted for one in found)
        statuses = ", ".join(sorted({one["status"] for one in found}))
        complete = sum(one["complete"] for one in found)
        lost = sorted(one["lost"] for one in found)
        meant = "violation" if name in PLANTED else "conforms"
        lines.append(
            f"| `{name}` | {len(found)} | {good} {meant} | {statuses} | {complete} | {lost[0]:,} to {lost[-1]:,} |"
        )
    write_table(PAGE, BEGIN, "\n".join(lines), END)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("runs", nargs="?", type=int, default=20)
    arguments.add_argument("--minutes", type=float, default=60.0)
    asked = arguments.parse_args()
    rows, started = read_rows(RESULTS), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-planted-") as scratch:
        while len(rows) < asked.runs and time.monotonic() - started < 60 * asked.minutes:
            begun = time.monotonic()
            verdict = planted_run(Path(scratch))
            lanes = {lane.lane: row_of(lane) for lane in verdict.lanes}
            rows.append({"seconds": round(time.monotonic() - begun, 1), "lanes": lanes})
            print(json.dumps(rows[-1]), flush=True)
            write(rows)
    if not all(map(is_good, rows)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
