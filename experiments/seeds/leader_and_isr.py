"""Document 000, LeaderAndIsr: what a controller really sends, what brokers answer, and when they refuse."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from kafka_chaos.experiments.seeds.leader_epoch import TRUNCATE_TO_HIGH_WATERMARK
from kafka_chaos.harness.broker_client import NONE, error_name
from kafka_chaos.harness.scenario.house import BEFORE_KIP_101, STEADY, House
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.scenario.stage import Stage
from kafka_chaos.harness.server_properties import SECOND_BROKER_DATA
from kafka_chaos.harness.wire.capture import Capture
from kafka_chaos.harness.wire.client import send_as_controller
from kafka_chaos.harness.wire.messages import LEADER_AND_ISR
from kafka_chaos.harness.wire.packets import Exchange
from kafka_chaos.harness.wire.refusals import (
    AUTHORIZER_CONFIGS,
    allow_cluster_action_to_brokers_only,
    take_log_directory_away,
)
from kafka_chaos.harness.wire.requests import (
    CLUSTER_AUTHORIZATION_FAILED,
    KAFKA_STORAGE_ERROR,
    STALE_CONTROLLER_EPOCH,
    PartitionState,
    Sender,
    leader_and_isr,
    leader_and_isr_errors,
)
from kafka_chaos.reference_model.cluster_model import step

VERSION_0 = House(name="before KIP-101", protocol=TRUNCATE_TO_HIGH_WATERMARK, configs=BEFORE_KIP_101)
VERSION_5 = House(name="protocol of 2.8", configs={"inter.broker.protocol.version": "2.8-IV1"})
AUTHORIZED = House(name="with an authorizer", configs=AUTHORIZER_CONFIGS)
TWO_DIRECTORIES = House(name="two log directories", log_directories=2)

_APIS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")

# As document 000 has them; TAG_BUFFER is no field, and what it calls zk_version is partition_epoch since 3.0.
_OF_EVERY_PARTITION = {
    "partition_index",
    "controller_epoch",
    "leader",
    "leader_epoch",
    "isr",
    "partition_epoch",
    "replicas",
}
_FIELDS_0 = {
    "request": {"controller_id", "controller_epoch", "ungrouped_partition_states", "live_leaders"},
    "partition": {*_OF_EVERY_PARTITION, "topic_name"},
}
_FIELDS_5 = {
    "request": {"controller_id", "controller_epoch", "broker_epoch", "type", "topic_states", "live_leaders"},
    "partition": {*_OF_EVERY_PARTITION, "adding_replicas", "removing_replicas", "is_new"},
}


@scenario("leader-and-isr", document="000", title="LeaderAndIsr as really sent: a reassignment, request by request")
def leader_and_isr_as_sent(play: Play) -> None:
    """A partition is moved from brokers 1 and 2 to 2 and 3. Every request of the controller is taken off the brokers'
    control-plane ports and decoded: LeaderAndIsr, then UpdateMetadata, at the end StopReplica to the broker that
    leaves; each is answered without an error, but for a LeaderAndIsr in a leader epoch that its broker has already.
    With an older inter-broker protocol the older versions are sent, with the fields that the document lists.
    """
    with play.act("a reassignment", replicas=(1, 2), others=(3,)) as stage:
        stage.produce("m1")
        sent = _reassigned(stage)
        versions = {(exchange.api, exchange.version) for exchange in sent}
        stage.expect(
            "versions", seen=versions, expected={("LeaderAndIsr", 7), ("UpdateMetadata", 8), ("StopReplica", 4)}
        )
        requests = [state for exchange in sent for state in _states(exchange, stage.topic) if exchange.broker == 3]
        first = requests[0]
        change = (first["adding_replicas"], first["removing_replicas"], first["is_new"])
        stage.expect("broker 3 is told that it is added and 1 removed", seen=change, expected=((3,), (1,), True))
        for broker in (1, 2, 3):
            times = {api: [e.sent_ns for e in sent if (e.api, e.broker) == (api, broker)] for api in _APIS}
            first_two = min(times["LeaderAndIsr"]) < min(times["UpdateMetadata"])
            stage.expect(f"broker {broker} gets LeaderAndIsr before UpdateMetadata", seen=first_two)
        stop_first = min(e.sent_ns for e in sent if e.api == "StopReplica")
        stage.expect("StopReplica comes after them", seen=stop_first > min(e.sent_ns for e in sent if e.broker == 3))
        request = next(e.request for e in sent if e.api == "LeaderAndIsr")
        newest = (request["type"], request["is_kraft_controller"], requests[0]["leader_recovery_state"])
        stage.expect("type, KRaft flag and leader recovery state", seen=newest, expected=(0, False, 0))
        told = {exchange.broker for exchange in sent if exchange.api == "UpdateMetadata"}
        stage.expect("everyone gets UpdateMetadata", seen=told, expected={1, 2, 3})
        stopped = {
            exchange.broker
            for exchange in sent
            if exchange.api == "StopReplica"
            for state in _states(exchange, stage.topic)
            if state["delete_partition"]
        }
        stage.expect("broker 1 has to delete its replica", seen=stopped, expected={1})
        stage.expect("broker 1 has done so", seen=stage.log(1), expected=[])
        stage.fact("broker 2", stage.await_line(2, f"Leader {stage.topic}-0", "starts at leader epoch"))
        stage.fact("broker 3", stage.await_line(3, f"Follower {stage.topic}-0", "starts at leader epoch"))
        # Broker 2 followed broker 1 before and goes on to: a newer leader epoch is taken all the same.
        stage.fact("broker 2, earlier", stage.await_line(2, f"Follower {stage.topic}-0", "starts at leader epoch 1 "))
    with play.act("a broker fails", house=STEADY, controller=3) as stage:
        with Capture(stage.tenancy.cluster.brokers.values()) as capture:
            stage.kill(1)
            capture.await_answers()
        _note(stage, capture)
        become = f"the become-leader transition for partition {stage.topic}-0"
        stage.fact("become-leader", stage.await_line(2, "starting", become))
        become = f"the become-follower transition for partition {stage.topic}-0"
        stage.fact("become-follower", stage.await_line(3, "starting", become))
        nothing = ("Ignoring LeaderAndIsr request", f"{stage.topic}-0", "matches the current leader epoch")
        stage.fact("a follower that had nothing to change", stage.await_line(3, *nothing))
    for house, version, fields in ((VERSION_0, 0, _FIELDS_0), (VERSION_5, 5, _FIELDS_5)):
        with play.act(f"LeaderAndIsr {version}", house=house, replicas=(1, 2), others=(3,)) as stage:
            stage.produce("m1")
            sent = [exchange for exchange in _reassigned(stage) if exchange.api == "LeaderAndIsr"]
            stage.expect("version", seen={exchange.version for exchange in sent}, expected={version})
            seen = {"request": _names(sent[0].request), "partition": _names(_states(sent[0], stage.topic)[0])}
            stage.expect("the fields are the document's", seen=seen, expected=fields)


def _reassigned(stage: Stage) -> list[Exchange]:
    """Move the partition from 1 and 2 to 2 and 3: what the controller sent about it."""

    def move() -> None:
        with stage.ask(3) as controller:
            stage.expect("accepted", seen=controller.reassign(stage.topic, (2, 3)), expected=NONE)

    with Capture(stage.tenancy.cluster.brokers.values()) as capture:
        stage.take("The partition is moved to brokers 2 and 3.", move, step("reassign", replicas=(2, 3)))
        capture.await_exchange(
            lambda e: e.api == "StopReplica" and any(_deletes(e, s) for s in _states(e, stage.topic)),
            "broker 1 to be told to delete its replica",
        )
        capture.await_answers()
    return _note(stage, capture)


def _deletes(exchange: Exchange, state: Mapping[str, Any]) -> bool:
    return bool(state.get("delete_partition", exchange.request.get("delete_partitions", False)))


def _note(stage: Stage, capture: Capture) -> list[Exchange]:
    """What was sent about the topic, noted as a table; every answer has to be without an error."""
    about = [e for e in capture.exchanges() if _states(e, stage.topic)]
    _expect_answers(stage, about)
    stage.expect("nothing was lost on the way to us", seen=capture.lost, expected="")
    stage.fact("what the controller sent", [_row(e, s, about[0]) for e in about for s in _states(e, stage.topic)])
    return about


def _expect_answers(stage: Stage, about: list[Exchange]) -> None:
    """No request is refused, but for a LeaderAndIsr in an epoch that its broker has had already."""
    known: dict[int, int] = {}
    for exchange in about:
        for state in _states(exchange, stage.topic):
            expected = {"NONE"}
            if exchange.api == "LeaderAndIsr":
                epoch = int(state["leader_epoch"])
                if epoch <= known.get(exchange.broker, -1):
                    expected = {"NONE", "STALE_CONTROLLER_EPOCH"}
                known[exchange.broker] = max(epoch, known.get(exchange.broker, -1))
            what = f"{exchange.api} to broker {exchange.broker}, leader epoch {state.get('leader_epoch', '-')}"
            stage.expect(f"the answer to {what}", seen=_errors(exchange), expected=expected)


def _row(exchange: Exchange, state: Mapping[str, Any], first: Exchange) -> dict[str, Any]:
    return {
        "ms": round((exchange.sent_ns - first.sent_ns) / 1e6, 1),
        "request": f"{exchange.api} {exchange.version}",
        "to": exchange.broker,
        "leader": state.get("leader", ""),
        "epoch": state.get("leader_epoch", ""),
        "ISR": list(state.get("isr", ())),
        "replicas": list(state.get("replicas", ())),
        "adding": list(state.get("adding_replicas", ())),
        "removing": list(state.get("removing_replicas", ())),
        "error": " ".join(sorted(_errors(exchange))),
    }


def _errors(exchange: Exchange) -> set[str]:
    """The errors of an answer and of all its partitions, by name; "no answer" where there is none."""
    response = exchange.response
    if response is None:
        return {"no answer"}
    partitions = [*response.get("partition_errors", ())]
    for group in response.get("topics", ()):
        partitions += group["partition_errors"]
    return {error_name(int(found["error_code"])) for found in (response, *partitions)}


def _names(body: Mapping[str, Any]) -> set[str]:
    return {name for name in body if not name.startswith("_")}


def _states(exchange: Exchange, topic: str) -> list[Mapping[str, Any]]:
    """What a request says of a topic's partitions, in whichever form its version has."""
    request = exchange.request
    for flat in ("ungrouped_partition_states", "ungrouped_partitions"):
        if flat in request:
            return [state for state in request[flat] if state["topic_name"] == topic]
    groups: Iterable[Mapping[str, Any]] = request.get("topic_states") or request.get("topics") or ()
    found = []
    for group in groups:
        if group.get("topic_name", group.get("name")) == topic:
            states = group.get("partition_states")
            found += states if states is not None else [{"partition_index": i} for i in group["partition_indexes"]]
    return found


@scenario(
    "leader-and-isr-errors", document="000", title="LeaderAndIsr refused: stale epochs, no right, no log directory"
)
def leader_and_isr_errors_shown(play: Play) -> None:
    """A request with a stale controller epoch is refused as a whole, one with a stale leader epoch for its partition;
    a sender without ClusterAction is refused with CLUSTER_AUTHORIZATION_FAILED; a partition whose log directory has
    failed is answered with KAFKA_STORAGE_ERROR, here to the controller itself. No replica changes by any of them.
    """
    with play.act("stale epochs", house=TWO_DIRECTORIES, controller=3) as stage:
        stage.produce("m1")

        def move() -> None:
            with stage.ask(3) as controller:
                stage.expect("accepted", seen=controller.reassign(stage.topic, (1, 3, 2)), expected=NONE)

        stage.take(
            "The replicas get another order, and so a new leader epoch.", move, step("reassign", replicas=(1, 3, 2))
        )
        epoch = stage.seen.controller_epoch or 0
        answers: list[tuple[int, int]] = []
        stage.take(
            "A request in the controller epoch before is sent to broker 2.",
            lambda: answers.append(_send(stage, 2, controller_epoch=epoch - 1, leader_epoch=9)),
            step("send_leader_and_isr", broker=2, controller_epoch=epoch - 1, leader_epoch=9),
        )
        stage.expect("refused as a whole", seen=answers[-1][0], expected=STALE_CONTROLLER_EPOCH)
        stage.take(
            "A request in the leader epoch before is sent to broker 2.",
            lambda: answers.append(_send(stage, 2, controller_epoch=epoch, leader_epoch=0)),
            step("send_leader_and_isr", broker=2, leader_epoch=0),
        )
        stage.expect("refused for its partition", seen=answers[-1], expected=(NONE, STALE_CONTROLLER_EPOCH))
    with play.act("an offline log directory", house=TWO_DIRECTORIES, replicas=(2, 1, 3), controller=3) as stage:
        stage.produce("m1")
        _lose_the_directory(stage)
    # Nobody is to be given a broker without a log directory.
    play.houses.discard(TWO_DIRECTORIES)
    with play.act("without the right to", house=AUTHORIZED, controller=3) as stage:
        stage.produce("m1")
        allow_cluster_action_to_brokers_only(stage.tenancy.cluster)
        epoch = stage.seen.controller_epoch or 0
        errors: list[int] = []
        stage.take(
            "A request comes from somebody who is no broker.",
            lambda: errors.append(_send(stage, 2, controller_epoch=epoch, leader_epoch=9)[0]),
            step("send_leader_and_isr", broker=2, leader_epoch=9, authorized=False),
        )
        stage.expect("refused", seen=errors, expected=[CLUSTER_AUTHORIZATION_FAILED])
        stage.produce("m2")
        stage.expect("the brokers among themselves go on", seen=stage.log(2), expected=["m1", "m2"])


def _lose_the_directory(stage: Stage) -> None:
    node = stage.node(2)
    there = f"{stage.topic}-0" in node.must_execute("ls", SECOND_BROKER_DATA).split()
    # A broker puts a new replica where it has the fewest: the topic of the act before is in the first directory.
    stage.expect("the replica is in the second log directory", seen=there)
    stage.eyes.without_files = frozenset({2})
    with Capture(stage.tenancy.cluster.brokers.values()) as capture:
        stage.take(
            "The leader's log directory fails.",
            lambda: take_log_directory_away(node, SECOND_BROKER_DATA),
            step("fail_log_directory", broker=2),
        )
        refusal = capture.await_exchange(
            lambda e: e.broker == 2 and e.api == "LeaderAndIsr" and bool(_states(e, stage.topic)),
            "the controller to ask broker 2",
        )
    assert refusal.response is not None
    ids = {group["topic_name"]: group["topic_id"] for group in refusal.request["topic_states"]}
    error, partitions = leader_and_isr_errors(refusal.version, refusal.response, topic_ids=ids)
    answer = (error, partitions[stage.topic, 0])
    stage.expect("broker 2 answers the controller", seen=answer, expected=(NONE, KAFKA_STORAGE_ERROR))
    stage.expect("another broker leads", seen=stage.seen.leader in (1, 3))
    stage.expect("the replica is offline", seen=stage.replica(2).role, expected="offline")
    stage.produce("m2")
    stage.expect("and serves", seen=stage.log(stage.seen.leader or 1), expected=["m1", "m2"])


def _send(stage: Stage, broker: int, *, controller_epoch: int, leader_epoch: int) -> tuple[int, int]:
    """Send a LeaderAndIsr in the controller's name: the answer's error and the partition's, −1 without one."""
    state = PartitionState(
        topic=stage.topic,
        partition=0,
        leader=broker,
        leader_epoch=leader_epoch,
        isr=(1, 2, 3),
        replicas=(1, 2, 3),
        controller_epoch=controller_epoch,
    )
    sender = Sender(controller=3, controller_epoch=controller_epoch)
    version = LEADER_AND_ISR.newest
    body = leader_and_isr(version, sender, [state], topic_ids={})
    answer = send_as_controller(stage.tenancy.cluster.client_address(broker), LEADER_AND_ISR, version, body)
    # The topic goes without an id, and comes back so.
    error, partitions = leader_and_isr_errors(version, answer, topic_ids={stage.topic: uuid.UUID(int=1)})
    return error, next(iter(partitions.values()), -1)
