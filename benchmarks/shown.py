"""Which of the model's actions real runs have shown, and during which moments of a protocol faults were active.

    benchmarks/shown.py RUN_DIR… [--least 0.95] [--write]

Silence proves little where nothing happened: an action that no run shows, or a moment that no fault meets, was never
tried. Counts runs, by version and metadata mode. Actions are those of the model that leave a trace in a run
(harness/report/inputs/actions.toml). A fault meets a moment that lies between its request and its end, in a lane of its
own: an election, a change of the ISR, a transaction that is open, one that is being ended, a rebalance, a commit of
offsets, or a record that a member of a share group holds. Prints what was never shown; `--write` puts the tables into
docs/performance.md. Exits with 1 if a smaller share of the actions was shown than `--least`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from tables import MODES, write_table

from kafka_chaos.contract.events import IsrChanged
from kafka_chaos.contract.run_directory import EXPERIMENT_FILE
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.report.inputs.actions import ACTIONS, actions_of, lanes_and_events
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.reading import parsed_yaml, read_object

PAGE = Path(__file__).parent.parent / "docs/performance.md"
TABLE_BEGINS = "<!-- by benchmarks/shown.py -->"
TABLE_ENDS = "<!-- end of what was shown -->"
SPANS = {
    "open transaction": ("transactions", "begin_ns", "end_ns"),
    "end of a transaction": ("transactions", "commit_ns", "end_ns"),
    "commit of offsets": ("commits", "invoke_ns", "complete_ns"),
    "record that a member holds": ("deliveries", "delivered_ns", "complete_ns"),
}
"""Moments that last: the table with a row for each, and its first and last time."""
MOMENTS = ("election", "change of the ISR", "rebalance", *SPANS)


def moments_of(run: Path, events: Events) -> Iterator[tuple[str, str, int, int]]:
    """Each moment of a run: the lane, the moment's name, and when it began and ended."""
    for (lane, _), changes in events.changes.items():
        for change in changes:
            yield (
                lane,
                "change of the ISR" if isinstance(change, IsrChanged) else "election",
                change.ts_ns,
                change.ts_ns,
            )
    for row in rows(run, "assignments", "lane", "group", "start_ns"):
        if row["group"]:
            yield row["lane"], "rebalance", row["start_ns"], row["start_ns"]
    for moment, (table, first, last) in SPANS.items():
        for row in rows(run, table, "lane", first, last):
            if row[first] is not None:
                yield row["lane"], moment, row[first], row[first] if row[last] is None else row[last]


def rows(run: Path, table: str, *columns: str) -> list[dict[str, Any]]:
    """These columns of a table; no rows without the table, and none that lack a column."""
    if not (run / table).is_dir():
        return []
    content = ds.dataset(run / table, format="parquet")
    return content.to_table(columns=list(columns)).to_pylist() if set(columns) <= set(content.schema.names) else []


def pairs_of(run: Path) -> set[tuple[str, str]]:
    """The kinds of faults of a run that took effect, each with the moments that it met."""
    _, events = lanes_and_events(run)
    moments = list(moments_of(run, events))
    found = set[tuple[str, str]]()
    for lane in {lane for lane, *_ in moments}:
        for fault in events.concerning(lane):
            if not fault.proven or not fault.requested:
                continue
            since, until = fault.requested[0], fault.healed[-1] if fault.healed else 2**63
            found |= {
                (fault.kind, moment)
                for of, moment, first, last in moments
                if of == lane and first <= until and last >= since
            }
    return found


def cluster_of(run: Path) -> str:
    """The version and metadata mode of a run's cluster."""
    cluster = read_object(run / EXPERIMENT_FILE, parsed_yaml)["cluster"]
    return f"{cluster['kafka_version']}, {MODES[cluster['metadata_mode']]}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN_DIR")
    parser.add_argument("--least", type=float, default=0.95)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    runs, actions, pairs = Counter[str](), defaultdict[str, Counter[str]](Counter), Counter[tuple[str, str]]()
    for run in options.runs:
        cluster = cluster_of(run)
        runs[cluster] += 1
        actions[cluster].update({action for of_lane in actions_of(run).values() for action in of_lane})
        pairs.update(pairs_of(run))
    clusters = sorted(runs)
    shown = {action for of_cluster in actions.values() for action in of_cluster}
    lines = [
        f"| action | {' | '.join(f'{cluster} ({runs[cluster]})' for cluster in clusters)} |",
        f"| --- |{' ---: |' * len(clusters)}",
    ]
    lines += [
        f"| `{action}` | {' | '.join(str(actions[cluster][action]) for cluster in clusters)} |" for action in ACTIONS
    ]
    lines += ["", f"| runs in which the fault met | {' | '.join(MOMENTS)} |", f"| --- |{' ---: |' * len(MOMENTS)}"]
    kinds = sorted(fault_kinds())
    lines += [f"| {kind} | {' | '.join(str(pairs[kind, moment]) for moment in MOMENTS)} |" for kind in kinds]
    if options.write:
        write_table(PAGE, TABLE_BEGINS, "\n".join(lines), TABLE_ENDS)
    missing = ", ".join(sorted(ACTIONS.keys() - shown)) or "none"
    print(f"{sum(runs.values())} runs show {len(shown)} of {len(ACTIONS)} actions; not: {missing}")
    print(f"and {len(pairs)} of {len(kinds) * len(MOMENTS)} pairs of a fault and a moment")
    for moment in MOMENTS:
        print(f"no fault met: {moment}: {', '.join(kind for kind in kinds if not pairs[kind, moment]) or 'none'}")
    sys.exit(len(shown) < options.least * len(ACTIONS))


if __name__ == "__main__":
    main()
