"""The lanes whose promise depends on the version of Kafka: what is predicted, and what brokers of each version show.

    .venv/bin/python benchmarks/version_differences.py [--on VERSION/MODE ...] [--experiments NAME ...]

Runs experiments/versions/NAME.yaml with the cluster exchanged. Writes docs/version-differences.json and the tables of
docs/versions.md as soon as a run has ended; runs that are not chosen stay. Needs root: power is lost on loop mounts.
Exits with 1 if a run does not conform.
"""

from __future__ import annotations

import argparse
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
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.verification.judging.result import LaneVerdict

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "version-differences.json"
PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- table: benchmarks/version_differences.py {} -->\n", "<!-- end of {} -->\n"
EXPERIMENTS = ("below-minimum", "last-member")
NOTHING = ["forbidden", 0]
"""The usual status and count of an anomaly, which the results leave out."""
CLUSTERS = ("2.8.2/zookeeper", "3.6.2/zookeeper", "3.6.2/kraft", "3.9.1/zookeeper", "3.9.1/kraft", "4.2.0/kraft")


def experiment(name: str, cluster: str) -> Experiment:
    """An experiment on a cluster; in KRaft mode it has a controller that is no broker."""
    version, mode = cluster.split("/")
    values = YAML(typ="safe").load(ROOT / "experiments" / "versions" / f"{name}.yaml")
    values["cluster"] = {"kafka_version": version, "metadata_mode": mode, "controllers": int(mode == "kraft")}
    return experiment_of(values, f"{name}.yaml")


def run(name: str, cluster: str, root: Path) -> dict[str, Any]:
    """One run: its verdict, and for each lane and anomaly the predicted status and what was found."""
    row: dict[str, Any] = {"experiment": name, "cluster": cluster, "date": time.strftime("%Y-%m-%d")}
    try:
        result = run_experiment(experiment(name, cluster), root=root)
    except KafkaChaosError as error:
        return row | {"verdict": str(Verdict.UNKNOWN), "reasons": [str(error).partition("\n")[0]], "lanes": {}}
    lanes = result.verdict.lanes
    return row | {
        "verdict": str(result.verdict.verdict),
        "reasons": [f"{lane.lane}: {reason}" for lane in lanes for reason in lane.reasons],
        "lanes": {lane.lane: _found(lane) for lane in lanes},
    }


def _found(lane: LaneVerdict) -> dict[str, list[Any]]:
    found = {str(anomaly): [str(lane.predicted[anomaly]), lane.count(anomaly)] for anomaly in Anomaly}
    return {anomaly: cell for anomaly, cell in found.items() if cell != NOTHING}


def table(rows: list[dict[str, Any]], name: str) -> str:
    """The runs of an experiment as a table in Markdown: a line for each lane and anomaly whose status differs."""
    found = {row["cluster"]: row["lanes"] for row in rows if row["experiment"] == name and row["lanes"]}
    clusters = [cluster for cluster in CLUSTERS if cluster in found]
    heads = [f"{version}, {MODES[mode]}" for version, mode in (cluster.split("/") for cluster in clusters)]
    lines = [f"| lane | anomaly | {' | '.join(heads)} |", "| --- " * (2 + len(clusters)) + "|"]
    for lane in experiment(name, CLUSTERS[-1]).phases[0].lanes:
        for anomaly in Anomaly:
            cells = [found[cluster][lane.lane].get(anomaly, NOTHING) for cluster in clusters]
            if len({status for status, _ in cells}) > 1:
                lines.append(f"| {lane.lane} | `{anomaly}` | {' | '.join(_cell(*cell) for cell in cells)} |")
    verdicts = {row["cluster"]: row["verdict"] for row in rows if row["experiment"] == name}
    lines.append(f"| all | verdict | {' | '.join(verdicts[cluster] for cluster in clusters)} |")
    return "\n".join(lines) + "\n"


def _cell(status: str, count: int | None) -> str:
    seen = "not judged" if count is None else f"{count:,}"
    return f"**{status}: {seen}**" if count else f"{status}: {seen}"


def write(rows: list[dict[str, Any]]) -> None:
    """Write the results, and replace the tables of docs/versions.md."""
    write_rows(rows, RESULTS)
    for name in EXPERIMENTS:
        write_table(PAGE, BEGIN.format(name), table(rows, name), END.format(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", nargs="+", choices=CLUSTERS, default=CLUSTERS, metavar="VERSION/MODE")
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS, metavar="NAME")
    chosen = parser.parse_args()
    runs = (partial(run, name, cluster) for cluster, name in product(chosen.on, chosen.experiments))
    measure(runs, results=RESULTS, identified_by=("cluster", "experiment"), write=write)


if __name__ == "__main__":
    main()
