"""What the model claims of lanes: the anomalies that it permits, each with its shortest story.

Of the standard matrix (`reference_model/matrix.py`) many claims tell the same story: it is played once for all lanes
that tell it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kafka_chaos.conformance.reproduce.stories.reading import Story, read_story
from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import CHECKS
from kafka_chaos.reference_model.matrix import FAULT_SETS, LANES
from kafka_chaos.reference_model.predict.cache import predict_cached
from kafka_chaos.reference_model.predict.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Claim:
    """An anomaly that the model permits in a lane, and the story that shows it; `label` names the lane's settings."""

    label: str
    lane: Lane
    anomaly: Anomaly
    story: Story
    prediction: Prediction

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells claims apart: settings, faults and anomaly."""
        return self.label, ", ".join(self.lane.faults), str(self.anomaly)


def claim(lane: Lane, anomaly: Anomaly, label: str = "") -> Claim:
    """What the model claims of a lane; raises `UsageFailure` where it tells no story of the anomaly."""
    if anomaly not in CHECKS:
        named = ", ".join(str(one) for one in CHECKS)
        raise UsageFailure(f"--anomaly {anomaly}: the model tells no stories of it; expected one of {named}")
    prediction = predict_cached(lane)
    answer = prediction.anomalies[anomaly]
    if answer.status is Status.FORBIDDEN:
        raise UsageFailure(f"--anomaly {anomaly}: there is nothing to play, it is forbidden ({'; '.join(answer.why)})")
    return Claim(label, lane, anomaly, read_story(lane, answer.why), prediction)


def matrix(kafka_version: str | None = None, metadata_mode: str | None = None) -> list[Claim]:
    """All claims of the standard matrix; None: those of what lanes run on unless they say it."""
    found = []
    for label, lane in LANES.items():
        for faults in FAULT_SETS:
            under = replace(lane, faults=faults, kafka_version=kafka_version, metadata_mode=metadata_mode)
            prediction = predict_cached(under)
            for anomaly in CHECKS:
                answer = prediction.anomalies[anomaly]
                if answer.status is not Status.FORBIDDEN:
                    found.append(Claim(label, under, anomaly, read_story(under, answer.why), prediction))
    return found


def grouped(claims: Iterable[Claim]) -> list[Sequence[Claim]]:
    """Claims by story: those of a group are shown by playing its story once, on a topic for each lane's settings."""
    groups: dict[tuple[str, ...], list[Claim]] = {}
    for one in claims:
        groups.setdefault(one.story.sentences, []).append(one)
    return list(groups.values())


def distinct_lanes(claims: Iterable[Claim]) -> list[Claim]:
    """One claim for each lane: the first, whose faults are the fewest."""
    return list({one.lane.lane: one for one in sorted(claims, key=lambda one: -len(one.lane.faults))}.values())
