"""The outer bounds show all that the lane shows: what they exclude is excluded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
from kafka_chaos.reference_model.predict import _log_bounds, predict
from kafka_chaos.reference_model.search import ScopeNotExhausted, breadth_first

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


def search_in_full(lane: Lane, look: Callable[[LaneState, list[LaneState]], None]) -> None:
    """Every state of the lane's own machine with its successors, no bound consulted and nothing left out."""

    def successors(state: LaneState) -> list[LaneState]:
        reached = [canonical(after, lane) for _, after in steps(state, lane, None)]
        look(state, reached)
        return reached

    first = canonical(initial_state(lane), lane)
    assert breadth_first(first, successors, lambda _: False, max_states=500_000).complete


def is_followed(bound: FreeBound, before: FreeState, after: FreeState) -> bool:
    """Whether the bound comes from one state to another by at most one step and attempts that come to nothing."""
    records, producer_epoch = bound.loads.values[after[1]]
    for environment, load, reads in [before, *bound.successors(before)]:
        left, left_epoch = bound.loads.values[load]
        if (environment, reads, left_epoch) == (after[0], after[2], producer_epoch) and all(
            mine.attempts >= wanted.attempts and mine._replace(attempts=0) == wanted._replace(attempts=0)
            for mine, wanted in zip(left, records, strict=True)
        ):
            return True
    return False


@pytest.mark.parametrize("faults", TWO_FAULTS, ids=str)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.lane)
def test_the_bound_follows_every_step_and_its_marks_cut_off_no_way(lane: Lane, faults: tuple[str, ...]) -> None:
    lane = replace(lane, faults=faults)
    bound = FreeBound(lane, kept(lane, set(CHECKS)))
    guide = Guide(lane, sorted(CHECKS), max_states=500_000)
    checked: set[tuple[FreeState, FreeState]] = set()
    in_full: set[Anomaly] = set()

    def look(state: LaneState, reached: list[LaneState]) -> None:
        image = bound.image(state)
        found = shown(ending(state))
        in_full.update(found)
        assert found <= bound.shown(image)
        assert all(guide.leads_to(state, {anomaly}) for anomaly in found)
        for after in reached:
            pair = image, bound.image(after)
            assert pair[0] == pair[1] or pair in checked or is_followed(bound, *pair), (state, after)
            checked.add(pair)

    search_in_full(lane, look)
    assert in_full <= guide.open_questions
    left, _ = _log_bounds(lane, set(CHECKS))
    assert in_full <= left
    permitted = {anomaly for anomaly, answer in predict(lane).anomalies.items() if answer.status != "forbidden"}
    assert permitted == in_full


def test_a_guide_marks_nothing_where_nothing_can_be_shown() -> None:
    lane = Lane(lane="safe", replication_factor=2, faults=("kill", "kill"))
    guide = Guide(lane, [Anomaly.LOST_WRITE], max_states=500_000)
    assert guide.open_questions == set()
    assert not guide.leads_to(canonical(initial_state(lane), lane), {Anomaly.LOST_WRITE})


def test_a_bound_that_is_not_exhausted_guides_nobody() -> None:
    with pytest.raises(ScopeNotExhausted, match="outer bound"):
        Guide(Lane(lane="large", faults=("kill",)), [Anomaly.LOST_WRITE], max_states=10)


def test_the_bound_of_logs_sees_a_follower_that_does_not_truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka_chaos.reference_model import lane_logs

    monkeypatch.setattr(lane_logs, "truncated", lambda log, _: log)
    lane = Lane(lane="careless", acks="1", replication_factor=2, faults=("kill",))
    seen: list[bool] = []
    breadth_first(initial_logs(lane), log_steps, lambda s: bool(seen.append(logs_diverge(s))), max_states=500_000)
    assert any(seen)


def test_renumbering_keeps_the_order_of_the_leader_epochs() -> None:
    def log(*epochs: int) -> tuple[int, ...]:
        return tuple(entry(number, epoch, 0) for number, epoch in enumerate(epochs))

    leader = Replica(LEADER, True, log(1, 4), (-1, -1), 0, 0, 6, SHORT)
    old = Replica(DOWN, False, log(1, 2), (-1, -1), 0, 0, 0, SHORT)
    replicas, epoch = renumbered((leader, old), 6)
    assert epoch == 3
    assert {replica.log for replica in replicas} == {log(0, 2), log(0, 1)}
    assert renumbered(replicas, 3) == (replicas, 3)
