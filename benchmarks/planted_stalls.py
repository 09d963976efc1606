"""How often a stall that is planted in brokers or in a client becomes a violation of the promise that it breaks.

    .venv/bin/python benchmarks/planted_stalls.py [RUNS] [--minutes MINUTES]

Each run of tests/harness/run/planted/stalls.yaml has three lanes that stall, and one that does not. Runs are added to
planted_stalls.json, beside this file, until there are RUNS of them, or so many minutes have passed; the next call
continues. The table in docs/decisions/0052-recovery.md is written from that. Exits with 1 where a lane that stalls is
no violation by its own anomaly, or the other one does not conform.
"""

from __future__ import annotations

from pathlib import Path

from tables import Row, add_runs, write_rows, write_table

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.ledger import Ledger
from kafka_chaos.verification.judging.result import LaneVerdict
from tests.harness.run.planted.stalls import SOUND, STALLS, run_with_stalls

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/planted_stalls.json"
PAGE = ROOT / "docs/decisions/0052-recovery.md"
BEGIN, END = "<!-- from benchmarks/planted_stalls.json -->", "<!-- end of planted stalls -->"


def row_of(lane: LaneVerdict) -> Row:
    """A lane's verdict, and of each promise the longest outage and its bound in seconds."""
    ledger = lane.ledger
    assert isinstance(ledger, Ledger)
    found = {one.anomaly: [one.longest_s, one.bound_s] for one in ledger.recovery}
    broken = [anomaly for anomaly in found if lane.count(anomaly)]
    return {"verdict": lane.verdict, "broken": broken, "outages": found}


def is_good(name: str, lane: Row) -> bool:
    """Whether a lane is what was planted in it."""
    if name == SOUND:
        return bool(lane["verdict"] == Verdict.CONFORMS)
    return lane["verdict"] == Verdict.VIOLATION and STALLS[name] in lane["broken"]


def write(rows: list[Row]) -> None:
    """Keep the runs, and write their table."""
    write_rows(rows, RESULTS)
    lines = ["| lane | runs | as expected | longest outage, s | bound, s |", "| --- | ---: | --- | --- | --- |"]
    for name in (*STALLS, SOUND):
        lanes = [row["lanes"][name] for row in rows]
        wanted = "conforms" if name == SOUND else f"violation by `{STALLS[name]}`"
        outages = [one["outages"][STALLS[name]] for one in lanes] if name in STALLS else []
        spread = [f"{min(one):g} to {max(one):g}" for one in zip(*outages, strict=True)] or ["", ""]
        good = sum(is_good(name, one) for one in lanes)
        lines.append(f"| `{name}` | {len(lanes)} | {good} {wanted} | {spread[0]} | {spread[1]} |")
    write_table(PAGE, BEGIN, "\n".join(lines), END)


def run(out: Path) -> Row:
    """One run below `out`."""
    return {"lanes": {lane.lane: row_of(lane) for lane in run_with_stalls(out).lanes}}


def main() -> None:
    rows = add_runs(__doc__ or "", RESULTS, run, len, write)
    if not all(is_good(name, lane) for row in rows for name, lane in row["lanes"].items()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
