"""LeaderAndIsr: what a controller really sends, what brokers answer, and when they refuse."""

from kafka_chaos.conformance.controllers import requests
from kafka_chaos.conformance.controllers.capture import Capture, Exchange
from kafka_chaos.conformance.controllers.requests import (
    AUTHORIZER_CONFIGS,
    allow_cluster_action_to_brokers_only,
    take_log_directory_away,
)
from kafka_chaos.conformance.scenario.clusters import BEFORE_KIP_101, ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.experiments.behaviours.controllers.captured import (
    deletes_replica,
    field_names,
    note_requests,
    states_of,
)
from kafka_chaos.harness.cluster.broker.client import NONE
from kafka_chaos.harness.cluster.configuration.server_properties import SECOND_BROKER_DATA
from kafka_chaos.reference_model.lockstep.cluster_model import step

LINKED = ClusterProfile(name="steady, with links", links=True)
VERSION_0 = ClusterProfile(
    name="before KIP-101, with links", links=True, protocol="truncate-to-high-watermark", configs=BEFORE_KIP_101
)
VERSION_5 = ClusterProfile(
    name="inter-broker protocol 2.8", links=True, configs={"inter.broker.protocol.version": "2.8-IV1"}
)
AUTHORIZED = ClusterProfile(name="with an authorizer", configs=AUTHORIZER_CONFIGS)
TWO_DIRECTORIES = ClusterProfile(name="two log directories", links=True, log_directories=2)

_APIS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")

# As the document lists them. TAG_BUFFER is no field; what it calls zk_version is partition_epoch since 3.0.
_OF_EVERY_PARTITION = frozenset(
    ["partition_index", "controller_epoch", "leader", "leader_epoch", "isr", "partition_epoch", "replicas"]
)
_FIELDS_0 = {
    "request": {"controller_id", "controller_epoch", "ungrouped_partition_states", "live_leaders"},
    "partition": {*_OF_EVERY_PARTITION, "topic_name"},
}
_FIELDS_5 = {
    "request": {"controller_id", "controller_epoch", "broker_epoch", "type", "topic_states", "live_leaders"},
    "partition": {*_OF_EVERY_PARTITION, "adding_replicas", "removing_replicas", "is_new"},
}


def leader_and_isr(play: Play) -> None:
    """The requests of a controller for a reassignment and for a failed broker, and those of older protocols."""
    with play.act("a reassignment", profile=LINKED, replicas=(1, 2), others=(3,)) as stage:
        stage.produce("m1")
        sent = _reassigned(stage)
        versions = {(exchange.api, exchange.version) for exchange in sent}
        expected = {("LeaderAndIsr", 7), ("UpdateMetadata", 8), ("StopReplica", 4)}
        stage.expect("The versions of the requests", versions, expected)
        requests = [state for exchange in sent for state in states_of(exchange, stage.topic) if exchange.broker == 3]
        first = requests[0]
        change = (first["adding_replicas"], first["removing_replicas"], first["is_new"])
        stage.expect("The request to broker 3 adds it and removes broker 1", change, ([3], [1], True))
        for broker in (1, 2, 3):
            times = {api: [e.sent_ns for e in sent if (e.api, e.broker) == (api, broker)] for api in _APIS}
            first_two = min(times["LeaderAndIsr"]) < min(times["UpdateMetadata"])
            stage.expect(f"Broker {broker} gets LeaderAndIsr before UpdateMetadata", first_two)
        stop_first = min(e.sent_ns for e in sent if e.api == "StopReplica")
        stage.expect("StopReplica comes after them", stop_first > min(e.sent_ns for e in sent if e.broker == 3))
        request = next(e.request for e in sent if e.api == "LeaderAndIsr")
        newest = (request["type"], request["is_kraft_controller"], requests[0]["leader_recovery_state"])
        stage.expect("Type, KRaft flag and leader recovery state", newest, (0, False, 0))
        updated = {exchange.broker for exchange in sent if exchange.api == "UpdateMetadata"}
        stage.expect("Every broker gets UpdateMetadata", updated, {1, 2, 3})
        stopped = {
            exchange.broker
            for exchange in sent
            if exchange.api == "StopReplica"
            for state in states_of(exchange, stage.topic)
            if state["delete_partition"]
        }
        stage.expect("StopReplica asks broker 1 to delete its replica", stopped, {1})
        stage.expect("Broker 1 has deleted its replica", stage.log(1), [])
        stage.fact("broker 2's log", stage.await_line(2, f"Leader {stage.topic}-0", "starts at leader epoch"))
        stage.fact("broker 3's log", stage.await_line(3, f"Follower {stage.topic}-0", "starts at leader epoch"))
        # Broker 2 already followed broker 1 and continues to: it still accepts the newer leader epoch.
        stage.fact(
            "broker 2's log, earlier", stage.await_line(2, f"Follower {stage.topic}-0", "starts at leader epoch 1 ")
        )
    with play.act("a broker fails", profile=LINKED, controller=3) as stage:
        with Capture(stage.lease.cluster) as capture:
            stage.kill(1)
            capture.await_answers()
        note_requests(stage, capture)
        become = f"the become-leader transition for partition {stage.topic}-0"
        stage.fact("broker 2 becomes leader", stage.await_line(2, "starting", become))
        become = f"the become-follower transition for partition {stage.topic}-0"
        stage.fact("broker 3 becomes follower", stage.await_line(3, "starting", become))
        nothing = ("Ignoring LeaderAndIsr request", f"{stage.topic}-0", "matches the current leader epoch")
        stage.fact("broker 3 ignores a request in the leader epoch that it has", stage.await_line(3, *nothing))
    for profile, version, fields in ((VERSION_0, 0, _FIELDS_0), (VERSION_5, 5, _FIELDS_5)):
        with play.act(f"LeaderAndIsr {version}", profile=profile, replicas=(1, 2), others=(3,)) as stage:
            stage.produce("m1")
            sent = [exchange for exchange in _reassigned(stage) if exchange.api == "LeaderAndIsr"]
            stage.expect("The version of the requests", {exchange.version for exchange in sent}, {version})
            seen = {
                "request": field_names(sent[0].request),
                "partition": field_names(states_of(sent[0], stage.topic)[0]),
            }
            stage.expect("The fields are those of the document", seen, fields)


def _reassigned(stage: Stage) -> list[Exchange]:
    """Move the partition from brokers 1 and 2 to 2 and 3; returns what the controller sent about it."""

    with Capture(stage.lease.cluster) as capture:
        stage.reassign("The partition moves to brokers 2 and 3.", replicas=(2, 3))
        capture.await_exchange(
            lambda e: e.api == "StopReplica" and any(deletes_replica(e, s) for s in states_of(e, stage.topic)),
            "StopReplica to broker 1",
        )
        capture.await_answers()
    return note_requests(stage, capture)


def leader_and_isr_errors(play: Play) -> None:
    """Requests that brokers refuse as a whole or for a partition."""
    with play.act("stale epochs", profile=TWO_DIRECTORIES, controller=3) as stage:
        stage.produce("m1")
        stage.reassign("The order of the replicas changes, which starts a new leader epoch.", replicas=(1, 3, 2))
        stale = (stage.seen.controller_epoch or 0) - 1
        sentence = "Broker 2 gets a request in the previous controller epoch."
        stage.send_leader_and_isr(sentence, broker=2, leader_epoch=9, controller_epoch=stale)
        stage.expect("Broker 2 refuses the whole request", stage.refusals[sentence], "STALE_CONTROLLER_EPOCH")
        sentence = "Broker 2 gets a request in the previous leader epoch."
        stage.send_leader_and_isr(sentence, broker=2, leader_epoch=0)
        expected = "NONE STALE_CONTROLLER_EPOCH"
        stage.expect("Broker 2 refuses the request for its partition", stage.refusals[sentence], expected)
    with play.act("an offline log directory", profile=TWO_DIRECTORIES, replicas=(2, 1, 3), controller=3) as stage:
        stage.produce("m1")
        _lose_the_directory(stage)
    # No other scenario should get a broker without a log directory.
    play.pool.discard(TWO_DIRECTORIES)
    with play.act("no permission", profile=AUTHORIZED, controller=3) as stage:
        stage.produce("m1")
        allow_cluster_action_to_brokers_only(stage.lease.cluster)
        sentence = "Broker 2 gets a request from a sender that is no broker."
        stage.send_leader_and_isr(sentence, broker=2, leader_epoch=9, authorized=False)
        stage.expect("Broker 2 refuses it", stage.refusals[sentence], "CLUSTER_AUTHORIZATION_FAILED")
        stage.produce("m2")
        stage.expect("Brokers still accept each other's requests", stage.log(2), ["m1", "m2"])


def _lose_the_directory(stage: Stage) -> None:
    node = stage.node(2)
    there = f"{stage.topic}-0" in node.must_execute("ls", SECOND_BROKER_DATA).split()
    # A broker creates a new replica where it has the fewest: the previous act's topic is in the first directory.
    stage.expect("The replica is in the second log directory", there)
    stage.observer.without_files = frozenset({2})
    with Capture(stage.lease.cluster) as capture:
        stage.take(
            "The leader's log directory fails.",
            lambda: take_log_directory_away(node, SECOND_BROKER_DATA),
            step("fail_log_directory", broker=2),
        )
        refusal = capture.await_exchange(
            lambda e: e.broker == 2 and e.api == "LeaderAndIsr" and bool(states_of(e, stage.topic)),
            "LeaderAndIsr to broker 2",
        )
    assert refusal.response is not None
    ids = {group["topic_name"]: group["topic_id"] for group in refusal.request["topic_states"]}
    error, partitions = requests.leader_and_isr_errors(refusal.version, refusal.response, topic_ids=ids)
    answer = (error, partitions[stage.topic, 0])
    stage.expect("Broker 2 answers the controller", answer, (NONE, requests.KAFKA_STORAGE_ERROR))
    stage.expect("Another broker leads", stage.seen.leader in (1, 3))
    stage.expect("The replica is offline", stage.replica(2).role, "offline")
    stage.produce("m2")
    stage.expect("The new leader serves", stage.log(stage.seen.leader or 1), ["m1", "m2"])
