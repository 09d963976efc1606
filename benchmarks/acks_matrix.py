"""The nightly acks matrix (16 lanes) under each of its fault kinds, on clusters of several versions and modes.

    .venv/bin/python benchmarks/acks_matrix.py [--on VERSION/MODE ...] [--faults KIND ...]

Runs experiments/nightly/KIND.yaml with the cluster exchanged. Writes docs/acks-matrix.json and the table of
docs/versions.md as soon as a line is measured; lines that are not chosen stay. Exits with 1 if a run does not conform.
"""

from __future__ import annotations

import argparse
import re
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from tables import MODES, measure, write_rows, write_table

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.verification.judging.result import LaneVerdict

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "acks-matrix.json"
PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- table: benchmarks/acks_matrix.py -->\n", "<!-- end of the acks matrix -->\n"
FAULTS = ("kill", "stop", "pause", "partition")
LOSSES = {
    "acks0": re.compile("acks0"),
    "acks1": re.compile("acks1"),
    "all, min 1": re.compile("all.*min1"),
    "all, min 2": re.compile("all.*min2"),
}
"""The columns of the table, and the names of the lanes that each counts."""
CLUSTERS = ("3.9.1/zookeeper", "3.9.1/kraft", "4.2.0/kraft")


def run_cell(cluster: str, fault: str, root: Path) -> dict[str, Any]:
    """One run: its verdict, and how many records were lost by acks setting. `cluster`: VERSION/MODE[/SECURITY]."""
    version, mode, *security = cluster.split("/")
    values = YAML(typ="safe").load(ROOT / "experiments" / "nightly" / f"{fault}.yaml")
    values["cluster"] = {
        "kafka_version": version,
        "metadata_mode": mode,
        **({"security": security[0]} if security else {}),
    }
    row: dict[str, Any] = {"cluster": cluster, "fault": fault, "date": time.strftime("%Y-%m-%d")}
    try:
        result = run_experiment(experiment_of(values, f"{fault}.yaml"), root=root)
    except KafkaChaosError as error:
        return row | {"verdict": str(Verdict.UNKNOWN), "reasons": [str(error).partition("\n")[0]]}
    lanes = result.verdict.lanes
    return row | {
        "verdict": str(result.verdict.verdict),
        "acknowledged": sum(lane.acknowledged for lane in lanes),
        "lost": {name: sum(_lost(lane) for lane in lanes if of.match(lane.lane)) for name, of in LOSSES.items()},
        "reasons": [f"{lane.lane}: {reason}" for lane in lanes for reason in lane.reasons],
    }


def _lost(lane: LaneVerdict) -> int:
    return lane.count(Anomaly.LOST_WRITE) or 0


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table in Markdown: a line per cluster and fault kind."""
    lost = "lost with acks=0 | acks=1 | acks=all, min 1 | acks=all, min 2"
    head = f"| cluster | fault, twice | verdict | acknowledged | {lost} |"
    lines = [head, "| --- " * 8 + "|"]
    order = {(cluster, fault): (at, place) for at, cluster in enumerate(CLUSTERS) for place, fault in enumerate(FAULTS)}
    for row in sorted(rows, key=lambda row: order.get((row["cluster"], row["fault"]), (9, 9))):
        counts = " | ".join(f"{count:,}" for count in row.get("lost", {}).values()) or "– | – | – | –"
        acknowledged = f"{row['acknowledged']:,}" if "acknowledged" in row else "–"
        version, mode = row["cluster"].split("/")
        lines.append(f"| {version}, {MODES[mode]} | {row['fault']} | {row['verdict']} | {acknowledged} | {counts} |")
    return "\n".join(lines) + "\n"


def write(rows: list[dict[str, Any]]) -> None:
    """Write the results, and replace the table of docs/versions.md."""
    write_rows(rows, RESULTS)
    write_table(PAGE, BEGIN, table(rows), END)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", nargs="+", default=CLUSTERS, metavar="VERSION/MODE")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    chosen = parser.parse_args()
    cells = (partial(run_cell, cluster, fault) for cluster, fault in product(chosen.on, chosen.faults))
    measure(cells, results=RESULTS, identified_by=("cluster", "fault"), write=write)


if __name__ == "__main__":
    main()
