"""The recorded consumer of an application: what is written down of what it gets."""

import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IDENTITY_HEADER, IdentityCodec
from kafka_chaos.harness.workload.application.consumer import ApplicationConsumers
from kafka_chaos.harness.workload.application.handles import ApplicationThread, ConsumerHandle, Handle
from tests.harness.workload.loads import load_of
from tests.parquet import rows_in
from tests.plugin.application.fakes import Message
from tests.plugin.application.producing import LANE


class Consuming:
    def __init__(self, folder: Path, lane: LaneSpec = LANE) -> None:
        self.folder = folder
        load = load_of(folder, lane)
        self.tables = load.tables
        self.recorder = ApplicationConsumers(lane, load)
        self.handle = ConsumerHandle(lane, load, self.recorder)

    def rows(self) -> list[dict[str, Any]]:
        self.tables.close()
        return rows_in(self.folder / "consumed")


def read(seq: int, *, partition: int = 0, offset: int | None = None, **more: Any) -> Message:
    identity = IdentityCodec("orders").encode(0, seq)
    where = seq if offset is None else offset
    reported = {"headers": [("trace", b"x"), (IDENTITY_HEADER, identity)], "value": b"mine", **more}
    return Message("orders-1", partition, where, **reported)


def drained(consuming: Consuming, *messages: Message, **configs: Any) -> list[tuple[str, int, int]]:
    client = consuming.handle.consumer(configs)
    client.assign([TopicPartition("orders-1", 0)])
    client._client.messages = list(messages)
    for _ in messages:
        client.poll(0.1)
    return [(row["consumer"], row["offset"], row["seq"]) for row in consuming.rows()]


def test_errors_and_other_topics_are_handed_on_and_not_written_down(recorded: Path) -> None:
    error = Message("orders-1", 0, 0, error=KafkaError(KafkaError._PARTITION_EOF))
    assert drained(Consuming(recorded), error, Message("audit", 0, 0, headers=None, value=b"x")) == []


@pytest.mark.parametrize(
    ("epochs", "names"),
    [((1, 1, 2), "112"), ((1, 1, 1), "111"), ((1, 2, 1), "111"), ((1, None, 1), "112"), ((1, 1, None), "112")],
)
def test_only_a_later_leader_epoch_explains_a_position_that_went_back_into_the_log(
    recorded: Path, epochs: tuple[int | None, ...], names: str
) -> None:
    """Behind a truncation everything is newer (KIP-320). What is of an epoch that was read already was read twice."""
    messages = [read(seq, leader_epoch=epoch) for seq, epoch in zip((4, 5, 4), epochs, strict=True)]
    assert "".join(row[0][-1] for row in drained(Consuming(recorded), *messages)) == names


@pytest.mark.parametrize(
    "more", [{"cleanup_policy": "compact"}, {"transactional": Transactional(), "idempotence": True}]
)
def test_a_log_whose_first_record_may_be_anywhere_may_be_read_from_anywhere(
    recorded: Path, more: dict[str, Any]
) -> None:
    consuming = Consuming(recorded, LANE.model_copy(update=more))
    assert [row[0][-1] for row in drained(consuming, read(4), read(5), read(4))] == ["1", "1", "2"]


def test_without_resets_going_back_keeps_its_name_and_can_be_judged(recorded: Path) -> None:
    rows = drained(Consuming(recorded), read(0), read(1), read(0), **{"auto.offset.reset": "error"})
    assert len({row[0] for row in rows}) == 1


def test_an_assignment_begins_a_new_name_and_the_application_hears_of_it(recorded: Path) -> None:
    consuming = Consuming(recorded)
    client = consuming.handle.consumer()
    heard: list[Any] = []
    assigned = [TopicPartition("orders-1", 0)]
    client.subscribe(["orders-1"], on_assign=lambda consumer, partitions: heard.append((consumer, partitions)))
    for seq in (0, 1):
        client._client.callbacks["on_assign"](client._client, assigned)
        client._client.messages = [read(seq)]
        client.poll(0.1)
    assert heard == [(client, assigned)] * 2, "with the recorded consumer, not the one inside"
    assert len({row["consumer"] for row in consuming.rows()}) == 2


def test_a_function_that_raises_is_told_with_its_own_error(recorded: Path) -> None:
    def broken(handle: Handle) -> None:
        raise ValueError("no stock")

    thread = ApplicationThread(broken, Consuming(recorded).handle, role="producer")
    thread.start()
    with pytest.raises(
        ClusterFailure, match="the producer function of lane orders raised ValueError: no stock"
    ) as reported:
        thread.end()
    assert isinstance(reported.value.__cause__, ValueError)


def test_a_function_that_does_not_return_is_told_what_to_do(recorded: Path) -> None:
    stuck = threading.Event()
    thread = ApplicationThread(lambda _: stuck.wait(30), Consuming(recorded).handle, role="consumer")
    thread.start()
    with pytest.raises(ClusterFailure, match=r"let it loop while handle\.running"):
        thread.end(timeout=0.05)
    stuck.set()
