"""Requests and responses of a connection, and what rules do to them."""

from io import StringIO

import pytest
from kafka.protocol.metadata.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer.transaction import EndTxnRequest

from kafka_chaos.conformance.controllers.requests import leader_and_isr
from kafka_chaos.contract.wire.messages import LeaderAndIsrResponse
from kafka_chaos.faults.links.relay.connection import Conversation, Exchange, RelayContext
from kafka_chaos.faults.links.relay.rules import CLIENTS, CUT, DELAY, DROP, HOLD, REQUEST, RESPONSE, STALE, Rule, Tally
from kafka_chaos.faults.links.relay.stream import Fate
from tests.faults.links.relay.test_contents import frame_of, produce


class Around(RelayContext):
    """The context of conversations, which remembers all that is recorded."""

    def __init__(self, *rules: Rule) -> None:
        super().__init__()
        self.trace = StringIO()
        self.rules = [Tally(rule) for rule in rules]
        self.tallies = dict(enumerate(self.rules))  # type: ignore[arg-type]
        self.recorded: list[dict[str, object]] = []

    def write_to_trace(self, conversation: Conversation, exchange: Exchange) -> None:
        self.recorded.append(conversation.line(exchange))


def rule(action: str = HOLD, **named: object) -> Rule:
    return Rule(id="rule", node="broker-1", action=action, **named)  # type: ignore[arg-type]


def end_txn(correlation_id: int = 5, transactional_id: str = "tx", client_id: str = "client") -> memoryview:
    request = EndTxnRequest(transactional_id=transactional_id, producer_id=1, producer_epoch=0, committed=True)
    request.API_VERSION = 1
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return memoryview(bytes(request.encode(version=1, header=True)))


def ask(talk: Conversation, frame: memoryview) -> Fate:
    return talk.fate_of_request(frame, len(frame))


def answer(talk: Conversation, correlation_id: int = 5) -> Fate:
    frame = memoryview(correlation_id.to_bytes(4, "big") + bytes(6))
    return talk.fate_of_response(frame, len(frame))


def conversation(around: Around, peer: str = CLIENTS) -> Conversation:
    return Conversation(around, 1, "broker-1", 9094, peer)


def told(leader_epoch: int) -> memoryview:
    """A controller's request about partition 0 of topic a, in version 1."""
    state = {"leader": 1, "leader_epoch": leader_epoch, "isr": [1], "replicas": [1]}
    request = leader_and_isr(1, controller=3, controller_epoch=4, topic_name="a", partition_index=0, **state)
    return frame_of(request, 1)


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ({"topic": "a"}, True), ({"topic": "a", "partition": 0}, True),
        ({"topic": "b"}, False), ({"partition": 1}, False),
    ],
)  # fmt: skip
def test_a_rule_takes_what_a_controller_tells_of_a_partition(named: dict[str, object], taken: bool) -> None:
    around = Around(rule(**named))
    talk = conversation(around, "broker-3")
    assert ask(talk, told(2)) is (Fate.WAIT if taken else Fate.PASS)
    assert [one["detail"] for one in around.rules[0].told] == ([{"controller_epoch": 4}] if taken else [])
    talk.trace_unanswered()
    assert around.recorded[0]["leader_epochs"] == [["a", 0, 2]]


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ({}, True), ({"api": "EndTxn"}, True), ({"api": "Produce"}, False), ({"sender": (CLIENTS,)}, True),
        ({"sender": ("broker-2",)}, False), ({"sender": ()}, False), ({"client_id": "client"}, True),
        ({"client_id": "client-1"}, False), ({"transactional_id": "tx"}, True), ({"transactional_id": "other"}, False),
        ({"topic": "a"}, False), ({"nth": 1}, True), ({"nth": 2}, False), ({"side": RESPONSE}, False),
    ],
)  # fmt: skip
def test_a_rule_takes_what_it_names_unless_the_harness_asks(named: dict[str, object], taken: bool) -> None:
    around = Around(rule(**named))
    assert ask(conversation(around), end_txn(client_id="kafka-chaos")) is Fate.PASS
    assert ask(conversation(around), end_txn()) is (Fate.WAIT if taken else Fate.PASS)
    assert around.rules[0].taken == taken


@pytest.mark.parametrize(
    ("action", "side", "fate"),
    [
        (HOLD, REQUEST, Fate.WAIT), (DELAY, REQUEST, Fate.WAIT), (DROP, REQUEST, Fate.LOSE),
        (CUT, REQUEST, Fate.LAST), (HOLD, RESPONSE, Fate.WAIT), (DELAY, RESPONSE, Fate.WAIT),
        (DROP, RESPONSE, Fate.LOSE), (CUT, RESPONSE, Fate.END),
    ],
)  # fmt: skip
def test_each_action_on_each_side_is_recorded_once(action: str, side: str, fate: Fate) -> None:
    around = Around(rule(action, side=side, api="EndTxn"))
    talk = conversation(around)
    fates = {REQUEST: ask(talk, end_txn())}
    if side == RESPONSE:
        fates[RESPONSE] = answer(talk)
    assert fates.pop(side) is fate
    assert set(fates.values()) <= {Fate.PASS}
    if fate is Fate.WAIT:
        talk.note_release(side)
    talk.note_end()
    (line,) = around.recorded
    assert line["api"] == "EndTxn"
    assert line["fault"]["action"] == action  # type: ignore[index]
    assert line["fault"]["side"] == side  # type: ignore[index]
    assert ("until_ns" in line["fault"]) is (fate is Fate.WAIT)  # type: ignore[operator]
    assert line["transactional_ids"] == ("tx",)


def test_the_nth_is_counted_among_those_that_are_named() -> None:
    around = Around(rule(api="EndTxn", transactional_id="tx", nth=2))
    talk = conversation(around)
    fates = [ask(talk, end_txn(number, name)) for number, name in enumerate(("tx", "other", "tx", "tx"))]
    assert fates == [Fate.PASS, Fate.PASS, Fate.WAIT, Fate.PASS]
    assert [one["correlation_id"] for one in around.rules[0].told] == [2]


def test_an_answer_tells_its_error() -> None:
    around = Around()
    talk = conversation(around)
    assert ask(talk, end_txn()) is Fate.PASS
    frame = memoryview((5).to_bytes(4, "big") + (0).to_bytes(4, "big") + (47).to_bytes(2, "big"))
    assert talk.fate_of_response(frame, len(frame)) is Fate.PASS
    assert around.recorded[0]["errors"] == (47,)


def test_a_request_without_an_answer_is_over_at_once() -> None:
    around = Around()
    talk = conversation(around)
    for acks, recorded in ((0, 1), (1, 1)):
        ask(talk, frame_of(produce(acks), 8))
        assert len(around.recorded) == recorded


def test_a_large_request_is_read_whole_only_for_a_rule_that_asks() -> None:
    frame = frame_of(produce(1, records=100_000), 8)
    for around, fate in ((Around(), Fate.PASS), (Around(rule(topic="a")), Fate.WHOLE)):
        assert conversation(around).fate_of_request(frame[:16_384], len(frame)) is fate
    around = Around(rule(topic="a"))
    assert conversation(around).fate_of_request(frame, len(frame)) is Fate.WAIT


def test_what_is_no_request_makes_the_connection_opaque() -> None:
    around = Around(rule())
    talk = conversation(around)
    assert ask(talk, memoryview(b"\x7f\xff" + bytes(30))) is Fate.OPAQUE
    assert answer(talk) is Fate.OPAQUE
    assert around.counts.unknown_connections == 1
    assert not around.recorded


def refused(error: int) -> memoryview:
    """A broker's answer to `told`."""
    body = LeaderAndIsrResponse(error_code=error, partition_errors=[]).encode(version=1)
    return memoryview((5).to_bytes(4, "big") + bytes(body))


def test_metadata_from_before_the_rule_is_told_where_the_leader_has_moved() -> None:
    around = Around()

    def told(leader: int, *, client_id: str = "client") -> int:
        """The leader that a client is told by a response that names this one."""
        asked, answered = MetadataRequest.MetadataRequestTopic, MetadataResponse.MetadataResponseTopic
        request = MetadataRequest(topics=[asked(name="a")])
        request.with_header(correlation_id=5, client_id=client_id)
        led = answered.MetadataResponsePartition(partition_index=0, leader_id=leader, replica_nodes=[], isr_nodes=[])
        response = MetadataResponse(brokers=[], topics=[answered(name="a", partitions=[led])])
        talk = conversation(around)
        assert ask(talk, memoryview(bytes(request.encode(version=8, header=True)))) is Fate.PASS
        frame = memoryview((5).to_bytes(4, "big") + bytes(response.encode(version=8)))
        assert talk.fate_of_response(frame[:9], len(frame)) is Fate.WHOLE
        passed = talk.fate_of_response(frame, len(frame))
        (whole,) = (frame,) if passed is Fate.PASS else passed
        return MetadataResponse.decode(whole[4:], version=8).topics[0].partitions[0].leader_id

    assert told(1) == 1
    around.tallies["rule"] = Tally(rule(STALE, api="Metadata", side=RESPONSE))
    assert [told(1), told(2), told(3)] == [1, 1, 1]
    assert around.tallies["rule"].matched == 2, "the first was what the broker said anyway"
    assert told(2, client_id="kafka-chaos") == 2, "the harness observes the cluster as it is"
    del around.tallies["rule"]
    assert told(2) == 2


def test_a_controller_s_frame_that_is_long_is_waited_for() -> None:
    around = Around()
    around.traces_controllers = True
    talk = conversation(around, "broker-3")
    frame = told(7)
    assert talk.fate_of_request(frame[:20], len(frame)) is Fate.WHOLE
    assert talk.unanswered_controller_requests() == 0
    assert ask(talk, frame) is Fate.PASS
    response = refused(0)
    assert talk.fate_of_response(response[:6], len(response)) is Fate.WHOLE
    assert around.counts.answers == 0
    assert talk.fate_of_response(response, len(response)) is Fate.PASS
    (line,) = around.recorded
    assert line["answer"] == {"error_code": 0, "partition_errors": []}
