"""How often a truncation bug that is planted in brokers becomes a violation where its faults permit the loss.

    .venv/bin/python benchmarks/planted_truncations.py [RUNS] [--minutes MINUTES]

Each run of tests/harness/run/planted/planted.yaml has lanes with the bug and, on the same brokers, lanes without it.
Runs are added to planted_truncations.json, beside this file, until the bug took effect in RUNS of them in each of its
lanes, or until so many minutes have passed; the next call continues. The table in docs/ledger.md is written from that.
Exits with 1 where a lane in which the bug took effect is no violation, or one without it does not conform.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tables import Row, add_runs, write_rows, write_table

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.ledger import Ledger
from kafka_chaos.verification.judging.result import LaneVerdict
from tests.harness.run.planted.runs import PLANTED, SOUND, planted_run

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/planted_truncations.json"
PAGE = ROOT / "docs/ledger.md"
BEGIN, END = "<!-- from benchmarks/planted_truncations.json -->", "<!-- end of planted truncations -->"


def row_of(lane: LaneVerdict, run_dir: Path) -> Row:
    """The row of one lane in the verdict. `dropped`: whether a broker says that the bug dropped records of it."""
    said = f"planted: {lane.lane}-0 ends at"
    ledger = lane.ledger
    assert isinstance(ledger, Ledger)
    assert ledger.observations is not None
    lost = lane.observed.get(Anomaly.LOST_WRITE)
    return {
        "verdict": lane.verdict.value,
        "status": lane.predicted[Anomaly.LOST_WRITE].value,
        "complete": all(one.complete for one in ledger.observations.partitions),
        "lost": lost.count if lost else 0,
        "causes": dict(lost.causes) if lost else {},
        "dropped": any(said in log.read_text(errors="replace") for log in run_dir.glob("logs/broker-*.log")),
    }


def shows(lane: Row) -> bool:
    """Whether the bug took effect: its broker may not lead again in time. The first runs noted the losses alone."""
    return lane.get("dropped", lane["lost"] > 0)


def is_good(run: Row) -> bool:
    """Whether the lanes in which the bug took effect are violations, and those without it conform."""
    lanes = run["lanes"]
    return all(lanes[name]["verdict"] == Verdict.VIOLATION for name in PLANTED if shows(lanes[name])) and all(
        lanes[name]["verdict"] == Verdict.CONFORMS for name in SOUND
    )


def fewest(rows: list[Row]) -> int:
    """In how many runs the bug took effect, of the lane in which it seldom did."""
    return min(sum(shows(row["lanes"][name]) for row in rows) for name in PLANTED)


def write(rows: list[Row]) -> None:
    """Keep the runs, and write their table."""
    write_rows(rows, RESULTS)
    lines = ["| lane | runs | as expected | loss for these faults | ISRs complete | lost records | causes noted |"]
    lines.append("|" + " --- |" * 7)
    for name in (*PLANTED, *SOUND):
        found = [row["lanes"][name] for row in rows if name in SOUND or shows(row["lanes"][name])]
        wanted = Verdict.VIOLATION if name in PLANTED else Verdict.CONFORMS
        good = sum(one["verdict"] == wanted for one in found)
        statuses = ", ".join(sorted({one["status"] for one in found}))
        complete = sum(one["complete"] for one in found)
        lost = sorted(one["lost"] for one in found)
        meant = "violation" if name in PLANTED else "conforms"
        causes = sum((Counter(one.get("causes", {})) for one in found), Counter[str]())
        noted = ", ".join(f"{cause} {count:,}" for cause, count in causes.most_common())
        lines.append(
            f"| `{name}` | {len(found)} | {good} {meant} | {statuses} | {complete} | {lost[0]:,} to {lost[-1]:,} "
            f"| {noted} |"
        )
    write_table(PAGE, BEGIN, "\n".join(lines), END)


def run(out: Path) -> Row:
    """One run below `out`."""
    verdict = planted_run(out)
    return {"lanes": {lane.lane: row_of(lane, Path(verdict.run_dir)) for lane in verdict.lanes}}


def main() -> None:
    if not all(map(is_good, add_runs(__doc__ or "", RESULTS, run, fewest, write))):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
