"""Whether replicas diverge is told by the logs that two of them may have: no fault makes others.

So many faults cost no more than a few.
"""

from dataclasses import replace
from itertools import permutations

import pytest

from kafka_chaos.reference_model import Lane
from kafka_chaos.reference_model.lane import bounds
from kafka_chaos.reference_model.lane import state as states
from kafka_chaos.reference_model.lane.exchanges import send
from kafka_chaos.reference_model.predict.prediction import predict
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.protocol.entries import entry_of, leader_epoch_of
from kafka_chaos.reference_model.protocol.truncation import Log
from kafka_chaos.reference_model.search import Budget, breadth_first

ENTRIES = 3

BY_NIGHT = [
    Lane(lane="unclean", acks="1", unclean_leader_election=True, faults=("partition", "kill")),
    Lane(lane="power", acks="1", faults=("power-loss", "pause")),
    Lane(lane="kip101", acks="1", unclean_leader_election=True, kafka_version="1.1.1", faults=("kill", "pause")),
]
BY_DAY = Lane(lane="eligible", min_insync_replicas=2, kafka_version="4.3.1", faults=("power-loss", "session-expiry"))


@pytest.mark.parametrize(
    "lane", [*(pytest.param(lane, marks=pytest.mark.slow) for lane in BY_NIGHT), BY_DAY], ids=lambda lane: lane.lane
)
def test_the_logs_of_any_two_replicas_are_among_those_that_may_be(lane: Lane) -> None:
    loaded = states.initial_state(lane)._replace(records=(states.Record(states.RETRY, ENTRIES, states.NOWHERE),))
    reached = breadth_first(
        states.canonical(loaded, lane),
        lambda state: [states.canonical(after, lane) for after in bounds.steps_without_producer(state, lane)],
        lambda _: False,
        Budget(1_000_000),
    )
    assert reached.complete
    found = {
        in_order(one.log, other.log) for state in reached.parents for one, other in permutations(state.replicas, 2)
    }
    assert found <= set(bounds.pairs_of_logs(ENTRIES, Budget(10_000)))
    assert len(found) > 20


def in_order(one: Log, other: Log) -> tuple[Log, Log]:
    """The logs without names, their leader epochs counted from 0 on."""
    epochs = sorted({leader_epoch_of(value) for value in (*one, *other)})

    def counted(log: Log) -> Log:
        return tuple(entry_of(0, epochs.index(leader_epoch_of(value))) for value in log)

    return counted(one), counted(other)


@pytest.mark.parametrize(
    ("variant", "exact", "keeps"),
    [
        ("truncate-to-high-watermark", False, False), ("kip101", False, True),
        ("kip279", True, False), ("kip320", True, False), ("kip101-fenced", False, True),
    ],
)  # fmt: skip
def test_truncation_to_the_last_common_epoch_leaves_what_is_common_and_nothing_else(
    variant: str, exact: bool, keeps: bool
) -> None:
    rule = PROTOCOLS[variant].truncation
    pairs = list(bounds.pairs_of_logs(5, Budget(10_000)))
    assert exact == all(bounds.keeps_what_is_common(rule, *logs) for logs in pairs)
    assert keeps == any(bounds.keeps_too_much(rule, *logs) for logs in pairs)


@pytest.mark.parametrize("replicas", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["kill", "power-loss"])
def test_many_faults_of_a_kind_cost_no_more_than_a_few(kind: str, replicas: int) -> None:
    lane = Lane(lane="looping", idempotence=True, unclean_leader_election=True, replication_factor=replicas)
    told = []
    for count in (5, 40):
        budget = Budget(20_000)
        found = predict(replace(lane, faults=(kind,) * count), budget=budget)
        told.append((budget.states, {anomaly: answer.status for anomaly, answer in found.anomalies.items()}))
    assert told[0] == told[1]


LANE = Lane(lane="m", acks="1", faults=("partition",))
FOLLOWS = states.LaneReplica(states.FOLLOWER, False)
CUT_OFF = states.LaneReplica(states.ZOMBIE, False, believed_isr=states.ENOUGH)
LEADS = states.LaneReplica(states.LEADER, True, leader_epoch=1)
RECORDS = (states.Record(states.NEW, 2, states.NOWHERE), states.Record(states.NEW, 1, states.NOWHERE))


@pytest.mark.parametrize("replicas", [(FOLLOWS, CUT_OFF, LEADS), (LEADS, CUT_OFF, FOLLOWS)])
def test_a_producer_addresses_a_zombie_until_it_knows_of_the_successor(
    replicas: tuple[states.LaneReplica, ...],
) -> None:
    """Its metadata may be as old as the zombie: nobody need have announced the successor to it."""
    state = states.LaneState(replicas, 1, RECORDS, 0, ())
    reached = {action.broker: after.addressed_epoch for action, after in send(state, LANE)}
    assert reached == {replicas.index(CUT_OFF): 0, replicas.index(LEADS): 1}
    assert [action.broker for action, _ in send(state._replace(addressed_epoch=1), LANE)] == [replicas.index(LEADS)]
