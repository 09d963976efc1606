"""The stories of the standard matrix as scenarios, written from the model."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.metadata import USUAL_VERSION, ZOOKEEPER
from kafka_chaos.reference_model.compare import FAULT_SETS, LANES
from kafka_chaos.reference_model.lane.anomalies import CHECKS
from kafka_chaos.reference_model.predict.cache import predict_cached
from kafka_chaos.reference_model.predict.defects import beyond_search
from kafka_chaos.reference_model.stories.reading import Story, read_story
from kafka_chaos.reference_model.stories.scenario import UnplayableStory, scenario_file


def standard_stories() -> Iterator[tuple[str, Anomaly, Story]]:
    """Every claim of the matrix that a search has found, by its lane and faults, with its story."""
    for label, lane in LANES.items():
        for faults in FAULT_SETS:
            under = replace(lane, faults=faults, kafka_version=USUAL_VERSION, metadata_mode=ZOOKEEPER)
            prediction = predict_cached(under)
            for anomaly in CHECKS:
                answer = prediction.anomalies[anomaly]
                told = answer.why not in dict(beyond_search(under, ())).values()
                if answer.status is not Status.FORBIDDEN and told:
                    yield f"{label}, {' and '.join(faults) or 'no fault'}", anomaly, read_story(under, answer.why)


@cache
def playable() -> Mapping[str, Mapping[str, Any]]:
    """The files of scenarios by lane, faults and anomaly, without those with the same steps as one before."""
    files: dict[str, Mapping[str, Any]] = {}
    steps = []
    for label, anomaly, story in standard_stories():
        try:
            file = scenario_file(story, anomaly)
        except UnplayableStory:
            continue
        (scenario,) = file["scenarios"].values()
        if scenario["acts"] not in steps:
            steps.append(scenario["acts"])
            files[f"{label}: {anomaly}"] = file
    return files


def varied(count: int) -> list[str]:
    """As many names of `playable`, of kinds as different as may be: each anomaly in turn, each with another fault."""
    by_anomaly: dict[str, list[str]] = {}
    faults: set[tuple[str, str]] = set()
    for name in playable():
        lane, _, anomaly = name.rpartition(": ")
        kind = (anomaly, lane.rpartition(", ")[2])
        if kind not in faults:
            faults.add(kind)
            by_anomaly.setdefault(anomaly, []).append(name)
    chosen: list[str] = []
    while len(chosen) < count:
        for names in by_anomaly.values():
            if names and len(chosen) < count:
                chosen.append(names.pop(len(names) // 2))
    return chosen
