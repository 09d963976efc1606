"""What the evidence about a lane lacks, in three grades: what is not searched for, what proves nothing, and doubts."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_chaos.contract.lane.families import AnyAnomaly


@dataclass(frozen=True, slots=True)
class NotSearched:
    """Why nobody searches for these anomalies in a lane. They are named as not judged, and never count as clean."""

    text: str
    anomalies: Iterable[AnyAnomaly]


@dataclass(frozen=True, slots=True)
class Gap:
    """Why the absence of the anomalies that `rests` names proves nothing. Alone, it is no doubt about the lane."""

    text: str
    rests: Iterable[AnyAnomaly]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a lane can't conform, such as evidence that does not fit together. `rests`: the anomalies that rest on it."""

    text: str
    rests: tuple[AnyAnomaly, ...] = ()


Lack = NotSearched | Gap | Doubt
