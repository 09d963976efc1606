"""Random schedules of faults on real brokers: what they showed that predictions forbid, and what they left behind.

    .venv/bin/python benchmarks/random_schedules.py [RUNS] [--seed SEED] [--on VERSION/MODE]

Each run draws two faults from all kinds that this machine and the metadata mode have, and what was tried least, by all
runs on record, is drawn most often; eight lanes from acks=0 to idempotence live through them. Runs share a cluster as
long as it stays whole. What came out is added to docs/random-schedules.json, and the tables in docs/performance.md are
written from it: the verdicts, what findings were explained by, how near outages came to the bounds of recovery, and how
long after its time each fault was applied. Runs that do not conform keep their directories in runs/random-schedules.
Exits with 1 if a run is a violation or leaves something behind.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fault_times import AT_ONCE, at_once, delays
from leftovers import left_of
from tables import MODES, Row, commit, read_rows, write_rows, write_table

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.families import Cause
from kafka_chaos.contract.lane.metadata import KRAFT, ZOOKEEPER
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.nightly.nightly_run import Nightly
from kafka_chaos.harness.nightly.summary import Summary
from kafka_chaos.harness.replay.hunting import Hunt
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/random-schedules.json"
PAGE = ROOT / "docs/performance.md"
TABLE_BEGINS = "<!-- from docs/random-schedules.json, by benchmarks/random_schedules.py -->"
TABLE_ENDS = "<!-- end of random schedules -->"
EVIDENCE_BEGINS = "<!-- evidence, from docs/random-schedules.json, by benchmarks/random_schedules.py -->"
EVIDENCE_ENDS = "<!-- end of evidence -->"
TIMES_BEGIN = "<!-- fault times, from docs/random-schedules.json, by benchmarks/random_schedules.py -->"
TIMES_END = "<!-- end of fault times -->"
KEPT = ROOT / "runs/random-schedules"
FEW_REQUESTS = {"linger.ms": 20}
"""A thread of librdkafka (2.16.0) spins while records wait and as many requests are under way as idempotence allows: on
a busy machine three such producers took most of a core."""
IDEMPOTENT: dict[str, Any] = {"acks": "all", "idempotence": True, "producer_configs": FEW_REQUESTS}
LANES: tuple[dict[str, Any], ...] = (
    {"lane": "acks0", "acks": "0", "min_insync_replicas": 2},
    {"lane": "acks1", "acks": "1", "min_insync_replicas": 2},
    {"lane": "acks1-unclean", "acks": "1", "unclean_leader_election": True},
    {"lane": "all", "acks": "all", "min_insync_replicas": 2},
    {"lane": "all-min1", "acks": "all"},
    {"lane": "idempotent", **IDEMPOTENT, "min_insync_replicas": 2},
    {"lane": "idempotent-min1", **IDEMPOTENT},
    {"lane": "unclean", **IDEMPOTENT, "unclean_leader_election": True},
)
MOST_LOAD = 4.0
"""Processes per core that wait for it, at most, where a batch has the machine for itself."""
NEEDS_THE_CONTROLLER = "controller-move"
"""A kind with one possible target, which random targets seldom are."""
Delays = dict[str, list[float]]
"""By kind of fault, how many milliseconds after its time each was applied."""
TARGETS = ("leader(all)", "leader(acks1-unclean)", "follower(all)", "follower(idempotent)", "random")


def experiment_values(version: str, mode: str) -> dict[str, Any]:
    """The experiment whose schedules are drawn; with controllers of their own, so that no fault stops most of them."""
    cluster: dict[str, Any] = {"kafka_version": version, "metadata_mode": mode}
    if mode == KRAFT:
        cluster["controllers"] = 3
    values = {
        "name": "random-schedules",
        "cluster": cluster,
        "workload": {"rate": 300, "duration": 25},
        # A broker that leads nothing has no leadership to transfer.
        "lanes": [{**lane, "leader": 1 + number % 3} for number, lane in enumerate(LANES)],
    }
    generate = {
        "faults": [kind for kind in fault_kinds() if kind != NEEDS_THE_CONTROLLER and is_possible(values, kind)],
        "targets": list(TARGETS),
        "count": 2,
        "duration": [2, 7],
        "breaks": "one",
        "quiet_end": 6,
    }
    return {**values, "schedule": {"generate": generate}}


def is_possible(values: dict[str, Any], kind: str) -> bool:
    """Whether a cluster like this, and this machine, have the fault kind, at every target."""
    schedule = [
        {"fault": kind, "target": target, "at": 2 + 8 * number, "duration": 2} for number, target in enumerate(TARGETS)
    ]
    try:
        experiment_of({**values, "workload": {"duration": 60}, "schedule": schedule}, "random schedules")
    except UsageFailure:
        return False
    return fault_kinds()[kind].unavailable() is None


@dataclass
class Seen:
    """What the runs of a batch showed: how late faults were, the findings by cause, those without one by lane, and
    by anomaly of recovery the lanes that were judged, and the largest share of a bound that an outage took."""

    late: Delays = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)
    unobserved: Counter[str] = field(default_factory=Counter)
    recovered: Counter[str] = field(default_factory=Counter)
    nearest: dict[str, float] = field(default_factory=dict)

    def add(self, result: RunResult) -> None:
        """Note what one more run showed."""
        for kind, delay in delays(result.path):
            self.late.setdefault(kind, []).append(round(delay, 1))
        for lane in result.verdict.lanes:
            for found in lane.observed.values():
                self.causes.update(found.causes)
                self.unobserved[lane.lane] += found.causes.get(Cause.UNOBSERVED, 0)
            for one in (lane.ledger and lane.ledger.recovery) or ():
                self.recovered[one.anomaly] += 1
                share = round(one.longest_s / one.bound_s, 2)
                self.nearest[one.anomaly] = max(share, self.nearest.get(one.anomaly, 0.0))


def run_and_tidy(
    hunt: Hunt, seen: Seen, experiment: Experiment, root: Path, listeners: Sequence[Listener]
) -> RunResult:
    """Run an experiment of the hunt, note what it showed, and keep only what has to be looked at."""
    result = hunt.run(experiment, root, listeners)
    seen.add(result)
    if result.verdict.verdict is Verdict.CONFORMS:
        shutil.rmtree(result.path)
    return result


def tried(rows: Sequence[Row]) -> Counter[str]:
    """How often each kind of fault took effect."""
    return sum((Counter(row["faults"]) for row in rows), Counter[str]())


def run_schedules(version: str, mode: str, runs: int, seed: int, before: Counter[str]) -> Row:
    """Run so many schedules, and tell what came out. `before`: how often each kind was tried already."""
    values = experiment_values(version, mode)
    seen = Seen()
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-schedules-") as folder:
        path = Path(folder, "random-schedules.yaml")
        path.write_text(json.dumps(values))
        with ClusterOfRuns("hunt") as clusters:
            hunt = Hunt.of(path, clusters.run)
            hunt.tried.update(before)
            nightly = Nightly(
                experiments=[path],
                out=KEPT,
                minutes=10**6,
                seed=seed,
                repeats=runs,
                say=lambda text: print(text, flush=True),
                run_one=lambda experiment, root, listeners: run_and_tidy(hunt, seen, experiment, root, listeners),
                load=hunt.draw,
            )
            summary = nightly.run()
    left = sum(
        (left_of(cluster, [Path(tempfile.gettempdir(), f"kafka-chaos-disks-{cluster}")]) for cluster in clusters.ids),
        Counter[str](),
    )
    not_conforming = [
        {
            "seed": run.seed,
            "verdict": str(run.verdict or "failed"),
            "why": (run.error or "").splitlines()[:1]
            if run.run_dir is None
            else reasons_in(nightly.folder / run.run_dir),
        }
        for run in summary.runs
        if run.verdict is not Verdict.CONFORMS
    ]
    load = round(os.getloadavg()[2], 1)
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit(),
        "cluster": f"{version}/{mode}",
        "seed": seed,
        "runs": len(summary.runs),
        "conform": len(summary.runs) - len(not_conforming),
        "others": not_conforming,
        "faults": {name: count for name, count in (hunt.tried - before).items() if name in fault_kinds()},
        "milliseconds late": dict(sorted(seen.late.items())) if has_the_machine(load) else {},
        "causes": dict(seen.causes),
        "unobserved": dict(+seen.unobserved),
        "recovery judged": dict(seen.recovered),
        "most of a bound": seen.nearest,
        "load average": load,
        "permitted and shown": shown(summary),
        "left": dict(left),
        "minutes": round(summary.seconds / 60, 1),
    }


def reasons_in(run: Path) -> list[str]:
    """The reasons of the lanes' verdicts, each once, with the lanes that it is one of."""
    of: dict[str, list[str]] = {}
    for lane in json.loads((run / "verdict.json").read_text())["lanes"]:
        for reason in lane["reasons"]:
            of.setdefault(reason, []).append(lane["lane"])
    return [f"{', '.join(lanes)}: {reason}" for reason, lanes in of.items()]


def shown(summary: Summary) -> dict[str, int]:
    """In how many lanes of all runs each anomaly was shown that its prediction permits."""
    counts: Counter[str] = Counter()
    for lane in summary.lanes:
        for name, count in lane.anomalies.items():
            counts[name] += count.hits
    return dict(+counts)


def table(rows: Sequence[Row]) -> str:
    """Of each cluster, what all its runs came to."""
    lines = [
        "| cluster | schedules | faults | conform | violations | no verdict | left behind | shown, as permitted |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cluster in sorted({row["cluster"] for row in rows}):
        version, mode = cluster.split("/")
        mine = [row for row in rows if row["cluster"] == cluster]
        violations = sum(other["verdict"] == Verdict.VIOLATION for row in mine for other in row["others"])
        faults = tried(mine)
        left = sum(sum(row["left"].values()) for row in mine)
        others = sum(len(row["others"]) for row in mine)
        seen = sum((Counter(row["permitted and shown"]) for row in mine), Counter[str]())
        lines.append(
            f"| {version}, {MODES[mode]} | {total(mine, 'runs')} | {faults.total()}, of {len(faults)} kinds "
            f"| {total(mine, 'conform')} | {violations} | {others - violations} | {left} "
            f"| {', '.join(f'{name} {count}' for name, count in seen.most_common())} |"
        )
    return "\n".join(lines)


def table_of_evidence(rows: Sequence[Row]) -> str:
    """Of the runs whose findings and recovery were noted: findings by cause, and how near outages came to bounds."""
    noted = [row for row in rows if "causes" in row]
    if not noted:
        return "No batch on record noted them yet."
    runs, conform = total(noted, "runs"), total(noted, "conform")
    causes = sum((Counter(row["causes"]) for row in noted), Counter[str]())
    judged = sum((Counter(row["recovery judged"]) for row in noted), Counter[str]())
    unobserved = sum((Counter(row.get("unobserved", {})) for row in noted), Counter[str]())
    of_lanes = ", ".join(f"`{name}` {count:,}" for name, count in unobserved.most_common())
    most = {name: max(row["most of a bound"].get(name, 0.0) for row in noted) for name in judged}
    lines = [
        f"{runs} schedules, {conform} of which conform.",
        "",
        "| cause | lost, moved, duplicated and overtaken records |",
        "| --- | ---: |",
        *(f"| `{name}` | {count:,} |" for name, count in causes.most_common()),
        "",
        f"`{Cause.UNOBSERVED}` by lane, of those that were noted: {of_lanes}.",
        "",
        "| promise of recovery | lanes judged | most of its bound that an outage took |",
        "| --- | ---: | ---: |",
        *(f"| `{name}` | {count:,} | {most[name]:.0%} |" for name, count in judged.most_common()),
    ]
    return "\n".join(lines)


def table_of_times(rows: Sequence[Row]) -> str:
    """How late faults were applied: all that are applied at once, and each kind, on a machine without other work."""
    by_kind: Delays = {}
    for row in rows:
        if has_the_machine(row.get("load average", math.inf)):
            for kind, found in row["milliseconds late"].items():
                by_kind.setdefault(kind, []).extend(found)
    if not by_kind:
        return "No batch on record had the machine for itself yet."
    lines = ["| fault | applied | median, ms | most, ms |", "| --- | ---: | ---: | ---: |"]
    groups = {", ".join(AT_ONCE): at_once(by_kind), **dict(sorted(by_kind.items()))}
    lines += [
        f"| {name} | {len(found)} | {statistics.median(found):.0f} | {max(found):.0f} |"
        for name, found in groups.items()
        if found
    ]
    return "\n".join(lines)


def has_the_machine(load: float) -> bool:
    """Whether a batch had the machine for itself: times of others say nothing, and are not kept."""
    return load <= MOST_LOAD * (os.cpu_count() or 1)


def total(rows: Sequence[Row], field: str) -> int:
    return sum(row[field] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=int, nargs="?", default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--on", default=f"3.9.1/{ZOOKEEPER}", metavar="VERSION/MODE")
    arguments = parser.parse_args()
    version, mode = arguments.on.split("/")
    rows = read_rows(RESULTS)
    before = tried([row for row in rows if row["cluster"] == arguments.on])
    row = run_schedules(version, mode, arguments.runs, arguments.seed, before)
    rows = [*rows, row]
    write_rows(rows, RESULTS)
    write_table(PAGE, TABLE_BEGINS, table(rows), TABLE_ENDS)
    write_table(PAGE, EVIDENCE_BEGINS, table_of_evidence(rows), EVIDENCE_ENDS)
    write_table(PAGE, TIMES_BEGIN, table_of_times(rows), TIMES_END)
    print(row)
    sys.exit(bool(row["left"]) or any(other["verdict"] == Verdict.VIOLATION for other in row["others"]))


if __name__ == "__main__":
    main()
