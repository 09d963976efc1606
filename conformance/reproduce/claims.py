"""The model's claims on lanes: the anomalies that it permits, each with its shortest story, read back as the model's
actions.

Guarantee: every step is one that the lane's model can take in the state that the steps before it led to. What is played
is so the story that was told, whoever tells it: a search, the cache, or the answers that ship. Of the standard matrix
(`reference_model/matrix.py`) many claims tell the same story: it is played once for all lanes that tell it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.command.errors import KafkaChaosError, UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import CHECKS
from kafka_chaos.reference_model.lane.effects import Action
from kafka_chaos.reference_model.lane.state import LaneReplica, LaneState, initial_state, leader_index, pairs, settled
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.lane.story import ROLES, SENTENCES
from kafka_chaos.reference_model.matrix import FAULT_SETS, LANES
from kafka_chaos.reference_model.predict.cache import predict_cached
from kafka_chaos.reference_model.predict.prediction import Prediction

_VARIABLES = {
    "broker": r"(?P<broker>broker \d+)",
    "role": "|".join(dict.fromkeys(ROLES)),
    "record": r"(?P<record>\d+)",
    "detail": r"(?P<detail>\w+)",
    "source": r"(?P<source>, read from its socket)?",
    "epoch": r"\d+",
    "truncation": r"(?:, truncating to offset \d+)?",
    "left": r"(?P<left>no record|\d+ records?)",
}
_READ = re.compile(r"Consumers read record (\d+) at offset (\d+)\.")
_ENDING = re.compile(r"The run ends: the final log, that of broker (\d+), holds .*")

Read = tuple[int, int]
"""A record and its offset."""


class UnknownStory(KafkaChaosError):
    """Sentences that the model does not tell of this lane."""


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step of a story, the `number`th from 0 on. `broker` is that of the story (1 leads at first), or −1 where no
    broker is named.

    `reads`: what consumers read right after it.
    """

    number: int
    sentence: str
    action: Action
    broker: int
    before: LaneState
    after: LaneState
    reads: tuple[Read, ...]

    @property
    def name(self) -> str:
        """The action's name."""
        return self.action.name

    @property
    def record(self) -> int:
        """The record that it concerns, or −1."""
        return self.action.record


@dataclass(frozen=True, slots=True)
class Story:
    """A story of one lane: its steps, the state at its end, and the numbers of the state's brokers, by index."""

    lane: Lane
    steps: tuple[StoryStep, ...]
    ending: str
    end: LaneState
    names: tuple[int, ...]

    def replica(self, state: LaneState, broker: int) -> LaneReplica:
        """A broker's replica in a state of the story."""
        return state.replicas[self.names.index(broker)]

    def leader(self, state: LaneState) -> int | None:
        """The broker that leads and serves in a state of the story, if one does."""
        index = leader_index(state.replicas)
        return self.names[index] if index >= 0 else None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The story as it was told."""
        found: list[str] = []
        for step in self.steps:
            found.append(step.sentence)
            found.extend(f"Consumers read record {record} at offset {offset}." for record, offset in step.reads)
        return (*found, self.ending)


def read_story(lane: Lane, sentences: Sequence[str]) -> Story:
    """The steps of a story that `predict` tells of a lane; raises `UnknownStory` where the model can't take them."""
    start = initial_state(lane)
    leads = leader_index(start.replicas)
    others = iter(range(2, len(start.replicas) + 1))
    names = tuple(1 if index == leads else next(others) for index in range(len(start.replicas)))
    if not sentences or _ENDING.fullmatch(sentences[-1]) is None:
        raise UnknownStory(f"this is no story of lane {lane.lane}: expected one that ends with its final log")
    *told, ending = sentences
    for taken, end in _ways(lane, start, tuple(told), names, 0):
        leader = leader_index(end.replicas)
        if leader >= 0 and str(names[leader]) == _ENDING.fullmatch(ending)[1]:  # type: ignore[index]
            return Story(lane, taken, ending, end, names)
    raise UnknownStory(f"the model has no such steps in lane {lane.lane}: {' '.join(sentences)}")


def _ways(
    lane: Lane, state: LaneState, told: tuple[str, ...], names: tuple[int, ...], at: int
) -> Iterator[tuple[tuple[StoryStep, ...], LaneState]]:
    """Every way to take what is told from a state on: one sentence may fit two actions (whom a stopped leader hands its
    partition to is not said), and what follows decides."""
    if not told:
        yield (), state
        return
    sentence, *_ = told
    count = next((i for i, later in enumerate(told[1:]) if _READ.fullmatch(later) is None), len(told) - 1)
    reads = tuple((int(m[1]), int(m[2])) for m in map(_READ.fullmatch, told[1 : 1 + count]) if m)
    for action, reached in steps(state, lane, None):
        number = names[action.broker] if action.broker >= 0 else -1
        if not _says(sentence, action, number):
            continue
        if sorted(pairs(reached.reads & ~state.reads)) != sorted(reads):
            continue
        after = settled(reached, lane)
        step = StoryStep(at, sentence, action, number, state, after, reads)
        for rest, end in _ways(lane, after, told[1 + count :], names, at + 1):
            yield (step, *rest), end


def _says(sentence: str, action: Action, broker: int) -> bool:
    found = _pattern(action.name).fullmatch(sentence[:1].lower() + sentence[1:])
    if found is None:
        return False
    said = found.groupdict()
    left = {"no record": "0"}.get(said.get("left") or "", (said.get("left") or "").split(" ")[0])
    return all(
        (
            said.get("broker") in (None, f"broker {broker}"),
            said.get("record") in (None, str(action.record)),
            said.get("detail") in (None, action.detail),
            said.get("left") is None or left == action.detail,
            bool(said.get("source")) == action.from_socket or "source" not in said,
        )
    )


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """The pattern of the sentences of an action, whose first letters are small."""
    template = SENTENCES[name]
    pieces = re.split(r"\{(\w+)\}", template[:1].lower() + template[1:])
    return re.compile("".join(f"(?:{_VARIABLES[p]})" if i % 2 else re.escape(p) for i, p in enumerate(pieces)))


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
        """The key of a claim: settings, faults and anomaly."""
        return self.label, ", ".join(self.lane.faults), str(self.anomaly)


def claim(lane: Lane, anomaly: Anomaly, label: str = "") -> Claim:
    """The claim of the model on a lane; raises `UsageFailure` where it has no trace to the anomaly."""
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
