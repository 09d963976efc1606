"""Whether a random campaign finds each known defect without being told of it, and after how many minutes.

    benchmarks/detection_power.py [ID…] [--minutes 10] [--most 300] [--seed 0] [--out runs/power]

The experiment of a defect (experiments/known/) keeps its cluster, its clients and their load. Its schedule goes: each
round, a hunt draws two faults of all kinds (with transactions, one) and their targets, as for any other experiment. The
defect is found as soon as the affected side shows it and the control side conforms without it; else it is missed after
`--minutes`. A violation of the control side is an alarm.

Without ID, the defects come first that were never looked for, then those whose last search is longest ago; none begins
after `--most` minutes. Each result takes the place of the one before in docs/detection-power.json, from which the table
in docs/performance.md is written. Exits with 1 if there was an alarm, with 3 if a defect had no round with a verdict.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tables import Row, commit, read_rows, write_rows, write_table

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import KafkaChaosError, UsageFailure
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.run_directory import LOGS_FOLDER
from kafka_chaos.faults.registry import fault_kind
from kafka_chaos.harness.campaign.hunting import Hunt
from kafka_chaos.harness.cli.known_command import Comparison, compare_sides, known_defects
from kafka_chaos.harness.clients.kinds import IN_PROCESS, parse_client
from kafka_chaos.harness.experiment.file import dump_experiment, experiment_values, load_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns
from kafka_chaos.harness.signals import end_on_signals

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/detection-power.json"
PAGE = ROOT / "docs/performance.md"
TABLE_BEGINS = "<!-- from docs/detection-power.json, by benchmarks/detection_power.py -->"
TABLE_ENDS = "<!-- end of detection power -->"
ALL_KINDS = ROOT / "experiments/hunts/schedules.yaml"
"""The hunt whose fault kinds are drawn here, too."""
CLIENT_KINDS = ("client-kill", "client-pause")
REQUESTS = {
    "acks": ("Produce", "Fetch", "Metadata"),
    "transactional": ("InitProducerId", "AddPartitionsToTxn", "EndTxn"),
    "group": ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch"),
    "share": ("ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge"),
}
"""The requests that faults of links may hit, by the key of a lane; every lane has acks."""
LONGEST_LOAD_S = 30


def blind(known: Path) -> dict[str, Any]:
    """The experiment of a known defect with a schedule that is drawn; raises `UsageFailure`."""
    values, cluster = experiment_values(known), load_experiment(known).cluster
    if "phases" in values:
        raise UsageFailure("its experiment has several phases, and a hunt draws one")
    targets = list(dict.fromkeys(target for lane in values["lanes"] for target in targets_of(lane)))
    has_clients = any(target.startswith(("member", "producer", "consumer")) for target in targets)
    kinds = [*experiment_values(ALL_KINDS)["schedule"]["generate"]["faults"], *(CLIENT_KINDS if has_clients else ())]
    used = {key for lane in values["lanes"] for key in REQUESTS if key == "acks" or lane.get(key) is not None}
    generate = {
        "faults": [kind for kind in kinds if fault_kind(kind).unavailable() is None],
        "targets": [*targets, "random"],
        "keys": {
            "api": [api for key in sorted(used) for api in REQUESTS[key]],
            "nth": [1, 2],
            "side": ["request", "response"],
        },
        # Predictions of transactions under two faults of brokers take minutes.
        "count": 1 if "transactional" in used else 2,
        "breaks": "one",
        "duration": [1, 8],
        "around_timeouts": True,
        "quiet_end": 5,
        "clusters": [f"{cluster.kafka_version}/{cluster.metadata_mode}"],
    }
    workload = values.get("workload", {})
    workload = {**workload, "duration": min(float(workload.get("duration", LONGEST_LOAD_S)), LONGEST_LOAD_S)}
    return {**values, "workload": workload, "schedule": {"generate": generate}}


def targets_of(lane: Mapping[str, Any]) -> Iterable[str]:
    """What faults may hit for a lane: its leader, a follower, its coordinators, and its clients that are processes."""
    name = lane["lane"]
    yield f"leader({name})"
    if lane.get("replication_factor", 3) > 1:
        yield f"follower({name})"
    for key in ("group", "share", "transactional"):
        if lane.get(key) is not None:
            yield f"{'transaction' if key == 'transactional' else key}-coordinator({name})"
    if lane.get("group") is not None or lane.get("share") is not None:
        yield f"member({name})"
    if parse_client(lane.get("client", IN_PROCESS)) is not None:
        yield from (f"producer({name})", f"consumer({name})")


def look_for(known: Path, folder: Path, minutes: float, seed: int) -> Row:
    """Look for one defect until it is found or the minutes are over; returns the row of the results."""
    row: Row = {"id": known.stem, "rounds": 0, "found": None, "minutes": 0.0, "alarms": [], "others": [], "failed": []}
    root = folder / known.stem
    try:
        hunt = Hunt(blind(known), str(known))
        seeds, spent = random.Random(f"{seed}/{known.stem}"), 0.0
        with ClusterOfRuns("power", Engine.DUCKDB) as affected, ClusterOfRuns("control", Engine.DUCKDB) as control:
            while row["found"] is None and spent < 60 * minutes:
                begun = time.monotonic()
                experiment = hunt.draw_predictable(seeds)
                try:
                    try:
                        result = affected.run(experiment, root=root)
                    finally:
                        spent += time.monotonic() - begun
                    hunt.note(experiment, result)
                    comparison = compared(experiment, result, control, root)
                except KafkaChaosError as failure:
                    row["failed"].append(str(failure))
                    continue
                row["rounds"] += 1
                print(f"{known.stem}, round {row['rounds']}: {'; '.join(comparison.lines)}", flush=True)
                faults = ", ".join(f"{fault.kind} {fault.target.text}" for fault in experiment.phases[0].faults)
                if comparison.control.verdict == Verdict.VIOLATION:
                    row["alarms"].append(f"{faults}: {comparison.control.described}")
                elif comparison.is_shown:
                    row["found"], row["faults"] = str(comparison.affected.verdict), faults
                elif comparison.affected.has_unexplained_violation:
                    row["others"].append(f"{faults}: {comparison.affected.described}")
                if row["found"] is None:
                    shutil.rmtree(result.path / LOGS_FOLDER, ignore_errors=True)
        row["minutes"] = round(spent / 60, 1)
    except UsageFailure as refused:
        row["failed"].append(str(refused))
    return {**row, "date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), "seed": seed}


def compared(experiment: Experiment, result: RunResult, control: ClusterOfRuns, root: Path) -> Comparison:
    """Both sides of a round, whose affected side has run: the control is in the same run, or gets the same schedule."""
    file = root / "round.yaml"
    assert experiment.defect is not None
    head = experiment.defect.model_dump(mode="json", exclude_defaults=True)
    file.write_text(dump_experiment(experiment, {"defect": head}), encoding="utf-8")
    made = iter([result])
    return compare_sides(file, lambda side: next(made, None) or control.run(side, root=root))


def table(rows: Iterable[Row]) -> str:
    """One line per defect, and a sentence that counts them."""
    rows = sorted(rows, key=lambda row: row["id"])
    lines = [
        "| defect | found | minutes | rounds | faults of that round | alarms |",
        "| --- | --- | ---: | ---: | --- | ---: |",
    ]
    for row in rows:
        outcome = row["found"] or ("missed" if row["rounds"] else "no round")
        if outcome in (Verdict.CONFORMS, Verdict.UNKNOWN):
            outcome = f"shown, verdict {outcome}"
        cells = (row["id"], outcome, row["minutes"], row["rounds"], row.get("faults", ""), len(row["alarms"]))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    minutes = [row["minutes"] for row in rows if row["found"] == "violation"]
    after = f", after {statistics.median(minutes):g} minutes in the median" if minutes else ""
    other = sum(bool(row["found"]) for row in rows) - len(minutes)
    shown = f"Found as a violation: {len(minutes)} of {len(rows)}{after}."
    return "\n".join(
        [*lines, "", f"{shown}\n{other} more showed in lanes that conform, as settings permit it, or are unknown."]
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--minutes", type=float, default=10.0, help="of rounds on the affected side, for each defect")
    parser.add_argument("--most", type=float, default=300.0, help="no defect begins after so many minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/power"))
    options = parser.parse_args()
    end_on_signals()
    defects, started, codes = known_defects(), time.monotonic(), set[int]()
    last = {row["id"]: row["date"] for row in read_rows(RESULTS)}
    shuffled = random.Random(options.seed).sample(sorted(defects), len(defects))
    for id in options.ids or sorted(shuffled, key=lambda id: last.get(id, "")):
        if time.monotonic() - started > 60 * options.most:
            break
        row = look_for(defects[id][0], options.out, options.minutes, options.seed)
        print(json.dumps(row), flush=True)
        codes.add(1 if row["alarms"] else 0 if row["rounds"] else 3)
        rows = [*(one for one in read_rows(RESULTS) if one["id"] != id and one["id"] in defects), row]
        write_rows(sorted(rows, key=lambda one: one["id"]), RESULTS)
        write_table(PAGE, TABLE_BEGINS, table(rows), TABLE_ENDS)
    sys.exit(next((code for code in (1, 3) if code in codes), 0))


if __name__ == "__main__":
    main()
