"""Says how far a state of a lane still is from what is asked, at least: no way to an anomaly is cut off.

The outer bound (`lane_free`) is exhausted, and from its states that show an anomaly the steps are counted back to
all from which they are reached. Every run of the lane has its image in the bound, step by step, so a run that ends
with an anomaly passes states with such a distance only, and is at least as long as the first one's: a state without
may be left out, and what no state has one for is forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_free import FreeBound, FreeState, kept
from kafka_chaos.reference_model.lane_state import LaneState
from kafka_chaos.reference_model.search import ScopeNotExhausted, breadth_first

Before = dict[FreeState, list[FreeState]]
"""The states from which one is reached by a step."""


class Guide:
    """The distances of one lane to some open questions; raises `ScopeNotExhausted` where the bound is too large.

    `states` is the number of the bound's states, `open_questions` what some of them shows.
    """

    def __init__(self, lane: Lane, questions: Iterable[Anomaly], *, max_states: int) -> None:
        asked = tuple(questions)
        self._bound = FreeBound(lane, kept(lane, set(asked)))
        showing: dict[Anomaly, list[FreeState]] = {anomaly: [] for anomaly in asked}
        taken: Before = {}
        idle: Before = {}

        def visit(state: FreeState) -> bool:
            for anomaly in self._bound.shown(state) & showing.keys():
                showing[anomaly].append(state)
            return False

        def successors(state: FreeState) -> list[FreeState]:
            reached, waited = self._bound.successors(state)
            for after in reached:
                taken.setdefault(after, []).append(state)
            for after in waited:
                idle.setdefault(after, []).append(state)
            return reached + waited

        search = breadth_first(self._bound.initial(), successors, visit, max_states=max_states)
        if not search.complete:
            raise ScopeNotExhausted(f"more than {max_states} states in the outer bound of {lane}")
        self.states = len(search.parents)
        self.open_questions = {anomaly for anomaly in asked if showing[anomaly]}
        self._distances = {
            anomaly: _distances(showing[anomaly], taken, idle) for anomaly in asked if anomaly in self.open_questions
        }

    def steps_to(self, state: LaneState, wanted: Set[Anomaly]) -> int | None:
        """The steps that a state of the lane is at least away from the nearest anomaly wanted, or None: it leads
        to none of them."""
        image = self._bound.image(state)
        known = (distances.get(image) for anomaly, distances in self._distances.items() if anomaly in wanted)
        return min((steps for steps in known if steps is not None), default=None)


def _distances(showing: list[FreeState], taken: Before, idle: Before) -> dict[FreeState, int]:
    """The steps from each state to the nearest one that shows what is asked; idle ones do not count."""
    distances: dict[FreeState, int] = {}
    steps, left = 0, showing
    while left:
        before: list[FreeState] = []
        while left:
            state = left.pop()
            if state not in distances:
                distances[state] = steps
                left += idle.get(state, ())
                before += taken.get(state, ())
        steps, left = steps + 1, before
    return distances
