"""The outer bounds show all that the lane shows: what they exclude is excluded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from operator import ge

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.predict import state as lane_state
from kafka_chaos.reference_model.predict.anomalies import CHECKS, ending, shown
from kafka_chaos.reference_model.predict.bounds.abstraction import FreeBound, FreeState, kept
from kafka_chaos.reference_model.predict.bounds.environments import Environments, renumbered
from kafka_chaos.reference_model.predict.bounds.heuristic import Guide
from kafka_chaos.reference_model.predict.bounds.logs import initial_logs, log_steps, logs_diverge
from kafka_chaos.reference_model.predict.prediction import _witnesses, predict
from kafka_chaos.reference_model.predict.state import (
    DOWN,
    FROZEN_LEADER,
    LEADER,
    SHORT,
    ZOMBIE,
    LaneReplica,
    LaneState,
    canonical,
    entry,
    initial_state,
    replace_at,
    with_record,
)
from kafka_chaos.reference_model.predict.steps import steps
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.search import Budget, Search, breadth_first

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
    search = breadth_first(first, successors, lambda _: False, Budget(500_000))
    assert search.complete
    return search


def with_as_many_means(bound: FreeBound, state: FreeState, other: FreeState) -> bool:
    """Whether a state of the bound can stand for another: the same rest, and no fewer means."""
    (rest, means), (others, needed) = bound.parted(state), bound.parted(other)
    return rest == others and all(map(ge, means, needed))


def is_followed(bound: FreeBound, before: FreeState, after: FreeState) -> bool:
    """Whether the bound keeps ahead of a step of the lane by at most one step and idle ones.

    An idle one is a zombie that settles: in the lane it settles in the same step as the producer addresses its
    successor.
    """
    reached = {before, *bound.steps(before)}
    left = list(reached)
    while left:
        more = set(bound.settled(left.pop())) - reached
        reached |= more
        left += more
    return any(with_as_many_means(bound, state, after) for state in reached)


def with_fewer_means(state: LaneState) -> Iterator[LaneState]:
    """A state of the bound, in the lane's form, with less: an attempt, what a socket may hold, zombies to address."""
    for index, record in enumerate(state.records):
        if record.attempts:
            less = record._replace(attempts=record.attempts - 1)
            yield with_record(state, index, less)
    for broker, replica in enumerate(state.replicas):
        for emptied in (replica._replace(socket=0), replica._replace(socket=0, abandoned=0)):
            if emptied != replica and replica.role != FROZEN_LEADER:
                yield state._replace(replicas=replace_at(state.replicas, broker, emptied))
    if any(replica.role == ZOMBIE for replica in state.replicas):
        yield state._replace(known_epoch=state.leader_epoch + 1)


def distances(first: set[LaneState], before: dict[LaneState, list[LaneState]]) -> dict[LaneState, int]:
    """The true number of steps from each state of the lane to the nearest of some."""
    found, frontier = dict.fromkeys(first, 0), list(first)
    for state in frontier:
        for earlier in before.get(state, ()):
            if earlier not in found:
                found[earlier] = found[state] + 1
                frontier.append(earlier)
    return found


@pytest.mark.parametrize("faults", TWO_FAULTS, ids=str)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.lane)
def test_the_bound_keeps_ahead_of_every_step_and_its_distances_cut_off_no_way(
    lane: Lane, faults: tuple[str, ...]
) -> None:
    lane = replace(lane, faults=faults)
    bound = FreeBound(Environments(lane), kept(lane, set(CHECKS)))
    guide = Guide(lane, CHECKS, bound, Budget(500_000))
    checked: set[tuple[FreeState, FreeState]] = set()
    showing: dict[Anomaly, set[LaneState]] = {}
    before: dict[LaneState, list[LaneState]] = {}

    def look(state: LaneState, reached: list[LaneState]) -> None:
        image = bound.image(state)
        found = shown(ending(state))
        for anomaly in found:
            showing.setdefault(anomaly, set()).add(state)
        assert found <= bound.shown(image)
        for after in reached:
            before.setdefault(after, []).append(state)
            pair = image, bound.image(after)
            if pair[0] != pair[1] and pair not in checked:
                assert is_followed(bound, *pair), (state, after)
                checked.add(pair)

    search = search_in_full(lane, look)
    assert set(showing) <= guide.open_questions
    permitted = {anomaly for anomaly, answer in predict(lane).anomalies.items() if answer.status != "forbidden"}
    assert permitted == set(showing)
    first, guided = _witnesses(lane, guide, Budget(500_000))
    assert set(first) == set(showing)
    for anomaly, states in showing.items():
        assert len(guided.path(first[anomaly])) == min(len(search.path(state)) for state in states), anomaly
        for state, steps_left in distances(states, before).items():
            reported = guide.steps_to(state, {anomaly})
            assert reported is not None, (state, anomaly)
            assert reported <= steps_left, (state, anomaly)


def packed(bound: FreeBound, state: LaneState) -> FreeState:
    """What `unpack` gave, packed again: `image` adds the requests in sockets, which are counted as attempts already."""
    queued = [sum(r.abandoned for r in state.replicas), sum(r.socket >> 1 for r in state.replicas)]
    records = [r._replace(attempts=r.attempts - more) for r, more in zip(state.records, queued, strict=True)]
    return bound.image(state._replace(records=tuple(records)))


@pytest.mark.parametrize("faults", TWO_FAULTS, ids=str)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.lane)
def test_a_state_of_the_bound_can_do_what_it_can_with_fewer_means(lane: Lane, faults: tuple[str, ...]) -> None:
    lane = replace(lane, faults=faults)
    bound = FreeBound(Environments(lane), kept(lane, set(CHECKS)))
    initial = bound.image(canonical(initial_state(lane), lane))
    search = breadth_first(initial, lambda s: bound.steps(s) + bound.settled(s), lambda _: False, Budget(500_000))
    assert search.complete
    for state in search.parents:
        for fewer in {packed(bound, fewer) for fewer in with_fewer_means(bound.unpack(state))} - {state}:
            assert with_as_many_means(bound, state, fewer)
            assert not with_as_many_means(bound, fewer, state)
            assert bound.shown(state) == bound.shown(fewer)
            for after in bound.steps(fewer) + bound.settled(fewer):
                assert is_followed(bound, state, after), (bound.unpack(state), bound.unpack(fewer))


def test_states_that_differ_in_the_brokers_names_alone_are_one() -> None:
    lane = Lane(lane="renamed", faults=("kill", "pause"))
    first = canonical(initial_state(lane), lane)
    reached = {after for _, after in steps(first, lane, None)}
    for state in reached:
        assert len({canonical(state._replace(replicas=r), lane) for r in permutations(state.replicas)}) == 1
    assert len({canonical(state, lane) for state in reached}) < len(reached)


def bound_of(lane: Lane) -> FreeBound:
    return FreeBound(Environments(lane), kept(lane, {Anomaly.LOST_WRITE}))


def test_a_guide_leads_nowhere_where_nothing_can_be_shown() -> None:
    lane = Lane(lane="safe", replication_factor=2, faults=("kill", "kill"))
    guide = Guide(lane, [Anomaly.LOST_WRITE], bound_of(lane), Budget(500_000))
    assert guide.open_questions == set()
    assert guide.steps_to(canonical(initial_state(lane), lane), {Anomaly.LOST_WRITE}) is None


def test_a_bound_that_is_not_exhausted_guides_nobody() -> None:
    lane = Lane(lane="large", faults=("kill",))
    assert not Guide(lane, [Anomaly.LOST_WRITE], bound_of(lane), Budget(10)).complete


def test_the_bound_of_logs_sees_a_follower_that_does_not_truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    careless = replace(PROTOCOLS["kip320"], truncation=lambda log, watermark, leader_log: len(log))
    monkeypatch.setattr(lane_state, "PROTOCOL", careless)
    lane = Lane(lane="careless", acks="1", replication_factor=2, faults=("kill",))
    search = breadth_first(initial_logs(lane), log_steps, lambda _: False, Budget(500_000))
    assert any(map(logs_diverge, search.parents))


def test_renumbering_keeps_the_order_of_the_leader_epochs() -> None:
    def log(*epochs: int) -> tuple[int, ...]:
        return tuple(entry(number, epoch, 0) for number, epoch in enumerate(epochs))

    leader = LaneReplica(LEADER, True, log(1, 4), (-1, -1), 0, 0, 6, SHORT)
    old = LaneReplica(DOWN, False, log(1, 2), (-1, -1), 0, 0, 0, SHORT)
    replicas, epoch, known = renumbered((leader, old), 6, 6)
    assert (epoch, known) == (3, 0)
    assert {replica.log for replica in replicas} == {log(0, 2), log(0, 1)}
    assert renumbered(replicas, 3, 0) == (replicas, 3, 0)


def test_renumbering_keeps_which_zombies_the_producer_addresses_no_more() -> None:
    def deposed(leader_epoch: int) -> LaneReplica:
        return LaneReplica(ZOMBIE, False, (), (-1, -1), 0, 0, leader_epoch, SHORT)

    replicas = deposed(2), deposed(4), LaneReplica(LEADER, True, (), (-1, -1), 0, 0, 7, SHORT)
    known_epochs = {known: renumbered(replicas, 7, known)[2] for known in range(8)}
    assert known_epochs == {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2, 7: 2}
