"""Versions and metadata modes differ as docs/decisions/0039-kraft.md and KIP-966 say, and in nothing else."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane import membership
from kafka_chaos.reference_model.lane.replication import ELECTIONS, elect
from kafka_chaos.reference_model.lane.state import ELIGIBLE, FOLLOWER, LEADER, OK, LaneReplica, initial_state, record_of
from kafka_chaos.reference_model.lane.story import SENTENCES
from kafka_chaos.reference_model.predict.cache import question_key
from kafka_chaos.reference_model.predict.prediction import predict
from kafka_chaos.reference_model.protocol.rules import rules_in
from tests.reference_model.answers import answer, shown
from tests.reference_model.lane.every_state import search_in_full

pytestmark = pytest.mark.xdist_group("answers")
"""In one process, which asks for each answer once (`answers.py`)."""

STOCK = Lane(lane="orders", acks="1", min_insync_replicas=2)
SAFE = replace(STOCK, acks="all")
UNCLEAN = replace(SAFE, unclean_leader_election=True)
OF_COMMITTED = {Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ}


def on(lane: Lane, version: str, mode: str = "kraft", elr: bool | None = None) -> Lane:
    return replace(lane, kafka_version=version, metadata_mode=mode, elr=elr)


def permitted(lane: Lane, *faults: str) -> set[Anomaly]:
    return shown(answer(replace(lane, faults=faults)), Anomaly)


@pytest.mark.parametrize("other", [on(SAFE, "3.9.1"), on(SAFE, "3.8.1", "zookeeper"), on(SAFE, "4.3.1", elr=False)])
def test_clusters_with_the_same_rules_are_one_question(other: Lane) -> None:
    asked = replace(SAFE, faults=("power-loss",))
    assert question_key(replace(other, faults=asked.faults), None) == question_key(asked, None)
    one, same = (predict(replace(lane, replication_factor=2, faults=asked.faults)) for lane in (SAFE, other))
    assert same == one


@pytest.mark.parametrize("replicas", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("idempotence", [False, True])
def test_one_power_loss_costs_no_committed_record_with_eligible_replicas(idempotence: bool, replicas: int) -> None:
    """KIP-966: min.insync.replicas - 1 unclean shutdowns that lose data are tolerated."""
    lane = replace(SAFE, idempotence=idempotence, replication_factor=replicas)
    assert permitted(on(lane, "4.3.1", elr=False), "power-loss") >= OF_COMMITTED
    assert not permitted(on(lane, "4.3.1"), "power-loss") & OF_COMMITTED
    assert permitted(on(lane, "4.3.1"), "power-loss", "power-loss") >= OF_COMMITTED


def test_the_minimum_says_how_many_power_losses_are_tolerated() -> None:
    lane = on(replace(SAFE, min_insync_replicas=3), "4.3.1")
    assert not permitted(lane, "power-loss", "power-loss") & OF_COMMITTED
    without_minimum = on(replace(SAFE, min_insync_replicas=1), "4.3.1")
    assert permitted(without_minimum, "power-loss") >= OF_COMMITTED


@pytest.mark.parametrize("fault", ["pause", "power-loss"])
def test_an_eligible_replica_holds_every_acknowledged_record(fault: str) -> None:
    """In every state of the lane: what KIP-966 rests on."""
    lane = on(replace(SAFE, faults=(fault,), replication_factor=2), "4.3.1")
    eligible = 0
    for state in search_in_full(lane).parents:
        acknowledged = {number for number, record in enumerate(state.records) if record.status == OK}
        for replica in state.replicas:
            if replica.standing & ELIGIBLE:
                assert acknowledged <= {record_of(value) for value in replica.log}
                eligible += bool(acknowledged)
    assert eligible > 0


@pytest.mark.parametrize(
    ("fault", "replicas"),
    [
        ("kill", 3),
        ("power-loss", 2),
        *(pytest.param(fault, 3, marks=pytest.mark.slow) for fault in ("stop", "pause", "partition", "power-loss")),
    ],
)
def test_a_kill_after_it_empties_the_eligible_replicas(fault: str, replicas: int) -> None:
    assert permitted(on(replace(UNCLEAN, replication_factor=replicas), "4.3.1"), fault, "kill") >= OF_COMMITTED


def test_the_story_names_the_last_known_leader() -> None:
    two = answer(replace(on(SAFE, "4.3.1"), replication_factor=2, faults=("power-loss", "power-loss")))
    assert any("last known leader" in sentence for sentence in two.anomalies[Anomaly.LOST_WRITE].why)


def test_an_eligible_replica_leads_once_the_isr_is_empty() -> None:
    lane = on(SAFE, "4.3.1")
    replicas = (LaneReplica(FOLLOWER, False, standing=ELIGIBLE), LaneReplica(FOLLOWER, False))
    ((action, state),) = elect(initial_state(lane)._replace(replicas=replicas), lane)
    assert (action.name, action.broker) == ("elect_eligible", 0)
    assert state.replicas[0].role == LEADER
    assert [(replica.in_isr, replica.standing) for replica in state.replicas] == [(True, 0), (False, 0)]
    assert set(ELECTIONS.values()) <= set(SENTENCES)


@pytest.mark.parametrize(("version", "status"), [("3.6.2", Status.FORBIDDEN), ("3.9.1", Status.PERMITTED)])
def test_controllers_in_kraft_mode_take_no_notice_of_unclean_election_before_3_9(version: str, status: Status) -> None:
    lane = Lane(lane="unclean", replication_factor=2, unclean_leader_election=True, faults=("kill",))
    assert predict(replace(lane, kafka_version=version, metadata_mode="kraft")).status(Anomaly.LOST_WRITE) is status
    with_zookeeper = replace(lane, kafka_version=version, metadata_mode="zookeeper")
    assert predict(with_zookeeper).status(Anomaly.LOST_WRITE) is Status.PERMITTED


@pytest.mark.parametrize(
    "faults", [("power-loss",), ("kill",), pytest.param(("kill", "pause"), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize("unclean", [pytest.param(False, marks=pytest.mark.slow), True])
def test_with_a_minimum_of_one_eligible_replicas_change_nothing(
    monkeypatch: pytest.MonkeyPatch, unclean: bool, faults: tuple[str, ...]
) -> None:
    """`rules_of` leaves these rules out for such a lane: here they are left in."""
    lane = replace(SAFE, acks="1", min_insync_replicas=1, unclean_leader_election=unclean, faults=faults)
    without = shown(predict(lane), Anomaly)
    monkeypatch.setattr(membership, "rules_of", lambda lane: rules_in("4.3.1", "kraft", None))
    assert shown(predict(lane), Anomaly) == without


def test_before_2_1_an_answer_says_what_it_does_not_know() -> None:
    old = predict(on(replace(SAFE, faults=("kill",)), "2.0.1", "zookeeper"))
    (limit,) = old.to_json()["scope"]["limits"]
    assert "KIP-320" in limit
    assert "kip279" in limit
    assert "limits" not in predict(on(SAFE, "2.1.0", "zookeeper")).to_json()["scope"]


@pytest.mark.parametrize(
    "faults", list(product(("stop", "pause", "partition"), ("kill", "stop", "pause", "partition")))
)
def test_what_an_eligible_former_leader_can_cost_is_permitted_to_acks_1(faults: tuple[str, str]) -> None:
    """It comes back from anything but a crash, and its successor is hit: its log wins over its successor's."""
    revived = {
        Anomaly.LOST_WRITE, Anomaly.DUPLICATE, Anomaly.INCONSISTENT_OFFSET, Anomaly.OFFSET_MISMATCH, Anomaly.REORDERED,
    }  # fmt: skip
    assert permitted(STOCK, *faults) >= revived
