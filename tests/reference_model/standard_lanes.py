"""The lanes whose answers ship with the package; as a program, it searches them all and writes the file anew.

python -m tests.reference_model.standard_lanes
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kafka_chaos.contract.fault_kinds import FAULT_KINDS
from kafka_chaos.reference_model import Lane, Lockstep, parse_lockstep, predict
from kafka_chaos.reference_model.document.lanes import CUT_THEN_KILL
from kafka_chaos.reference_model.matrix import FAULT_SETS, LANES
from kafka_chaos.reference_model.predict.answers import FILE, as_file
from kafka_chaos.reference_model.predict.cache import model_digest, question_key

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
LOCKSTEP_NOT_KEPT = ("partition", "kill")
"""What a run predicts for instead, once a step of its lock-step phase did not come about."""
KEYS = {field.name for field in fields(Lane)}


OF_THE_CLUSTER = ("kafka_version", "metadata_mode", "elr")
RELEASES = (None, "3.6.2", "4.3.1")
"""A version with each set of rules that a supported version has, without a mode: None is that of today's default."""


def phases() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, phase, cluster) for every phase of every experiment, whether or not its file names phases.

    But for those that a benchmark runs on clusters of its own choice.
    """
    for path in sorted(set(EXPERIMENTS.rglob("*.yaml")) - set((EXPERIMENTS / "versions").glob("*.yaml"))):
        experiment = YAML(typ="safe").load(path)
        cluster = {key: value for key, value in experiment.get("cluster", {}).items() if key in OF_THE_CLUSTER}
        for number, phase in enumerate(experiment.get("phases", [experiment])):
            if "lanes" in phase:
                yield f"{path.stem}-{phase.get('phase', number)}", phase, cluster


def fault_mixes(schedule: Any) -> Iterator[tuple[str, ...]]:
    """The faults of a written schedule, or every mix that a generated one may come to."""
    if isinstance(schedule, dict):
        generate = schedule["generate"]
        kinds = sorted(kind for kind in generate["faults"] if kind in FAULT_KINDS)
        yield from combinations_with_replacement(kinds, generate["count"])
    else:
        yield tuple(fault["fault"] for fault in schedule if fault["fault"] in FAULT_KINDS)


def of_experiments() -> Iterator[tuple[str, Lane, Lockstep | None]]:
    """(name, lane, lock-step phase) for every lane of every experiment under every mix."""
    for name, phase, cluster in phases():
        mixes = list(fault_mixes(phase.get("schedule", ())))
        lockstep = parse_lockstep(phase["lockstep"]["steps"]) if "lockstep" in phase else None
        for entry in phase["lanes"]:
            settings = cluster | {key: value for key, value in entry.items() if key in KEYS}
            settings["acks"] = str(settings.get("acks", "all"))
            if lockstep:
                lane = Lane.from_json(settings)
                yield f"{name}-{lane.lane}-in-lock-step", lane, lockstep
            for faults in [LOCKSTEP_NOT_KEPT] if lockstep else mixes:
                lane = Lane.from_json({**settings, "faults": faults})
                yield f"{name}-{lane.lane}-{'+'.join(faults)}", lane, None


def standard() -> dict[str, tuple[Lane, Lockstep | None]]:
    """The questions whose answers ship with the package, by their keys: those of experiments/ and of docs/model.md, the
    latter in each release."""
    questions = [(lane, lockstep) for _, lane, lockstep in of_experiments()]
    for lane, release in product(LANES.values(), RELEASES):
        released = replace(lane, kafka_version=release)
        questions += [(replace(released, faults=faults), None) for faults in FAULT_SETS]
        questions.append((released, CUT_THEN_KILL))
    return {question_key(*question): question for question in questions}


if __name__ == "__main__":
    answers = []
    for number, (key, (lane, lockstep)) in enumerate(questions := standard().items(), 1):
        print(f"{number} of {len(questions)}", file=sys.stderr)
        answers.append((key, predict(lane, lockstep=lockstep)))
    path = Path(predict.__code__.co_filename).with_name(FILE)
    path.write_text(as_file(model_digest(), answers), "utf-8")
