"""The kinds that act on single requests, on links that only note their rules."""

import pytest

from kafka_chaos.faults.fault import build
from kafka_chaos.faults.links.on_frames import Alter, Answer, Cut, Delay, Drop, FrameFault, Hold, Rate, Repeat, Stale
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster, FakeLink, FakeNode, hit_by

KINDS: tuple[type[FrameFault], ...] = (Hold, Delay, Rate, Drop, Cut, Answer, Repeat, Alter, Stale)
BROKER = Target.parse("broker:1")
TOLD = {"api": "EndTxn", "version": 1, "correlation_id": 7, "client_id": "c", "sender": "clients"}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({number: FakeNode(f"broker-{number}", number, link=FakeLink()) for number in (1, 2, 3)})


def link_of(cluster: FakeCluster, broker: int) -> FakeLink:
    link = cluster.brokers[broker].link
    assert link is not None
    return link


@pytest.mark.parametrize("kind", KINDS)
def test_each_begins_once_and_ends(kind: type[FrameFault], cluster: FakeCluster) -> None:
    fault = kind(target=BROKER)
    nodes = hit_by(fault, cluster)
    fault.inject(cluster, nodes)
    link = link_of(cluster, 1)
    assert [frames["action"] for frames in link.rules.values()] == [kind.kind]
    assert not fault.proof(cluster, nodes).took_effect
    link.matched, link.told = 3, [TOLD]
    proof = fault.proof(cluster, nodes)
    assert proof.took_effect
    told = kind.describe_evidence(proof.evidence["broker-1"])
    fate = "answered with NOT_ENOUGH_REPLICAS" if kind is Answer else kind.fate
    assert told.startswith(f"1 EndTxn {fault.side} {fate}, ")
    assert told.endswith("correlation ids 7")
    fault.heal(cluster, nodes)
    fault.heal(cluster, nodes)
    assert not link.rules
    assert [release for _, release in link.lifted] == [True]
    assert not fault.proof(cluster, nodes).took_effect


def test_one_target_that_got_such_a_frame_is_proof_enough(cluster: FakeCluster) -> None:
    fault = Hold(target=Target.parse("all"), api="EndTxn")
    nodes = hit_by(fault, cluster)
    link_of(cluster, 2).told = [TOLD]
    proof = fault.proof(cluster, nodes)
    assert proof.took_effect
    assert set(proof.evidence) == {"broker-2"}


def test_without_a_frame_the_reason_says_what_passed(cluster: FakeCluster) -> None:
    fault = Hold(target=BROKER, api="EndTxn", nth=5)
    nodes = hit_by(fault, cluster)
    assert fault.proof(cluster, nodes).reason == "no EndTxn request"
    link_of(cluster, 1).matched = 4
    assert fault.proof(cluster, nodes).reason == "only 4 such EndTxn requests passed, and the fault takes number 5"


@pytest.mark.parametrize(
    ("sender", "names"),
    [
        (None, None), ("clients", ("clients",)), ("brokers", ("broker-1", "broker-2", "broker-3")),
        ("broker:2", ("broker-2",)), ("controller", ("broker-3",)),
        ("controllers", ("controller-1",)), ("controller:1", ("controller-1",)),
    ],
)  # fmt: skip
def test_senders_are_resolved_by_role(sender: str | None, names: tuple[str, ...] | None, cluster: FakeCluster) -> None:
    cluster.controllers = {1: FakeNode("controller-1", 101)}
    fault = Cut(target=BROKER, sender=sender, lane="orders", partition=2, client_id="orders-1")
    fault.inject(cluster, fault.target.resolve(cluster, 0))
    (frames,) = link_of(cluster, 1).rules.values()
    assert frames["sender"] == names
    assert (frames["topic"], frames["partition"], frames["client_id"]) == ("topic-of-orders", 2, "orders-1")


def test_while_nobody_is_controller_no_frame_is_the_controllers(cluster: FakeCluster) -> None:
    cluster.controller_id = None
    hit_by(Cut(target=BROKER, sender="controller"), cluster)
    assert [frames["sender"] for frames in link_of(cluster, 1).rules.values()] == [()]


def test_what_is_held_is_lost_if_asked_for(cluster: FakeCluster) -> None:
    fault = Hold(target=BROKER, then="drop")
    nodes = hit_by(fault, cluster)
    fault.heal(cluster, nodes)
    assert [release for _, release in link_of(cluster, 1).lifted] == [False]


FETCHED = {"api": "Fetch", "side": "response"}


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        *((Cut, keys) for keys in ({"side": "both"}, {"sender": "everybody"}, {"nth": 0}, {"sender": "broker:x"})),
        *((Hold, {"then": "keep"}), (Delay, {"seconds": 0}), (Rate, {"kbit_per_second": 0}), (Stale, {"lane": "one"})),
        *((Answer, keys) for keys in ({"side": "request"}, {"error": "NOT_LEADER"})),
        *(
            (Repeat, keys)
            for keys in ({"api": "InitProducerId"}, {"side": "response"}, {"side": "response", "sender": "brokers"})
        ),
        *((Alter, keys) for keys in ({"api": "EndTxn"}, {"side": "response"}, {"sender": "clients", **FETCHED})),
        *((Alter, keys) for keys in ({"side": "request", "api": "Fetch"}, {"byte": 0})),
    ],
)
def test_a_value_of_which_nothing_can_be_predicted_is_refused(kind: type[FrameFault], keys: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(keys))}: .*expected"):
        build(kind, target=BROKER, at=0, duration=0, keys=keys)
