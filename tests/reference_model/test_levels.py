"""The lane comes to every outcome of the full model: the coarse model leaves out none of the fine one.

An outcome is what the brokers' leader holds, record by record, with what was acknowledged at which offset: all that the
anomalies are made of but what consumers read.
"""

from collections.abc import Iterator
from dataclasses import replace

import cluster_search
import pytest

from kafka_chaos.reference_model import Lane
from kafka_chaos.reference_model.lane.state import OK, Scope, record_of
from kafka_chaos.reference_model.lockstep.brokers import end_parked_fetch
from kafka_chaos.reference_model.lockstep.state import LEADER, ClusterConfig, ClusterState
from kafka_chaos.reference_model.lockstep.stepping import Step
from kafka_chaos.reference_model.search import Budget, breadth_first
from tests.reference_model.lane.every_state import search_in_full
from tests.reference_model.lockstep.cluster_steps import produce
from tests.reference_model.lockstep.test_search import FAULTS, KILL, SLOW_FOLLOWER, TWO

RECORDS = ("m1", "m2")
SCOPE = Scope(records=2, attempts=3)

Outcome = tuple[tuple[int, ...], frozenset[tuple[int, int]]]
"""The records of the leader's log in order, and (record, offset) of each acknowledgement; -1 is no offset."""


def outcomes_of_cluster(config: ClusterConfig, *groups: tuple[Step, ...]) -> set[Outcome]:
    def successors(progress: cluster_search.Progress) -> Iterator[cluster_search.Progress]:
        return (after for _, after in cluster_search.steps(progress, config, groups, (end_parked_fetch,)))

    search = breadth_first((config.initial(), (0,) * len(groups)), successors, lambda _: False, Budget(1_000_000))
    assert search.complete
    return {outcome for state, _ in search.parents if (outcome := outcome_of_cluster(state))}


def outcome_of_cluster(state: ClusterState) -> Outcome | None:
    leader = next((one for one in state.replicas if one.broker == state.partition.leader), None)
    if (
        leader is None
        or leader.role != LEADER
        or not leader.runs
        or leader.leader_epoch != state.partition.leader_epoch
    ):
        return None
    log = tuple(RECORDS.index(entry.record) for entry in leader.log)
    acknowledged = ((RECORDS.index(name), -1 if offset is None else offset) for name, offset in state.acknowledged)
    return log, frozenset(acknowledged)


def outcomes_of_lane(lane: Lane) -> set[Outcome]:
    outcomes = set()
    for state in search_in_full(lane, scope=SCOPE).parents:
        if state.leader >= 0:
            log = tuple(record_of(value) for value in state.replicas[state.leader].log)
            acknowledged = ((index, one.offset) for index, one in enumerate(state.records) if one.status == OK)
            outcomes.add((log, frozenset(acknowledged)))
    return outcomes


@pytest.mark.parametrize(("fault", "environment", "unclean"), FAULTS)
@pytest.mark.parametrize(
    ("acks", "idempotence"),
    [("0", False), ("1", False), pytest.param("all", False, marks=pytest.mark.slow), ("all", True)],
)
def test_the_lane_reaches_every_outcome_of_the_full_model(
    acks: str, idempotence: bool, fault: str, environment: tuple[Step, ...], unclean: bool
) -> None:
    config = replace(TWO, unclean_leader_election=unclean)
    lane = Lane(
        lane="both", acks=acks, idempotence=idempotence, faults=(fault,),
        replication_factor=2, unclean_leader_election=unclean,
    )  # fmt: skip
    load = tuple(produce(record, acks, idempotent=idempotence) for record in RECORDS)
    reached = outcomes_of_cluster(config, load, environment, SLOW_FOLLOWER)
    # The lane's scope bounds how often a record is appended.
    most = list(enumerate(SCOPE.attempts_of(lane)))
    fine = {(log, acknowledged) for log, acknowledged in reached if all(log.count(one) <= count for one, count in most)}
    assert len(fine) > 4
    assert fine - outcomes_of_lane(lane) == set()


def test_a_lane_without_the_fault_misses_outcomes() -> None:
    load = tuple(produce(record, "1") for record in RECORDS)
    fine = outcomes_of_cluster(TWO, load, KILL)
    lost: Outcome = ((), frozenset({(0, 0)}))
    assert lost in fine
    assert lost not in outcomes_of_lane(Lane(lane="both", acks="1", replication_factor=2))
