"""A link reads requests of clients and of brokers as kafka-python writes them."""

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.metadata.metadata import MetadataResponse
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse
from kafka.protocol.producer.transaction import AddPartitionsToTxnRequest, EndTxnRequest, EndTxnResponse

from kafka_chaos.conformance.controllers.requests import leader_and_isr
from kafka_chaos.contract.wire.kafka_python import MemoryRecordsBuilder
from kafka_chaos.contract.wire.messages import LeaderAndIsrRequest
from kafka_chaos.faults.links.relay.contents import Contents, FetchSession, MessageDecoder, acks_and_contents, errors_of
from kafka_chaos.faults.links.relay.frames import API_KEYS, Header, read_header

TOPIC_ID = uuid.UUID(int=7)


def frame_of(request: Any, version: int) -> memoryview:
    request.API_VERSION = version
    request.with_header(correlation_id=5, client_id="client")
    return memoryview(bytes(request.encode(version=version, header=True)))


def understood(frame: memoryview, decoder: MessageDecoder | None = None) -> Contents:
    header = read_header(frame)
    assert header is not None
    assert (header.correlation_id, header.client_id) == (5, "client")
    contents = (decoder or MessageDecoder()).request(header, frame, FetchSession())
    assert contents is not None
    return contents


@pytest.mark.parametrize("version", range(EndTxnRequest.max_version + 1))
def test_the_end_of_a_transaction(version: int) -> None:
    request = EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=0, committed=False)
    contents = understood(frame_of(request, version))
    assert contents.transactional_ids == ("tx",)
    assert contents.detail == {"producer_id": 7, "producer_epoch": 0, "committed": False}


def test_partitions_that_join_a_transaction() -> None:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    old = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[topic(name="a", partitions=[0, 2]), topic(name="b", partitions=[1])],
    )
    contents = understood(frame_of(old, 3))
    assert contents.transactional_ids == ("tx",)
    assert contents.partitions == (("a", 0), ("a", 2), ("b", 1))
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id="tx",
        producer_id=1,
        producer_epoch=0,
        verify_only=True,
        topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic(name="a", partitions=[3])
        ],
    )
    contents = understood(frame_of(AddPartitionsToTxnRequest(transactions=[transaction]), 4))
    assert (contents.transactional_ids, contents.partitions) == (("tx",), (("a", 3),))


def produce(acks: int, *, transactional_id: str | None = None, records: int = 10) -> Any:
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=3, records=b"x" * records)
    topic = ProduceRequest.TopicProduceData(name="a", topic_id=TOPIC_ID, partition_data=[data])
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1, topic_data=[topic])


@pytest.mark.parametrize("version", range(3, ProduceRequest.max_version + 1))
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_the_beginning_of_a_produce_request_says_where_it_goes(version: int, acks: int) -> None:
    frame = frame_of(produce(acks, transactional_id="tx", records=100_000), version)[:2_000]
    header = read_header(frame)
    assert header is not None
    found = acks_and_contents(header, frame, {TOPIC_ID: "a"})
    assert found is not None
    assert found[0] == acks
    assert found[1].partitions == (("a", 3),)
    assert found[1].transactional_ids == ("tx",)


def fetch(version: int, epoch: int, partitions: list[int], forgotten: list[int]) -> memoryview:
    topic = FetchRequest.FetchTopic
    left = FetchRequest.ForgottenTopic
    request = FetchRequest(
        max_wait_ms=1,
        min_bytes=1,
        session_id=9,
        session_epoch=epoch,
        topics=[
            topic(topic="a", topic_id=TOPIC_ID, partitions=[topic.FetchPartition(partition=n) for n in partitions])
        ],
        forgotten_topics_data=[left(topic="a", topic_id=TOPIC_ID, partitions=forgotten)] if forgotten else [],
    )
    return frame_of(request, version)


@pytest.mark.parametrize("version", [7, 12, 13, 17])
def test_a_session_of_fetches_covers_what_its_requests_do_not_repeat(version: int) -> None:
    decoder, session = MessageDecoder(), FetchSession()
    decoder.topic_names[TOPIC_ID] = "a"

    def covered(epoch: int, partitions: list[int], forgotten: list[int]) -> set[int]:
        frame = fetch(version, epoch, partitions, forgotten)
        header = read_header(frame)
        assert header is not None
        contents = decoder.request(header, frame, session)
        assert contents is not None
        assert {topic for topic, _ in contents.partitions} <= {"a"}
        return {partition for _, partition in contents.partitions}

    assert covered(0, [0, 1], []) == {0, 1}
    assert covered(1, [], []) == {0, 1}
    assert covered(2, [2], [0]) == {1, 2}
    assert covered(0, [5], []) == {5}
    assert covered(-1, [6], []) == {6}


def test_names_of_topic_ids_are_learned_from_metadata() -> None:
    decoder = MessageDecoder()
    kind = MetadataResponse.MetadataResponseTopic
    answer = MetadataResponse(brokers=[], topics=[kind(error_code=0, name="a", topic_id=TOPIC_ID, partitions=[])])
    frame = memoryview((5).to_bytes(4, "big") + b"\0" + bytes(answer.encode(version=12)))
    assert decoder.response(Header(API_KEYS["Metadata"], 12, 5, "", 0), frame) is not None
    assert decoder.topic_names == {TOPIC_ID: "a"}


@pytest.mark.parametrize("version", range(LeaderAndIsrRequest.max_version + 1))
def test_what_a_controller_tells_brokers(version: int) -> None:
    state = {"topic_name": "a", "partition_index": 2, "leader": 1, "leader_epoch": 7, "isr": [1], "replicas": [1]}
    request = leader_and_isr(version, controller=1, controller_epoch=3, topic_id=TOPIC_ID, **state)
    decoder = MessageDecoder()
    contents = understood(frame_of(request, version), decoder)
    assert contents.body == LeaderAndIsrRequest.decode(request.encode(version=version), version=version).to_dict(
        json=False
    )
    assert contents.partitions == (("a", 2),)
    assert contents.leader_epochs == {("a", 2): 7}
    assert contents.detail == {"controller_epoch": 3}
    assert decoder.topic_names == ({TOPIC_ID: "a"} if version >= 5 else {})


def test_error_codes_of_partitions_count_too() -> None:
    body = {
        "error_code": 0,
        "results_by_topic_v3_and_below": [{"name": "a", "results": [{"partition_error_code": 51}, {"error_code": 0}]}],
        "node": {"error_code": 6},
    }
    assert list(errors_of(body)) == [51, 6]


@given(st.binary(max_size=200), st.integers(0, 90), st.integers(0, 20))
def test_no_bytes_make_it_raise(data: bytes, api: int, version: int) -> None:
    frame = memoryview(struct.pack(">hhih6s", api, version, 5, 6, b"client") + data)
    header = read_header(frame)
    if header is None:
        return
    decoder = MessageDecoder()
    decoder.request(header, frame, FetchSession())
    decoder.response(header, memoryview(data + b"\0\0\0\0"))
    acks_and_contents(header, frame, {})


def _response(kind: Any, version: int, **values: Any) -> memoryview:
    response = kind(version=version, **values)
    tagged = b"\0" if kind.flexible_version_q(version) else b""
    return memoryview((5).to_bytes(4, "big") + tagged + bytes(response.encode()))


def _answered(api: str, version: int, frame: memoryview, error: int) -> Any:
    header = Header(API_KEYS[api], version, 5, "client", 0)
    answer = MessageDecoder().with_error(header, frame, error)
    return None if answer is None else MessageDecoder().response(header, memoryview(answer))


@pytest.mark.parametrize("version", [3, 7, 9])
def test_each_partition_of_an_answer_has_the_error(version: int) -> None:
    topic = ProduceResponse.TopicProduceResponse
    partitions = [topic.PartitionProduceResponse(version=version, index=n, error_code=0, base_offset=7) for n in (0, 1)]
    frame = _response(
        ProduceResponse, version, responses=[topic(version=version, name="a", partition_responses=partitions)]
    )
    body = _answered("Produce", version, frame, 6)
    assert [part["error_code"] for part in body["responses"][0]["partition_responses"]] == [6, 6]


BATCHES = MemoryRecordsBuilder(2, 0, 1 << 20)
BATCHES.append(timestamp=1, key=None, value=b"value")
BATCHES.close()
BATCH = bytes(BATCHES.buffer())


@pytest.mark.parametrize("version", [4, 12, 17])
def test_one_byte_that_a_batch_s_checksum_covers_is_altered(version: int) -> None:
    def altered(byte: int, named: str | None = None, topic: str = "a", topic_id: uuid.UUID = TOPIC_ID) -> list[int]:
        """How far from the batch's end a Fetch response differs from the one that passes."""
        kind = FetchResponse.FetchableTopicResponse
        part = kind.PartitionData(version=version, partition_index=3, error_code=0, high_watermark=1, records=BATCH * 2)
        topics = [kind(version=version, topic=topic, topic_id=topic_id, partitions=[part])]
        frame = _response(FetchResponse, version, responses=topics)
        decoder, header = MessageDecoder(), Header(API_KEYS["Fetch"], version, 5, "broker", 0)
        decoder.topic_names[TOPIC_ID] = "a"
        passed = decoder.with_altered_byte(header, frame, "response", (named, None), byte) or frame
        end = bytes(frame).index(BATCH) + len(BATCH)
        return [end - n for n, (one, other) in enumerate(zip(frame, passed, strict=True)) if one != other]

    assert [altered(1), altered(1, "a"), altered(len(BATCH) - 21)] == [[1], [1], [len(BATCH) - 21]]
    assert not altered(len(BATCH) - 20), "the checksum itself"
    assert not altered(1, "b")
    assert not altered(1, None, "__cluster_metadata", uuid.UUID(int=1))


def test_an_answer_without_parts_has_the_error_itself() -> None:
    assert _answered("EndTxn", 1, _response(EndTxnResponse, 1, error_code=0), 14)["error_code"] == 14


def test_what_has_no_place_for_an_error_or_is_cut_off_is_left_alone() -> None:
    empty = _response(ProduceResponse, 7, responses=[])
    assert _answered("Produce", 7, empty, 6) is None, "no partition, and no error of its own"
    assert _answered("EndTxn", 1, _response(EndTxnResponse, 1, error_code=0)[:-1], 14) is None
