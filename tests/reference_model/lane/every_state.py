"""All states of a lane's own machine."""

from collections.abc import Callable

from kafka_chaos.reference_model import Lane
from kafka_chaos.reference_model.lane.state import DEFAULT_SCOPE, LaneState, Scope, canonical, initial_state
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.search import Budget, Search, breadth_first


def search_in_full(
    lane: Lane, same: Callable[[LaneState, Lane], LaneState] = canonical, scope: Scope = DEFAULT_SCOPE
) -> Search[LaneState]:
    """Every state, but for what `same` makes one."""
    search = breadth_first(
        same(initial_state(lane, scope), lane),
        lambda state: [same(after, lane) for _, after in steps(state, lane, None)],
        lambda _: False,
        Budget(3_000_000),
    )
    assert search.complete
    return search
