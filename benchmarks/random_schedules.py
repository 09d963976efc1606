"""The record of random schedules (`kafka-chaos nightly --at-random`): what they showed, and what they left behind.

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

from fault_times import AT_ONCE, at_once, delays
from leftovers import left_of
from tables import MODES, Row, commit, read_rows, write_rows, write_table

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lane.families import Cause
from kafka_chaos.contract.lane.metadata import ZOOKEEPER
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.campaign.hunting import Hunt
from kafka_chaos.harness.campaign.loop import Budget, Policy
from kafka_chaos.harness.campaign.night import Night
from kafka_chaos.harness.campaign.random_schedules import random_schedules
from kafka_chaos.harness.campaign.summary import Summary
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
MOST_LOAD = 4.0
"""Processes per core that wait for it, at most, where a batch has the machine for itself."""
Delays = dict[str, list[float]]
"""By kind of fault, how many milliseconds after its time each was applied."""


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


def noted(policy: Policy[None], seen: Seen) -> Policy[None]:
    """The policy, with a note of what each run showed; only what has to be looked at is kept."""
    attempt = next(policy)
    while True:
        outcome = yield attempt
        attempt = policy.send(outcome)
        if isinstance(outcome, RunResult):
            seen.add(outcome)
            if outcome.verdict.verdict is Verdict.CONFORMS:
                shutil.rmtree(outcome.path)


def tried(rows: Sequence[Row]) -> Counter[str]:
    """How often each kind of fault took effect."""
    return sum((Counter(row["faults"]) for row in rows), Counter[str]())


def run_schedules(version: str, mode: str, runs: int, seed: int, before: Counter[str]) -> Row:
    """Run so many schedules, and tell what came out. `before`: how often each kind was tried already."""
    values = random_schedules({"kafka_version": version, "metadata_mode": mode})
    seen, hunt = Seen(), Hunt.of_values(values, Path("random-schedules.yaml"))
    hunt.tried.update(before)
    with ClusterOfRuns("hunt") as clusters:
        night = Night(
            KEPT, Budget(10**6, runs), seed, lambda text: print(text, flush=True), run_experiment=clusters.run
        )
        summary = night.follow(noted(hunt.policy(night.seeds), seen))
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
            else reasons_in(night.folder / run.run_dir),
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
