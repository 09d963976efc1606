"""Keeps a lane's search to the states that can still come to what is asked: no way to an anomaly is cut off.

The outer bound (`lane_free`) is exhausted, and from its states that show an anomaly all are marked from which they
are reached. Every run of the lane has its image in the bound, so a run that ends with an anomaly passes marked
images only: a state whose image is not marked may be left out, and what no image is marked for is forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_free import FreeBound, FreeState, kept
from kafka_chaos.reference_model.lane_state import LaneState
from kafka_chaos.reference_model.search import ScopeNotExhausted, breadth_first


class Guide:
    """The marks of one lane for some open questions; raises `ScopeNotExhausted` where the bound is too large.

    `states` is the number of the bound's states, `open_questions` what some of them shows.
    """

    def __init__(self, lane: Lane, questions: Iterable[Anomaly], *, max_states: int) -> None:
        asked = tuple(questions)
        self._bound = FreeBound(lane, kept(lane, set(asked)))
        self._bits = {anomaly: 1 << number for number, anomaly in enumerate(asked)}
        self._marks: dict[FreeState, int] = {}
        showing, before = self._explore(lane, max_states)
        self.states = len(before)
        self.open_questions = {anomaly for anomaly in asked if showing[anomaly]}
        for anomaly, states in showing.items():
            self._mark(self._bits[anomaly], states, before)

    def leads_to(self, state: LaneState, wanted: Set[Anomaly]) -> bool:
        """Whether a state of the lane may still come to one of the anomalies wanted."""
        marks = self._marks.get(self._bound.image(state), 0)
        return marks != 0 and any(marks & self._bits[anomaly] for anomaly in wanted)

    def _explore(
        self, lane: Lane, max_states: int
    ) -> tuple[dict[Anomaly, list[FreeState]], dict[FreeState, list[FreeState]]]:
        """The states that show each anomaly, and each state's predecessors."""
        showing: dict[Anomaly, list[FreeState]] = {anomaly: [] for anomaly in self._bits}
        before: dict[FreeState, list[FreeState]] = {self._bound.initial(): []}

        def visit(state: FreeState) -> bool:
            for anomaly in self._bound.shown(state) & self._bits.keys():
                showing[anomaly].append(state)
            return False

        def successors(state: FreeState) -> list[FreeState]:
            reached = self._bound.successors(state)
            for after in reached:
                before.setdefault(after, []).append(state)
            return reached

        if not breadth_first(self._bound.initial(), successors, visit, max_states=max_states).complete:
            raise ScopeNotExhausted(f"more than {max_states} states in the outer bound of {lane}")
        return showing, before

    def _mark(self, bit: int, states: list[FreeState], before: dict[FreeState, list[FreeState]]) -> None:
        marks, left = self._marks, list(states)
        while left:
            state = left.pop()
            mark = marks.get(state, 0)
            if not mark & bit:
                marks[state] = mark | bit
                left += before[state]
