"""The reductions of a lane's search change no answer: every lane of two brokers is also searched in full."""

from collections.abc import Hashable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import CHECKS, ending
from kafka_chaos.reference_model.lane.bounds import MARKED, impossible, steps_without_producer
from kafka_chaos.reference_model.lane.faults import FAULT_ACTIONS
from kafka_chaos.reference_model.lane.state import (
    CAN_STRIKE_AS,
    FOLLOWER,
    FROZEN_LEADER,
    LEADER,
    NOWHERE,
    RETRY,
    ZOMBIE,
    LaneReplica,
    LaneState,
    Record,
    Scope,
    canonical,
    initial_state,
    record_of,
    split_abilities,
)
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.machine import shown
from kafka_chaos.reference_model.predict.defects import beyond_search
from kafka_chaos.reference_model.predict.prediction import predict
from kafka_chaos.reference_model.protocol.entries import entry_of, leader_epoch_of
from kafka_chaos.reference_model.protocol.truncation import Log
from kafka_chaos.reference_model.search import Budget, breadth_first
from tests.reference_model.lane.every_state import search_in_full

MIXES = [
    pytest.param(("kill", "kill"), marks=pytest.mark.slow),
    ("power-loss",),
    ("pause",),
    ("repeat",),
    pytest.param(("repeat", "pause"), marks=pytest.mark.slow),
    pytest.param(("stop", "power-loss"), marks=pytest.mark.slow),
    pytest.param(("pause", "kill"), marks=pytest.mark.slow),
    pytest.param(("power-loss", "pause"), marks=pytest.mark.slow),
    pytest.param(("session-expiry", "partition"), marks=pytest.mark.slow),
]
ELIGIBLE: dict[str, Any] = {"min_insync_replicas": 2, "kafka_version": "4.3.1"}
LANES = [
    Lane(lane="acks0", acks="0", replication_factor=2, unclean_leader_election=True),
    Lane(lane="acks1", acks="1", replication_factor=2),
    Lane(lane="one in flight", acks="1", replication_factor=2, max_in_flight=1),
    Lane(lane="all", replication_factor=2, min_insync_replicas=2),
    Lane(lane="idempotent", replication_factor=2, idempotence=True, unclean_leader_election=True),
    Lane(lane="idempotent, clean", replication_factor=2, idempotence=True),
    Lane(lane="idempotent, last member", replication_factor=2, idempotence=True, kafka_version="4.3.1"),
    Lane(lane="acks0, clean", acks="0", replication_factor=2, min_insync_replicas=2),
    Lane(lane="idempotent, nothing lost", replication_factor=2, min_insync_replicas=2, idempotence=True),
    Lane(lane="eligible", replication_factor=2, **ELIGIBLE),
    Lane(lane="eligible, unclean", acks="1", replication_factor=2, unclean_leader_election=True, **ELIGIBLE),
]
AT_NIGHT = ("acks0", "one in flight", "idempotent, clean", "eligible")
"""Lanes that differ in one setting from one of the day's."""
EACH_LANE = pytest.mark.parametrize(
    "lane", [pytest.param(one, id=one.lane, marks=[pytest.mark.slow] if one.lane in AT_NIGHT else []) for one in LANES]
)


def permitted(lane: Lane) -> dict[Anomaly, tuple[str, ...]]:
    """The search's findings; an axiom's answer is none of its states, nor is what is said beside the search."""
    found, beside = predict(lane), dict(beyond_search(lane, ())).values()
    answers = ((one, found.anomalies[one]) for one in CHECKS if found.status(one) != "forbidden")
    return {one: answer.why for one, answer in answers if answer.why not in beside}


@pytest.mark.parametrize("faults", MIXES, ids=str)
@EACH_LANE
def test_the_search_finds_what_a_full_one_finds_by_as_few_faults_and_steps(lane: Lane, faults: tuple[str, ...]) -> None:
    lane = replace(lane, faults=faults)
    search = search_in_full(lane)
    nearest: dict[Anomaly, tuple[int, int]] = {}
    for state in search.parents:
        for anomaly in shown(ending(state), CHECKS):
            cost = len(faults) - len(state.faults), len(search.path(state))
            nearest[anomaly] = min(nearest.get(anomaly, cost), cost)
    found = {
        anomaly: len([sentence for sentence in why if not sentence.startswith("Consumers read")])
        for anomaly, why in permitted(lane).items()
    }
    assert not impossible(CHECKS.keys(), [lane], Scope(), Budget(1_000_000)) & nearest.keys()
    # A path has one state more than steps, and a story one sentence more: how the run ends.
    assert found == {anomaly: length for anomaly, (_, length) in nearest.items()}


@pytest.mark.parametrize("faults", [("kill",), ("session-expiry",), ("power-loss",)], ids=str)
@EACH_LANE
def test_states_that_count_as_one_show_what_they_show_alone(lane: Lane, faults: tuple[str, ...]) -> None:
    """Nothing is canonical here: broker names, leader epochs and idle zombies all make a difference."""
    lane = replace(lane, faults=faults)
    search = search_in_full(lane, lambda state, _: state)
    assert {anomaly for state in search.parents for anomaly in shown(ending(state), CHECKS)} == set(permitted(lane))


def test_states_that_differ_in_the_brokers_names_alone_are_one() -> None:
    lane = Lane(lane="renamed", faults=("kill", "pause"))
    first = canonical(initial_state(lane), lane)
    reached = {after for _, after in steps(first, lane, None)}
    for state in reached:
        assert len({canonical(state._replace(replicas=r), lane) for r in permutations(state.replicas)}) == 1


@pytest.mark.parametrize("kind", CAN_STRIKE_AS)
@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_brokers_in_equal_states_take_equal_steps(kind: str, unclean: bool, version: str) -> None:
    """Among all orders of three replicas, each of two equal ones comes first and apart from the other in some."""
    lane = Lane(
        lane="equal", min_insync_replicas=2, unclean_leader_election=unclean, kafka_version=version, faults=(kind, kind)
    )

    def successors(state: LaneState) -> set[LaneState]:
        return {canonical(after, lane) for _, after in steps(state, lane, None)}

    states = breadth_first(canonical(initial_state(lane), lane), successors, lambda _: False, Budget(150)).parents
    for state in states:
        renamed = (state._replace(replicas=order) for order in permutations(state.replicas))
        assert successors(state) == set().union(*map(successors, renamed))


def test_means_are_the_faults_the_reads_and_the_attempts() -> None:
    lane = Lane(lane="abilities", faults=("kill", "kill", "pause"))
    state = initial_state(lane)
    rest, abilities = split_abilities(state, lane)
    first, second = state.records
    for fewer in (
        state._replace(faults=("kill", "pause")),
        state._replace(faults=("kill", "kill")),
        state._replace(records=(first._replace(attempts=1), second)),
    ):
        same, others = split_abilities(fewer, lane)
        assert same == rest
        assert others != abilities
        assert others & abilities == others
    assert split_abilities(state._replace(reads=1), lane)[1] & abilities == abilities
    one_in_flight = replace(lane, max_in_flight=1)
    assert split_abilities(fewer, one_in_flight)[0] != split_abilities(state, one_in_flight)[0]


@pytest.mark.parametrize(
    ("faults", "others", "do_as_much"),
    [
        (("partition",), ("pause",), True),
        (("partition",), ("session-expiry",), True),
        (("pause",), ("partition",), False),
        (("power-loss", "stop"), ("kill", "stop"), True),
        (("kill",), ("stop",), False),
        (("partition", "kill"), ("pause", "session-expiry"), False),
        (("partition", "pause"), ("pause", "session-expiry"), True),
    ],
    ids=str,
)
def test_a_fault_that_can_do_more_makes_another_superfluous(
    faults: tuple[str, ...], others: tuple[str, ...], do_as_much: bool
) -> None:
    lane = Lane(lane="abilities", faults=faults)
    state = initial_state(lane)
    abilities, fewer = (split_abilities(state._replace(faults=some), lane)[1] for some in (faults, others))
    assert (abilities & fewer == fewer) is do_as_much


@pytest.mark.parametrize(
    ("stronger", "weaker"), [("power-loss", "kill"), ("partition", "pause"), ("partition", "session-expiry")]
)
@pytest.mark.parametrize("role", [FOLLOWER, LEADER, ZOMBIE, FROZEN_LEADER])
@EACH_LANE
def test_what_a_fault_can_do_one_that_makes_it_superfluous_can_do(
    lane: Lane, stronger: str, weaker: str, role: int
) -> None:
    broker = LaneReplica(role, True, (0,))
    state = initial_state(lane)._replace(replicas=(LaneReplica(FOLLOWER, True, (0,)), broker))

    def struck(kind: str) -> set[LaneState]:
        return {after for _, after in FAULT_ACTIONS[kind](state, lane, 1)}

    assert struck(weaker) <= struck(stronger)


def brokers_of(state: LaneState, marked: tuple[int, int] | None) -> Hashable:
    """A state as a load without a producer knows it: of all entries only the one of this leader epoch and offset has
    a name."""

    def named(log: Log) -> Log:
        places = ((leader_epoch_of(value), offset) for offset, value in enumerate(log))
        return tuple(entry_of(int(place == marked), place[0]) for place in places)

    replicas = (r._replace(log=named(r.log), pending=(), awaited=(), unawaited=()) for r in state.replicas)
    return tuple(sorted(replicas)), state.leader_epoch, state.faults


@pytest.mark.parametrize(
    "faults",
    [
        ("partition",),
        ("power-loss",),
        ("stop",),
        # What these do, one of the others does: test_what_a_fault_can_do_one_that_makes_it_superfluous_can_do.
        pytest.param(("kill",), marks=pytest.mark.slow),
        pytest.param(("pause",), marks=pytest.mark.slow),
    ],
    ids=str,
)
@EACH_LANE
def test_brokers_do_nothing_that_they_do_not_do_without_a_producer(lane: Lane, faults: tuple[str, ...]) -> None:
    lane = replace(lane, faults=faults)
    count = sum(Scope().attempts_of(lane))
    loaded = initial_state(lane)._replace(records=(Record(RETRY, count - 1, NOWHERE), Record(RETRY, 1, NOWHERE)))
    bound = breadth_first(loaded, lambda state: steps_without_producer(state, lane), lambda _: False, Budget(2_000_000))
    assert bound.complete
    known = {brokers_of(state, place_of_the_marked(state)) for state in bound.parents}
    for state in search_in_full(lane, lambda state, _: state).parents:
        logs = [replica.log for replica in state.replicas]
        places = {(leader_epoch_of(value), at) for log in logs for at, value in enumerate(log)}
        marked: set[tuple[int, int] | None] = {*places} or {None}
        assert all(brokers_of(state, place) in known for place in marked)


def place_of_the_marked(state: LaneState) -> tuple[int, int] | None:
    for replica in state.replicas:
        for offset, value in enumerate(replica.log):
            if record_of(value) == MARKED:
                return leader_epoch_of(value), offset
    return None


ENTRIES = {"lost_write", "truncated_read", "offset_mismatch", "inconsistent_offset"}


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        (Lane(lane="clean", faults=("kill", "partition")), {*ENTRIES, "replica_divergence"}),
        (Lane(lane="clean", acks="1", faults=("kill", "partition")), {"truncated_read", "replica_divergence"}),
        (Lane(lane="unclean", idempotence=True, unclean_leader_election=True, faults=("pause",)),
         {"reordered", "replica_divergence"}),
        (Lane(lane="idempotent", idempotence=True, faults=("kill", "pause")),
         {*ENTRIES, "replica_divergence", "reordered", "duplicate"}),
        (Lane(lane="power", faults=("power-loss",)), {"replica_divergence"}),
        (Lane(lane="appended once", idempotence=True, faults=("power-loss", "pause")),
         {"replica_divergence", "reordered", "duplicate", "offset_mismatch"}),
        # With eligible replicas, one power loss loses no acknowledged record: its producer never renews its epoch.
        (Lane(lane="kept", idempotence=True, **ELIGIBLE, faults=("power-loss", "pause")),
         {*ENTRIES, "replica_divergence", "reordered", "duplicate"}),
        (Lane(lane="unacknowledged", acks="0", **ELIGIBLE, faults=("power-loss", "pause")),
         {*ENTRIES - {"lost_write"}, "replica_divergence", "duplicate"}),
        (Lane(lane="eligible", **ELIGIBLE, faults=("power-loss",)), {*ENTRIES, "replica_divergence"}),
        (Lane(lane="old", kafka_version="0.10.2.2", min_insync_replicas=2, faults=("kill", "kill")),
         {"replica_divergence"}),
    ],
    ids=lambda value: value.lane if isinstance(value, Lane) else "",
)  # fmt: skip
def test_bounds_exclude(lane: Lane, expected: set[str]) -> None:
    assert impossible(CHECKS.keys(), [lane], Scope(), Budget(1_000_000)) == expected
    assert not impossible(CHECKS.keys(), [lane], Scope(), Budget(1))
