"""Whom a lane's producer takes for the leader while two brokers do."""

from __future__ import annotations

import pytest

from kafka_chaos.reference_model import Lane
from kafka_chaos.reference_model.lane.exchanges import send
from kafka_chaos.reference_model.lane.state import (
    ENOUGH,
    FOLLOWER,
    LEADER,
    NEW,
    NOWHERE,
    ZOMBIE,
    LaneReplica,
    LaneState,
    Record,
)

LANE = Lane(lane="m", acks="1", faults=("partition",))
FOLLOWS = LaneReplica(FOLLOWER, False)
CUT_OFF = LaneReplica(ZOMBIE, False, believed_isr=ENOUGH)
LEADS = LaneReplica(LEADER, True, leader_epoch=1)
RECORDS = (Record(NEW, 2, NOWHERE), Record(NEW, 1, NOWHERE))


@pytest.mark.parametrize("replicas", [(FOLLOWS, CUT_OFF, LEADS), (LEADS, CUT_OFF, FOLLOWS)])
def test_a_producer_that_knows_of_neither_may_address_both(replicas: tuple[LaneReplica, ...]) -> None:
    """Its metadata may be as old as the zombie: nobody need have announced the successor to it."""
    state = LaneState(replicas, 1, RECORDS, 0, ())
    reached = {action.broker: after.known_epoch for action, after in send(state, LANE)}
    assert reached == {replicas.index(CUT_OFF): 0, replicas.index(LEADS): 1}


@pytest.mark.parametrize("replicas", [(FOLLOWS, CUT_OFF, LEADS), (LEADS, CUT_OFF, FOLLOWS)])
def test_a_producer_that_knows_of_the_successor_addresses_no_zombie(replicas: tuple[LaneReplica, ...]) -> None:
    state = LaneState(replicas, 1, RECORDS, 0, (), known_epoch=1)
    assert [action.broker for action, _ in send(state, LANE)] == [replicas.index(LEADS)]
