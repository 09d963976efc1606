"""How far a state of a lane is at least from an anomaly, or that it does not lead there.

The outer bound (`bounds/abstraction.py`) is exhausted. From its states that show an anomaly, steps are counted back to
all states that lead there. The bound keeps ahead of every run of the lane, step by step. So a run that ends with an
anomaly passes only states for which the bound has a state with the same rest, no fewer means and such a distance, and
has at least as many steps before it. A state without one may be left out, and an anomaly that no state leads to is
forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from operator import ge

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.predict.bounds.abstraction import FreeBound, FreeState, Rest
from kafka_chaos.reference_model.predict.bounds.environments import Means
from kafka_chaos.reference_model.predict.state import LaneState, canonical, initial_state
from kafka_chaos.reference_model.search import Budget, breadth_first

Before = dict[FreeState, list[FreeState]]
"""The states from which one is reached by a step."""


class Guide:
    """The distances of one lane to some open questions; of no use unless the bound is `complete`ly searched.

    `states` is the number of the bound's states, `open_questions` what some of them shows.
    """

    def __init__(self, lane: Lane, questions: Iterable[Anomaly], bound: FreeBound, budget: Budget) -> None:
        self._bound = bound
        taken: Before = {}
        idle: Before = {}
        showing: dict[Anomaly, list[FreeState]] = {anomaly: [] for anomaly in questions}

        def visit(state: FreeState) -> bool:
            for anomaly in bound.shown(state) & showing.keys():
                showing[anomaly].append(state)
            return False

        def successors(state: FreeState) -> list[FreeState]:
            reached, waited = bound.steps(state), bound.settled(state)
            for after in reached:
                taken.setdefault(after, []).append(state)
            for after in waited:
                idle.setdefault(after, []).append(state)
            return reached + waited

        initial = bound.image(canonical(initial_state(lane), lane))
        search = breadth_first(initial, successors, visit, budget)
        self.complete = search.complete
        self.states = len(search.parents)
        self.open_questions = {anomaly for anomaly, states in showing.items() if states}
        self._distances = {
            anomaly: self._by_rest(_distances(showing[anomaly], taken, idle)) for anomaly in self.open_questions
        }
        self._known: dict[tuple[Anomaly, FreeState], int | None] = {}

    def steps_to(self, state: LaneState, wanted: Set[Anomaly]) -> int | None:
        """The steps that a state of the lane is at least away from the nearest anomaly wanted, or None: it leads
        to none of them."""
        image = self._bound.image(state)
        known = [self._steps_from(image, anomaly) for anomaly in self.open_questions & wanted]
        return min([steps for steps in known if steps is not None], default=None)

    def _steps_from(self, image: FreeState, anomaly: Anomaly) -> int | None:
        key = anomaly, image
        if key not in self._known:
            rest, means = self._bound.parted(image)
            alike = self._distances[anomaly].get(rest, ())
            self._known[key] = next((steps for steps, others in alike if all(map(ge, others, means))), None)
        return self._known[key]

    def _by_rest(self, distances: dict[FreeState, int]) -> dict[Rest, list[tuple[int, Means]]]:
        """The distances and means of the states that have a rest in common, the nearest first."""
        alike: dict[Rest, list[tuple[int, Means]]] = {}
        for state, steps in distances.items():
            rest, means = self._bound.parted(state)
            alike.setdefault(rest, []).append((steps, means))
        for known in alike.values():
            known.sort()
        return alike


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
