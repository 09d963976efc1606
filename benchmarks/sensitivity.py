"""Whether one more record, attempt, transaction or member changes a prediction for a lane of experiments/.

    python benchmarks/sensitivity.py [--jobs N] [--longest-first]

Lanes that differ in their faults alone are searched together for what their predictions forbid (`larger_scopes.py`),
under every mix of faults that a schedule may come to; so are those whose transactions and groups ask the same.
sensitivity.json, beside this file, has every answer, each with the digest of the model that gave it, and keeps those of
a run that ended early: the next one continues. Answers of another model are searched again, and stay until then, unless
nobody asks for them any more. The largest searches are those of idempotent producers with clean elections: half a
million states, and 1 GB.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Collection, Hashable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from larger_scopes import (  # noqa: E402
    machines_of,
    searched_together,
    sensitivity_of_machine,
    sensitivity_of_phase,
    sensitivity_together,
)

from kafka_chaos.contract.command.files import write_whole  # noqa: E402
from kafka_chaos.contract.lane.lanes import Lane  # noqa: E402
from kafka_chaos.reference_model import Lockstep  # noqa: E402
from kafka_chaos.reference_model.predict.cache import MODEL_VERSION, predict_cached, question_key  # noqa: E402
from kafka_chaos.reference_model.predict.defects import plain_lane  # noqa: E402
from tests.reference_model.standard_lanes import of_experiments  # noqa: E402

RECORD = ROOT / "benchmarks" / "sensitivity.json"
MAX_STATES = 12_000_000


def questions() -> dict[str, tuple[Lane, Lockstep | None]]:
    """Every lane of experiments/ in every mix, by the short key of its question.

    A lane with transactions or a group is there twice: its replication is another search, which has bounds of its own.
    """
    found = [(lane, lockstep) for _, lane, lockstep in of_experiments()]
    found += [(plain_lane(lane), lockstep) for lane, lockstep in found]
    return {short_key(*question): question for question in found}


def short_key(lane: Lane, lockstep: Lockstep | None) -> str:
    """Enough of the key of a question to tell some hundred questions apart."""
    return question_key(lane, lockstep)[:16]


def searches(questions: Collection[tuple[Lane, Lockstep | None]]) -> list[list[tuple[Lane, Lockstep | None]]]:
    """The questions in groups that one search answers."""
    by_machine: dict[Hashable, list[tuple[Lane, Lockstep | None]]] = {}
    plain: list[tuple[Lane, Lockstep | None]] = []
    for lane, lockstep in questions:
        if lane == plain_lane(lane):
            plain.append((lane, lockstep))
            continue
        machines = machines_of(predict_cached(lane, lockstep), lane, lockstep)
        what = tuple((machine.name, asked, forbidden) for machine, asked, forbidden in machines)
        by_machine.setdefault(what, []).append((lane, lockstep))
    alone = [[one] for one in plain if one[1] is not None]
    free = [(lane, predict_cached(lane)) for lane, lockstep in plain if lockstep is None]
    together: list[list[tuple[Lane, Lockstep | None]]] = [
        [(lane, None) for lane in lanes] for lanes in searched_together(free)
    ]
    return [*by_machine.values(), *alone, *together]


def answer(group: list[tuple[Lane, Lockstep | None]]) -> dict[str, Any]:
    """The entry of a search in the record."""
    started = time.process_time()
    lane, lockstep = group[0]
    prediction = predict_cached(lane, lockstep)
    if lane != plain_lane(lane):
        found = machines_of(prediction, lane, lockstep)
        larger = [one for machine in found for one in sensitivity_of_machine(*machine, MAX_STATES)]
    elif lockstep is None:
        larger = list(sensitivity_together(prediction, [lane for lane, _ in group], MAX_STATES))
    else:
        larger = list(sensitivity_of_phase(prediction, lane, lockstep, MAX_STATES))
    return {
        "model": MODEL_VERSION,
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "lanes": sorted(short_key(*question) for question in group),
        "acks": lane.acks,
        "idempotence": lane.idempotence,
        "replication_factor": lane.replication_factor,
        "min_insync_replicas": lane.min_insync_replicas,
        "unclean_leader_election": lane.unclean_leader_election,
        "mixes": sorted("+".join(sorted(lane.faults)) for lane, _ in group) if lockstep is None else ["lock step"],
        "larger": {found.bound: found.to_json() for found in larger},
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--longest-first", action="store_true")
    arguments = parser.parse_args()
    asked = questions()
    entries = json.loads(RECORD.read_text("utf-8"))["searches"] if RECORD.exists() else []
    entries = [entry for entry in entries if not asked.keys().isdisjoint(entry["lanes"])]
    answered = {key for entry in entries if entry["model"] == MODEL_VERSION for key in entry["lanes"]}
    missing = searches([question for key, question in asked.items() if key not in answered])
    missing.sort(
        key=lambda group: max(predict_cached(*question).states for question in group), reverse=arguments.longest_first
    )
    with ProcessPoolExecutor(arguments.jobs, max_tasks_per_child=1) as pool:
        waiting = [pool.submit(answer, group) for group in missing]
        for number, done in enumerate(as_completed(waiting), 1):
            entries = with_answer(entries, done.result())
            lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
            write_whole(RECORD, f'{{"searches": [\n{lines}\n]}}\n')
            print(f"{number} of {len(missing)}: {entries[-1]}", flush=True)
    changed = [entry for entry in entries if not unchanged(entry)]
    lanes = sum(len(entry["lanes"]) for entry in entries)
    print(f"{lanes} lanes in {len(entries)} searches: {len(changed)} change, or were not searched to the end")
    return 2 if changed else 0


def unchanged(entry: dict[str, Any]) -> bool:
    """Whether a larger scope was searched to its end and changes nothing."""
    return all(found["complete"] and not found["changes"] for found in entry["larger"].values())


def with_answer(entries: list[dict[str, Any]], done: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries with a new one, which replaces what other models said of the same lanes."""
    return [entry for entry in entries if set(entry["lanes"]).isdisjoint(done["lanes"])] + [done]


if __name__ == "__main__":
    sys.exit(main())
