"""The nightly acks matrix (16 lanes) on secured KRaft clusters, under kill, pause and partition, ten times each.

    .venv/bin/python benchmarks/secured_matrix.py [--rounds 10] [--version 4.3.1] [--faults KIND ...] [--minutes 10]

Odd rounds are with SASL_SSL, even ones with mTLS. Writes docs/secured-matrix.json and the table of docs/kraft.md as
soon as a run is measured; a run that is there is not made again. With `--minutes` it begins no run after this time.
Exits with 1 if a run does not conform.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from itertools import product, takewhile
from pathlib import Path
from typing import Any

from acks_matrix import LOSSES, run_cell
from tables import measure, read_rows, write_rows, write_table

from kafka_chaos.contract.anomalies import Verdict

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "secured-matrix.json"
PAGE = ROOT / "docs" / "kraft.md"
BEGIN, END = "<!-- table: benchmarks/secured_matrix.py -->\n", "<!-- end of the secured matrix -->\n"
FAULTS = ("kill", "pause", "partition")
LISTENERS = ("sasl_ssl", "mtls")


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each cluster and fault kind: how many of its runs conform, and what they lost."""
    lost = " | ".join(f"lost with {name}" for name in LOSSES)
    lines = [f"| cluster | fault, twice | conform | acknowledged | {lost} |", "| --- " * (4 + len(LOSSES)) + "|"]
    for cluster, fault in sorted({(row["cluster"], row["fault"]) for row in rows}):
        of_cell = [row for row in rows if (row["cluster"], row["fault"]) == (cluster, fault)]
        conform = sum(row["verdict"] == Verdict.CONFORMS for row in of_cell)
        acknowledged = sum(row.get("acknowledged", 0) for row in of_cell)
        counts = " | ".join(f"{sum(lost):,}" for lost in zip(*(row["lost"] for row in of_cell), strict=True))
        lines.append(f"| {cluster} | {fault} | {conform} of {len(of_cell)} | {acknowledged:,} | {counts} |")
    return "\n".join(lines) + "\n"


def write(rows: list[dict[str, Any]]) -> None:
    """Write the results, and replace the table of docs/kraft.md."""
    write_rows(rows, RESULTS)
    write_table(PAGE, BEGIN, table(rows), END)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--version", default="4.3.1")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    chosen = parser.parse_args()
    until = time.monotonic() + 60 * chosen.minutes
    done = {(row["cluster"], row["fault"], row["round"]) for row in read_rows(RESULTS)}
    cells = [
        (f"{chosen.version}/kraft/{LISTENERS[(number + 1) % 2]}", fault, number)
        for number, fault in product(range(1, chosen.rounds + 1), chosen.faults)
    ]
    missing = (partial(_run, *cell) for cell in cells if cell not in done)
    runs = takewhile(lambda _: time.monotonic() < until, missing)
    measure(runs, results=RESULTS, identified_by=("cluster", "fault", "round"), write=write)


def _run(cluster: str, fault: str, number: int, root: Path) -> dict[str, Any]:
    """A row with the losses in the order of `LOSSES`, and with reasons where there are some."""
    cell = run_cell(cluster, fault, root)
    row = {key: value for key, value in cell.items() if value != [] and key != "date"}
    return row | {"lost": list(cell.get("lost", dict.fromkeys(LOSSES, 0)).values()), "round": number}


if __name__ == "__main__":
    main()
