"""Leadership that moves, of partitions or of the controller, and sessions that end: who is hit, and what the proof says
when nothing happened.
"""

import pytest

from kafka_chaos.faults.cluster import Leadership, Registration
from kafka_chaos.faults.coordination.leader_transfer import ControllerMove, LeaderTransfer, SessionExpiry
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.metadata.zookeeper_client import password_of
from tests.faults.fakes import FakeCluster, hit_by, hit_twice_by

ORDERS, OFFSETS = ("topic-of-orders", 0), ("__consumer_offsets", 0)


def led(leader: int | None, *isr: int, epoch: int = 4) -> Leadership:
    return Leadership(leader, epoch, (1, 2, 3), isr)


def injected(cluster: FakeCluster, target: str = "broker:1", **keys: str) -> tuple[LeaderTransfer, tuple[object, ...]]:
    fault = LeaderTransfer(target=Target.parse(target), **keys)
    return fault, hit_twice_by(fault, cluster)


def test_all_that_a_broker_leads_moves_to_replicas_in_sync() -> None:
    cluster = FakeCluster(led={ORDERS: led(1, 3, 1), OFFSETS: led(1, 1, 2, 3, epoch=0), ("other", 0): led(2, 1, 2)})
    fault, nodes = injected(cluster)
    assert {place: state.leader for place, state in cluster.led.items()} == {ORDERS: 3, OFFSETS: 2, ("other", 0): 2}
    proof = fault.proof(cluster, nodes)
    assert proof.took_effect
    assert proof.evidence["broker-1"]["moved"] == [
        {"partition": "__consumer_offsets-0", "leader": [1, 2], "leader_epoch": [0, 1]},
        {"partition": "topic-of-orders-0", "leader": [1, 3], "leader_epoch": [4, 5]},
    ]
    assert fault.describe_evidence(proof.evidence["broker-1"]) == (
        "leadership of 2 partitions moved: __consumer_offsets-0 to broker 2 (epoch 1), "
        "topic-of-orders-0 to broker 3 (epoch 5)"
    )
    fault.heal(cluster, nodes)
    assert cluster.led[ORDERS].leader == 3


@pytest.mark.parametrize(
    ("cluster", "target", "keys", "leaders"),
    [
        (FakeCluster(led={ORDERS: led(1, 1, 2), OFFSETS: led(1, 1, 2)}), "broker:1", {"lane": "orders"}, [2, 1]),
        (FakeCluster(led={ORDERS: led(1, 1, 2, 3), OFFSETS: led(2, 1, 2, 3)}), "brokers:1,2", {}, [3, 3]),
        (FakeCluster(led={ORDERS: led(1, 1, 2), OFFSETS: led(1, 1, 2)}, ongoing={ORDERS: (4, 2, 3)}), "broker:1", {},
         [1, 2]),
        (FakeCluster(led={ORDERS: led(1, 1, 2)}, silent_about_moves=True), "broker:1", {}, [1]),
    ],
    ids=[
        "those of one lane move alone", "no target inherits from another",
        "one whose replicas move is left alone", "nothing moves while nobody tells what moves already",
    ],
)  # fmt: skip
def test_which_partitions_move(cluster: FakeCluster, target: str, keys: dict[str, str], leaders: list[int]) -> None:
    injected(cluster, target, **keys)
    assert [state.leader for state in cluster.led.values()] == leaders


@pytest.mark.parametrize("state", [led(1, 1), led(2, 1, 2), led(None, 1, 2)])
def test_nothing_moves_where_nobody_can_inherit_or_another_leads(state: Leadership) -> None:
    cluster = FakeCluster(led={ORDERS: state})
    fault, nodes = injected(cluster)
    assert cluster.led[ORDERS] == state
    proof = fault.proof(cluster, nodes)
    reason = "broker-1: it led no partition that another replica in sync could lead"
    assert (proof.took_effect, proof.reason) == (False, reason)


def test_a_partition_that_stays_is_named() -> None:
    cluster = FakeCluster(led={ORDERS: led(1, 1, 2)})
    cluster.brokers[2].paused = True
    fault, nodes = injected(cluster)
    assert fault.proof(cluster, nodes).reason == "broker-1: topic-of-orders-0 did not move"


FAULT = ControllerMove(target=Target.parse("controller"))


def test_an_election_in_a_later_epoch_is_the_proof() -> None:
    cluster = FakeCluster(next_controllers=[2, 1])
    nodes = FAULT.target.resolve(cluster, 0)
    assert FAULT.proof(cluster, nodes).reason == "broker-3: it was not controller"
    FAULT.inject(cluster, nodes)
    FAULT.inject(cluster, nodes)
    proof = FAULT.proof(cluster, nodes)
    assert proof.took_effect
    assert FAULT.describe_evidence(proof.evidence["broker-3"]) == "broker 2 is controller in epoch 2 (before: 1)"
    assert FAULT.model_faults(3) == ()
    later = ControllerMove(target=Target.parse("controller"), at=5)
    assert not later.proof(cluster, nodes).took_effect


@pytest.mark.parametrize(
    ("cluster", "target", "reason"),
    [
        (FakeCluster(), "controller", "broker-3: no controller was elected in a later epoch"),
        (FakeCluster(epoch=None, next_controllers=[2]), "controller", "broker-3: it was not controller"),
        (FakeCluster(next_controllers=[2]), "broker:1", "broker-1: it was not controller"),
    ],
    ids=["no election", "zookeeper does not answer", "no controller"],
)
def test_where_no_controller_is_deposed_there_is_no_proof(cluster: FakeCluster, target: str, reason: str) -> None:
    fault = ControllerMove(target=Target.parse(target))
    nodes = hit_by(fault, cluster)
    assert cluster.controller() == 3
    assert fault.proof(cluster, nodes).reason == reason


EXPIRY = SessionExpiry(target=Target.parse("broker:1"))


def registered(**states: Registration) -> FakeCluster:
    return FakeCluster(registrations={int(name[-1]): state for name, state in states.items()})


def test_a_broker_that_registers_anew_has_lost_its_session() -> None:
    cluster = registered(broker_1=Registration(20, 0x100), broker_2=Registration(21, 0x200))
    nodes = EXPIRY.target.resolve(cluster, 0)
    assert EXPIRY.proof(cluster, nodes).reason == "broker-1: it was not registered"
    EXPIRY.inject(cluster, nodes)
    EXPIRY.inject(cluster, nodes)
    assert cluster.registrations == {1: Registration(30, 0x101), 2: Registration(21, 0x200)}
    proof = EXPIRY.proof(cluster, nodes)
    assert proof.took_effect
    assert proof.evidence["broker-1"]["session"] == ["0x100", "0x101"]
    words = "registered again under broker epoch 30 (before: 20) by the same process, 0"
    assert EXPIRY.describe_evidence(proof.evidence["broker-1"]) == words
    EXPIRY.heal(cluster, nodes)
    later = SessionExpiry(target=Target.parse("broker:1"), at=5)
    assert not later.proof(cluster, nodes).took_effect


def test_it_can_begin_once_every_target_is_registered() -> None:
    cluster = registered(broker_1=Registration(20, 0x100))
    both = SessionExpiry(target=Target.parse("brokers:1,2"))
    nodes = both.target.resolve(cluster, 0)
    assert not both.can_begin(cluster, nodes)
    cluster.registrations[2] = Registration(21, 0x200)
    assert both.can_begin(cluster, nodes)


def test_a_broker_that_does_not_come_back_is_no_proof_yet() -> None:
    cluster = registered(broker_1=Registration(20, 0x100))
    cluster.registers_again = False
    nodes = hit_by(EXPIRY, cluster)
    assert EXPIRY.proof(cluster, nodes).reason == "broker-1: its registration is gone, and it has not registered again"


def test_a_session_that_goes_on_and_a_process_that_ends_are_no_proof() -> None:
    cluster = registered(broker_1=Registration(20, 0x100))
    nodes = hit_by(EXPIRY, cluster)
    cluster.registrations[1] = Registration(20, 0x100)
    assert EXPIRY.proof(cluster, nodes).reason == "broker-1: its session goes on"
    cluster.registrations[1] = Registration(30, 0x101)
    cluster.brokers[1].running = False
    assert EXPIRY.proof(cluster, nodes).reason == "broker-1: its process ended"


@pytest.mark.parametrize(
    ("session", "password"),
    [
        (72057594037927936, "f22acd4a97e69d6d20a49bb638eadb38"),
        (-1152921504606846975, "054cc74a37327db215e702e20c73f005"),
        (216202937562529793, "df0aaa5a40c4ee19b4b7677588ad69a0"),
    ],
)
def test_a_session_s_password_is_the_one_that_java_makes(session: int, password: str) -> None:
    assert password_of(session).hex() == password
