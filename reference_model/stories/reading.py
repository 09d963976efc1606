"""Reads a story that `predict` tells back, sentence by sentence, as actions of the lane's model.

Guarantee: every step is an action that the lane's model permits after the steps before it. So what is played is what
was told, whether a search, the cache, or the answers in the package told it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.effects import Action
from kafka_chaos.reference_model.lane.state import LaneState, initial_state, leader_index, pairs, record_of, settled
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.lane.story import ending_of, initial_names, sentences_of


class UnknownStory(KafkaChaosError):
    """Sentences that the model does not tell of this lane."""


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step of a story: its sentence, its action, the broker by its number in the story (−1 where none is named),
    and the states before and after.

    `reads`: the records that consumers read right after it, each with its offset.
    """

    sentence: str
    action: Action
    broker: int
    before: LaneState
    after: LaneState
    reads: tuple[tuple[int, int], ...]

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
    brokers: tuple[int, ...]

    def leader(self, state: LaneState) -> int | None:
        """The broker that leads and serves in a state of the story, if one does."""
        index = leader_index(state.replicas)
        return self.brokers[index] if index >= 0 else None

    def log(self, state: LaneState, broker: int) -> list[int]:
        """The records that a broker holds in a state of the story, in offset order."""
        return [record_of(value) for value in state.replicas[self.brokers.index(broker)].log]


def read_story(lane: Lane, sentences: Sequence[str]) -> Story:
    """The steps of a story that `predict` tells of a lane; raises `UnknownStory` where the model can't take them."""
    start, told = initial_state(lane), tuple(sentences)
    brokers = initial_names(start)
    for taken, end in _ways(lane, start, told[:-1], brokers):
        if leader_index(end.replicas) >= 0 and told[-1:] == (ending_of(end, brokers),):
            return Story(lane, told, taken, end, brokers)
    raise UnknownStory(f"the model tells no such story of lane {lane.lane}: {' '.join(sentences)}")


def _ways(
    lane: Lane, state: LaneState, told: tuple[str, ...], brokers: tuple[int, ...]
) -> Iterator[tuple[tuple[StoryStep, ...], LaneState]]:
    """Every sequence of actions that these sentences may describe, from a state on.

    One sentence may fit two actions (it does not name the next leader after one that stops): the following decide.
    """
    if not told:
        yield (), state
        return
    for action, reached in steps(state, lane, None):
        said = sentences_of(action, state, reached, brokers)
        if told[: len(said)] != said:
            continue
        broker = brokers[action.broker] if action.broker >= 0 else -1
        after, reads = settled(reached, lane), tuple(pairs(reached.reads & ~state.reads))
        step = StoryStep(said[0], action, broker, state, after, reads)
        for rest, end in _ways(lane, after, told[len(said) :], brokers):
            yield (step, *rest), end
