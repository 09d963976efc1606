"""What a run of random walks leaves behind, as JSON: a line per group, and every observation of a group that failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from kafka_chaos.conformance.scenario.record import ScenarioRecord
from kafka_chaos.conformance.scenario.results import dump
from kafka_chaos.conformance.walks.group import Group
from kafka_chaos.contract.anomalies import Verdict

FORMAT_VERSION = 1

Run = tuple[Group, ScenarioRecord]


def results_json(runs: Sequence[Run], *, seconds: float) -> dict[str, Any]:
    """Runs as JSON values. `walks` and `steps` count what Kafka and the model agreed on; healing is not counted."""
    agreed = [(group, record) for group, record in runs if record.verdict == Verdict.CONFORMS]
    timed = [taken for group, record in runs for taken in timed_steps(group, record)]
    kinds: dict[str, list[float]] = defaultdict(list)
    for kind, took in timed:
        kinds[kind].append(took)
    return {
        "format_version": FORMAT_VERSION,
        "verdict": verdict_of(runs).value,
        "seconds": round(seconds, 1),
        "groups": len(runs),
        "walks": sum(len(group.walks) for group, _ in agreed),
        "steps": sum(len(group.walks) * len(group.steps) for group, _ in agreed),
        "seconds_per_step": {
            kind: {"steps": len(took), "mean": round(mean(took), 2), "longest": round(max(took), 1)}
            for kind, took in sorted(kinds.items())
        },
        "runs": [_run_json(group, record) for group, record in runs],
    }


def verdict_of(runs: Sequence[Run]) -> Verdict:
    """The gravest verdict; of no run at all it is `unknown`."""
    return Verdict.gravest((record.verdict for _, record in runs), of_none=Verdict.UNKNOWN)


def timed_steps(group: Group, record: ScenarioRecord) -> Iterator[tuple[str, float]]:
    """The kind of each step that was taken, healing included, and its seconds until Kafka and the model agreed."""
    first = record.acts[0].steps if record.acts else []
    # Before the group's first step, every act waits for its topic.
    for one, step in zip((*group.steps, *group.closing), first[1:], strict=False):
        yield one.kind, step.seconds


def text_of(document: Mapping[str, Any]) -> str:
    """JSON with a line per group, so that a change of one group is a change of few lines."""
    return dump(document).replace('{"seed":', '\n{"seed":')


def _run_json(group: Group, record: ScenarioRecord) -> dict[str, Any]:
    found: dict[str, Any] = {
        "seed": group.seed,
        "verdict": record.verdict.value,
        "seconds": round(record.seconds, 1),
        "lag": "short" if group.lag_is_short else "long",
        "walks": [str(settings) for settings in group.walks],
        "steps": [str(one) for one in group.steps],
        "healing": [str(one) for one in group.closing],
    }
    if group.kraft_version is not None:
        found["kraft_version"] = group.kraft_version
    if record.verdict != Verdict.CONFORMS:
        found |= {"reason": record.reason, "acts": [act.to_json() for act in record.acts]}
    return found
