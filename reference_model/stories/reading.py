"""Reads a story of `predict` as actions of the lane's model, sentence by sentence.

Guarantee: every step is an action that the lane's model permits after the steps before it. `scenario.py` relies on
this: brokers play the story that was told, whether by a search, by the cache, or by the answers in the package.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.effects import Action
from kafka_chaos.reference_model.lane.state import LaneState, idle_zombies_as_followers, initial_state, pairs, record_of
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.lane.story import ending_of, initial_numbers, sentences_of


class UnknownStory(KafkaChaosError):
    """The model tells no story of this lane in these sentences."""


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step of a story, with the states before and after it.

    `broker`: the number of its broker in the story, −1 without one. `reads`: each (record, offset) that consumers read
    right after the step.
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


@dataclass(frozen=True, slots=True)
class Story:
    """A story of a lane: its sentences, its steps, the state at its end, and the numbers of the brokers, by index."""

    lane: Lane
    sentences: tuple[str, ...]
    steps: tuple[StoryStep, ...]
    end: LaneState
    brokers: tuple[int, ...]

    def leader(self, state: LaneState) -> int | None:
        """The broker that leads and serves in a state of the story, if one does."""
        index = state.leader
        return self.brokers[index] if index >= 0 else None

    def log(self, state: LaneState, broker: int) -> list[int]:
        """The records that a broker holds in a state of the story, in offset order."""
        return [record_of(value) for value in state.replicas[self.brokers.index(broker)].log]


def read_story(lane: Lane, sentences: Sequence[str]) -> Story:
    """The steps of a story that `predict` tells of a lane; raises `UnknownStory` where the model can't take them."""
    start = initial_state(lane)
    brokers = initial_numbers(start)
    *step_sentences, ending = sentences or [""]
    for story_steps, end in _readings(lane, start, tuple(step_sentences), brokers):
        if end.leader >= 0 and ending == ending_of(end, brokers):
            return Story(lane, tuple(sentences), story_steps, end, brokers)
    raise UnknownStory(f"the model tells no such story of lane {lane.lane}: {' '.join(sentences)}")


def _readings(
    lane: Lane, state: LaneState, sentences: tuple[str, ...], brokers: tuple[int, ...]
) -> Iterator[tuple[tuple[StoryStep, ...], LaneState]]:
    """Yield every sequence of steps that these sentences may describe from a state on, with the state at its end.

    A sentence may fit two actions. The sentence for a controlled shutdown, for example, does not name the next leader.
    Then the following sentences decide.
    """
    if not sentences:
        yield (), state
        return
    for action, reached in steps(state, lane, lockstep=None):
        expected = sentences_of(action, state, reached, brokers)
        if sentences[: len(expected)] != expected:
            continue
        broker = brokers[action.broker] if action.broker >= 0 else -1
        # As in `story.tell`: a zombie that nothing reaches any more counts as a follower in the next step.
        after, reads = idle_zombies_as_followers(reached, lane), tuple(pairs(reached.reads & ~state.reads))
        step = StoryStep(expected[0], action, broker, state, after, reads)
        for rest, end in _readings(lane, after, sentences[len(expected) :], brokers):
            yield (step, *rest), end
