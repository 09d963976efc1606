"""The outer bounds show all that the lane shows: what they exclude is excluded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_anomalies import CHECKS, ending, shown
from kafka_chaos.reference_model.lane_free import FreeBound, FreeState, kept, renumbered
from kafka_chaos.reference_model.lane_guide import Guide
from kafka_chaos.reference_model.lane_logs import initial_logs, log_steps, logs_diverge
from kafka_chaos.reference_model.lane_state import (
    DOWN,
    LEADER,
    SHORT,
    LaneState,
    Replica,
    canonical,
    entry,
    initial_state,
)
from kafka_chaos.reference_model.lane_steps import steps
from kafka_chaos.reference_model.predict import _log_bounds, _witnesses, predict
from kafka_chaos.reference_model.search import ScopeNotExhausted, Search, breadth_first

TWO_FAULTS = [
    ("kill", "kill"),
    ("stop", "power-loss"),
    pytest.param(("pause", "kill"), marks=pytest.mark.slow),
    pytest.param(("session-expiry", "partition"), marks=pytest.mark.slow),
]
LANES = [
    Lane(lane="acks1", acks="1", replication_factor=2),
    Lane(lane="all", replication_factor=2, min_insync_replicas=2),
    Lane(lane="idempotent", replication_factor=2, idempotence=True, unclean_leader_election=True),
]


def search_in_full(lane: Lane, look: Callable[[LaneState, list[LaneState]], None]) -> Search[LaneState]:
    """Every state of the lane's own machine with its successors, no bound consulted and nothing left out."""

    def successors(state: LaneState) -> list[LaneState]:
        reached = [canonical(after, lane) for _, after in steps(state, lane, None)]
        look(state, reached)
        return reached

    first = canonical(initial_state(lane), lane)
    search = breadth_first(first, successors, lambda _: False, max_states=500_000)
    assert search.complete
    return search


def is_followed(bound: FreeBound, before: FreeState, after: FreeState) -> bool:
    """Whether the bound comes from one state to another by at most one step and idle ones.

    An idle one is an attempt that comes to nothing, or a zombie that settles: in the lane it settles in the same
    step as the producer addresses its successor.
    """
    reached = {before, *bound.successors(before)[0]}
    left = list(reached)
    while left and after not in reached:
        more = set(bound.successors(left.pop())[1]) - reached
        reached |= more
        left += more
    return after in reached


@pytest.mark.parametrize("faults", TWO_FAULTS, ids=str)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.lane)
def test_the_bound_follows_every_step_and_its_distances_cut_off_no_way(lane: Lane, faults: tuple[str, ...]) -> None:
    lane = replace(lane, faults=faults)
    bound = FreeBound(lane, kept(lane, set(CHECKS)))
    guide = Guide(lane, sorted(CHECKS), max_states=500_000)
    checked: set[tuple[FreeState, FreeState]] = set()
    in_full: dict[Anomaly, LaneState] = {}

    def look(state: LaneState, reached: list[LaneState]) -> None:
        image = bound.image(state)
        found = shown(ending(state))
        in_full.update(dict.fromkeys(found - set(in_full), state))
        assert found <= bound.shown(image)
        assert all(guide.steps_to(state, {anomaly}) == 0 for anomaly in found)
        for after in reached:
            pair = image, bound.image(after)
            if pair[0] != pair[1] and pair not in checked:
                assert is_followed(bound, *pair), (state, after)
                checked.add(pair)

    search = search_in_full(lane, look)
    assert set(in_full) <= guide.open_questions
    left, _ = _log_bounds(lane, set(CHECKS))
    assert set(in_full) <= left
    permitted = {anomaly for anomaly, answer in predict(lane).anomalies.items() if answer.status != "forbidden"}
    assert permitted == set(in_full)
    first, guided = _witnesses(lane, guide)
    for anomaly, state in first.items():
        assert len(guided.path(state)) == len(search.path(in_full.pop(anomaly))), anomaly
    assert not in_full


def test_states_that_differ_in_the_brokers_names_alone_are_one() -> None:
    lane = Lane(lane="renamed", faults=("kill", "pause"))
    first = canonical(initial_state(lane), lane)
    reached = {after for _, after in steps(first, lane, None)}
    for state in reached:
        assert len({canonical(state._replace(replicas=r), lane) for r in permutations(state.replicas)}) == 1
    assert len({canonical(state, lane) for state in reached}) < len(reached)


def test_a_guide_leads_nowhere_where_nothing_can_be_shown() -> None:
    lane = Lane(lane="safe", replication_factor=2, faults=("kill", "kill"))
    guide = Guide(lane, [Anomaly.LOST_WRITE], max_states=500_000)
    assert guide.open_questions == set()
    assert guide.steps_to(canonical(initial_state(lane), lane), {Anomaly.LOST_WRITE}) is None


def test_a_bound_that_is_not_exhausted_guides_nobody() -> None:
    with pytest.raises(ScopeNotExhausted, match="outer bound"):
        Guide(Lane(lane="large", faults=("kill",)), [Anomaly.LOST_WRITE], max_states=10)


def test_the_bound_of_logs_sees_a_follower_that_does_not_truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka_chaos.reference_model import lane_logs

    monkeypatch.setattr(lane_logs, "truncated", lambda log, _: log)
    lane = Lane(lane="careless", acks="1", replication_factor=2, faults=("kill",))
    search = breadth_first(initial_logs(lane), log_steps, lambda _: False, max_states=500_000)
    assert any(map(logs_diverge, search.parents))


def test_renumbering_keeps_the_order_of_the_leader_epochs() -> None:
    def log(*epochs: int) -> tuple[int, ...]:
        return tuple(entry(number, epoch, 0) for number, epoch in enumerate(epochs))

    leader = Replica(LEADER, True, log(1, 4), (-1, -1), 0, 0, 6, SHORT)
    old = Replica(DOWN, False, log(1, 2), (-1, -1), 0, 0, 0, SHORT)
    replicas, epoch = renumbered((leader, old), 6)
    assert epoch == 3
    assert {replica.log for replica in replicas} == {log(0, 2), log(0, 1)}
    assert renumbered(replicas, 3) == (replicas, 3)
