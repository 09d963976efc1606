"""The model's claims on lanes: the anomalies that it permits, each with its shortest story, parsed into the model's
actions.

Guarantee: every step is an action that the lane's model permits after the steps before it. So the story that is played
is the predicted one, whether a search, the cache, or the answers in the package gave it. In the standard matrix
(`reference_model/matrix.py`) many claims share a story: it is played once for all their lanes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.command.errors import KafkaChaosError, UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import CHECKS
from kafka_chaos.reference_model.lane.effects import Action
from kafka_chaos.reference_model.lane.state import LaneReplica, LaneState, initial_state, leader_index, pairs, settled
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.lane.story import ending_of, initial_names, sentences_of
from kafka_chaos.reference_model.matrix import FAULT_SETS, LANES
from kafka_chaos.reference_model.predict.cache import predict_cached
from kafka_chaos.reference_model.predict.prediction import Prediction

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
    """A story of one lane as it was told: its steps, the state at its end, and the numbers of brokers, by index."""

    lane: Lane
    sentences: tuple[str, ...]
    steps: tuple[StoryStep, ...]
    end: LaneState
    names: tuple[int, ...]

    @property
    def ending(self) -> str:
        """The sentence for the end of the run."""
        return self.sentences[-1]

    def replica(self, state: LaneState, broker: int) -> LaneReplica:
        """A broker's replica in a state of the story."""
        return state.replicas[self.names.index(broker)]

    def leader(self, state: LaneState) -> int | None:
        """The broker that leads and serves in a state of the story, if one does."""
        index = leader_index(state.replicas)
        return self.names[index] if index >= 0 else None


def read_story(lane: Lane, sentences: Sequence[str]) -> Story:
    """The steps of a story that `predict` tells of a lane; raises `UnknownStory` where the model can't take them."""
    start, told = initial_state(lane), tuple(sentences)
    names = initial_names(start)
    for taken, end in _ways(lane, start, told[:-1], names, 0):
        if leader_index(end.replicas) >= 0 and told[-1:] == (ending_of(end, names),):
            return Story(lane, told, taken, end, names)
    raise UnknownStory(f"the model tells no such story of lane {lane.lane}: {' '.join(sentences)}")


def _ways(
    lane: Lane, state: LaneState, told: tuple[str, ...], names: tuple[int, ...], at: int
) -> Iterator[tuple[tuple[StoryStep, ...], LaneState]]:
    """Every sequence of actions that these sentences may describe, from a state on: one sentence may fit two actions
    (it does not name the next leader after one that stops), and the following sentences decide."""
    if not told:
        yield (), state
        return
    for action, reached in steps(state, lane, None):
        said = sentences_of(action, state, reached, names)
        if told[: len(said)] != said:
            continue
        number = names[action.broker] if action.broker >= 0 else -1
        after, reads = settled(reached, lane), tuple(pairs(reached.reads & ~state.reads))
        step = StoryStep(at, said[0], action, number, state, after, reads)
        for rest, end in _ways(lane, after, told[len(said) :], names, at + 1):
            yield (step, *rest), end


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
