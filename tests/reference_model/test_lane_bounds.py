"""The outer bounds show all that the lane shows: what they exclude is excluded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_anomalies import CHECKS, ending, shown
from kafka_chaos.reference_model.lane_free import FreeBound, renumbered
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
from kafka_chaos.reference_model.predict import _log_bounds
from kafka_chaos.reference_model.search import breadth_first

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


def shown_in_full(lane: Lane) -> set[Anomaly]:
    """What the lane's own machine shows, with no bound consulted."""
    found: set[Anomaly] = set()

    def visit(state: LaneState) -> bool:
        found.update(shown(ending(state)))
        return False

    first = canonical(initial_state(lane), lane)
    search = breadth_first(
        first, lambda s: [canonical(a, lane) for _, a in steps(s, lane, None)], visit, max_states=500_000
    )
    assert search.complete
    return found


@pytest.mark.parametrize("faults", TWO_FAULTS, ids=str)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.lane)
def test_what_the_lane_shows_each_bound_shows(lane: Lane, faults: tuple[str, ...]) -> None:
    lane = replace(lane, faults=faults)
    in_full = shown_in_full(lane)
    left, _ = _log_bounds(lane, set(CHECKS))
    assert in_full <= left
    model = FreeBound(lane, ~0)
    bound: set[Anomaly] = set()

    def visit(state: tuple[int, int, int, int]) -> bool:
        bound.update(model.shown(state))
        return False

    assert breadth_first(model.initial(), model.successors, visit, max_states=500_000).complete
    assert in_full <= bound


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
