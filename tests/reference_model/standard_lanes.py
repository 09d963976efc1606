"""The lanes whose answers ship with the package; as a program, it writes the file anew.

python -m tests.reference_model.standard_lanes [--anew]

It takes over the shipped answers of the same MODEL_VERSION, and searches the others; with `--anew`, it searches all.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.files import text_of
from kafka_chaos.contract.lane.families import FAMILY_KEYS
from kafka_chaos.harness.cli.known_command import experiments_of
from kafka_chaos.harness.experiment.file import parse_document
from kafka_chaos.harness.experiment.specs import with_phases
from kafka_chaos.reference_model import Lane, Lockstep, predict
from kafka_chaos.reference_model.compare import FAULT_SETS, LANES
from kafka_chaos.reference_model.explore.core import Numbers
from kafka_chaos.reference_model.lane.lockstep_phase import CUT_THEN_KILL
from kafka_chaos.reference_model.predict.cache import FILE, MODEL_VERSION, question_key, shipped_answer
from kafka_chaos.reference_model.predict.result import Prediction

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MOST_FAULTS = 3
"""Of more faults that are drawn, an answer may take minutes."""
RELEASES = (None, "3.6.2", "4.3.1")
"""A version with each set of rules that a supported version has, without a mode: None is that of today's default."""


def generated_mixes(schedule: Any) -> list[tuple[str, ...]]:
    """Every mix of faults that a schedule which is drawn may come to; none of one that is written out."""
    if not isinstance(schedule, dict):
        return []
    generate = schedule["generate"]
    return list(combinations_with_replacement(sorted(generate["faults"]), generate["count"]))


def as_file(model: int, answers: Iterable[tuple[str, Prediction]]) -> str:
    """The text of the file with these answers, each by the key of its question."""
    sentences = Numbers[str]()

    def packed(entry: Mapping[str, Any]) -> tuple[Any, ...]:
        defects = [
            ([defect["id"], *defect["with"]], [sentences.number(told) for told in defect["why"]])
            for defect in entry["known_defects"]
        ]
        return entry["status"], [sentences.number(sentence) for sentence in entry["why"]], defects

    bodies = {}
    for key, prediction in answers:
        body = prediction.to_json()
        parts = {
            part: {name: packed(entry) for name, entry in body[part].items()} for part in FAMILY_KEYS if part in body
        }
        bodies[key] = {**parts, "scope": body["scope"]}
    content = {"model": model, "sentences": sentences.values, "answers": bodies}
    lines = (json.dumps({name: part}, separators=(",", ":"))[1:-1] for name, part in content.items())
    return "{" + ",\n".join(lines).replace('},"', '},\n"') + "}\n"


def of_experiments() -> Iterator[tuple[str, Lane, Lockstep | None]]:
    """(name, lane, lock-step phase) for every lane of every experiment under every mix, as a run asks for it.

    But for experiments that a benchmark, or the night, runs on clusters of its own choice; the behaviours are
    scenarios, a hunt draws its lanes, and nobody waits for a shape of load but the night.
    """
    elsewhere = {
        path
        for name in ("versions", "behaviours", "hunts", "shapes", "engines")
        for path in (EXPERIMENTS / name).rglob("*.yaml")
    }
    for path in sorted({*EXPERIMENTS.rglob("*.yaml")} - elsewhere):
        written = with_phases(parse_document(text_of(path), str(path), "an experiment")[1])["phases"]
        for experiment in filter(None, experiments_of(path)):
            for phase, keys in zip(experiment.phases, written, strict=True):
                mixes = generated_mixes(keys.get("schedule"))
                for lane in (experiment.as_lane(phase, spec) for spec in phase.lanes):
                    name = f"{path.stem}-{phase.phase}-{lane.lane}"
                    if lockstep := phase.lockstep_steps():
                        yield f"{name}-in-lock-step", replace(lane, faults=()), lockstep
                    # Those of the steps are what a run predicts for once a step did not come about.
                    few = [mix for mix in mixes if len(mix) <= MOST_FAULTS]
                    for faults in few if mixes else [lane.faults]:
                        yield f"{name}-{'+'.join(faults)}", replace(lane, faults=faults), None


@cache
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
    answers, model, taken_over = [], MODEL_VERSION, 0
    for number, (key, (lane, lockstep)) in enumerate(questions := standard().items(), 1):
        if (answer := None if "--anew" in sys.argv else shipped_answer(key, model)) is None:
            print(f"{number} of {len(questions)}", file=sys.stderr)
            answer = predict(lane, lockstep=lockstep)
        else:
            taken_over += 1
        answers.append((key, answer))
    path = Path(predict.__code__.co_filename).with_name(FILE)
    path.write_text(as_file(model, answers), "utf-8")
    if taken_over:
        text = f"{taken_over} of {len(answers)} answers were taken over from model {model}, not searched"
        print(f"{text}; after a changed rule, raise MODEL_VERSION or add --anew", file=sys.stderr)
