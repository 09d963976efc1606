"""Brokers' files are collected, without brokers: chunks, torn tails, log starts, missing checkpoints."""

import io
import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.wire.kafka_python import calc_crc32c
from kafka_chaos.harness.cluster.storage import collect
from kafka_chaos.harness.cluster.storage.collect import LeaderEnd, StoredLane, collect_stored
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.verification.inputs.parquet import check_parquet
from tests.harness.cluster.storage.checkpoint_files import format_leader_epochs, format_offsets
from tests.harness.cluster.storage.test_segments import build

LANE, TOPIC = "orders", "topic-of-orders"


def log(epochs: list[int], *, first: int = 0) -> bytes:
    """One batch of three records per epoch."""
    codec = IdentityCodec(LANE, 40)
    return b"".join(
        build([(None, codec.encode(5, offset + i), []) for i in range(3)], offset=offset, epoch=epoch)
        for offset, epoch in zip(count(first, 3), epochs, strict=False)
    )


class Broker:
    def __init__(self, number: int, files: dict[str, bytes]) -> None:
        self.number, self.name, self.files = number, f"broker-{number}", files


def stream(node: Any, folder: str, paths: Iterable[str], *, wanted: re.Pattern[str]) -> Iterator[tuple[str, IO[bytes]]]:
    asked = tuple(paths)
    for name, content in node.files.items():
        if wanted.fullmatch(name) and any(name == path or name.startswith(f"{path}/") for path in asked):
            yield name, io.BytesIO(content)


Gather = Callable[..., Any]


@pytest.fixture
def gather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gather:
    """Collects what these brokers hold; returns the rows of their replicas, and what the checkpoints say."""
    monkeypatch.setattr(collect.files, "stream_files", stream)
    monkeypatch.setattr(collect, "CHECKPOINT_TIMEOUT", 0.0)

    def collected(
        *brokers: Broker,
        folder: Path = tmp_path,
        chunk: int = 1 << 20,
        ends: dict[tuple[str, int], LeaderEnd] | None = None,
        transactional: bool = False,
        tiered: dict[tuple[str, int], Path] | None = None,
    ) -> Any:
        monkeypatch.setattr(collect, "CHUNK", chunk)
        lane = StoredLane(LANE, TOPIC, 2, transactional=transactional)
        collect_stored(brokers, [lane], ends or {}, folder, tiered or {})  # type: ignore[arg-type]
        assert not list(folder.rglob(".*"))
        rows = {}
        for broker in brokers:
            file = folder / "replicas" / f"broker-{broker.number}.parquet"
            check_parquet(file, "replicas")
            rows[broker.number] = pq.read_table(file).to_pylist()
        return rows, json.loads((folder / "checkpoints.json").read_text())["brokers"]

    return collected


def segment(number: int, partition: int = 0) -> str:
    return f"{TOPIC}-{partition}/{number:020}.log"


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(chunk=st.integers(1, 500))
def test_chunks_of_any_size_give_the_same_rows(
    chunk: int, gather: Gather, tmp_path_factory: pytest.TempPathFactory
) -> None:
    broker = Broker(1, {segment(0): log([0, 0, 2]), segment(9): log([2, 5], first=9)})
    rows, _ = gather(broker, folder=tmp_path_factory.mktemp("run"), chunk=chunk)
    assert [(row["offset"], row["leader_epoch"], row["producer_id"], row["seq"]) for row in rows[1]] == [
        (offset, epoch, 5, offset) for offset, epoch in enumerate([0] * 6 + [2] * 6 + [5] * 3)
    ]
    assert {(row["lane"], row["partition"], row["broker"]) for row in rows[1]} == {(LANE, 0, 1)}
    assert {row["producer_epoch"] for row in rows[1]} == {-1}


@pytest.mark.parametrize("content", [IdentityCodec(LANE, 40).encode(5, 0), b"another application's"])
def test_a_batch_without_producer_id_has_no_producer_epoch(content: bytes, gather: Gather) -> None:
    """KafkaJS 2.2.4 writes epoch 0 to the batches of a producer that is not idempotent."""
    batch = build([(None, content, [])], producer=(-1, 0, -1))
    rows, _ = gather(Broker(1, {segment(0): batch}))
    assert [row["producer_epoch"] for row in rows[1]] == [-1]


def test_checkpoints_are_told_by_lane(gather: Gather) -> None:
    full = Broker(
        2,
        {
            segment(0): log([0, 4]),
            f"{TOPIC}-0/leader-epoch-checkpoint": format_leader_epochs([(0, 0), (4, 3)]).encode(),
            f"{TOPIC}-1/{0:020}.log": b"",
            "replication-offset-checkpoint": format_offsets({(TOPIC, 0): 6, ("another", 0): 9}).encode(),
            "recovery-point-offset-checkpoint": format_offsets({(TOPIC, 0): 2}).encode(),
            "another-0/00000000000000000000.log": b"not the log of a lane, so it is not read",
        },
    )
    bare = Broker(3, {segment(0): log([0])})
    rows, reported = gather(full, bare)
    size = len(log([0]))

    def told(mark: int | None, end: int, recovery: int = 0, *epochs: list[int]) -> dict[str, object]:
        return {
            "high_watermark": mark, "log_end_offset": end, "recovery_point": recovery,
            "log_start_offset": 0, "log_bytes": end // 3 * size, "leader_epochs": list(epochs),
        }  # fmt: skip

    assert reported == {
        "2": {f"{LANE}/0": told(6, 6, 2, [0, 0], [4, 3]), f"{LANE}/1": told(None, 0)},
        # What was not checkpointed in time bounds nothing.
        "3": {f"{LANE}/0": told(None, 3)},
    }
    assert [len(rows[broker]) for broker in (2, 3)] == [6, 3]


@pytest.mark.parametrize("tail", [bytes(500), b"\xff" * 500, log([0], first=6)[:-1]], ids=["zeros", "noise", "half"])
def test_a_torn_tail_ends_the_log(tail: bytes, gather: Gather) -> None:
    rows, reported = gather(Broker(1, {segment(0): log([0, 0]) + tail}), chunk=100)
    assert [row["offset"] for row in rows[1]] == list(range(6))
    assert reported["1"][f"{LANE}/0"]["log_end_offset"] == 6


def final_log(folder: Path) -> list[tuple[int, int, int, int]]:
    rows = []
    for file in sorted((folder / "log").iterdir()):
        check_parquet(file, "log")
        rows += [
            (row["partition"], row["offset"], row["producer_id"], row["seq"]) for row in pq.read_table(file).to_pylist()
        ]
    return rows


def test_the_final_log_is_what_each_leader_shows_below_its_high_watermark(gather: Gather, tmp_path: Path) -> None:
    starts = format_offsets({(TOPIC, 0): 1}).encode()
    first = Broker(1, {segment(0): log([0, 0, 0]), segment(0, 1): log([0]), "log-start-offset-checkpoint": starts})
    second = Broker(2, {segment(0): log([0]), segment(0, 1): log([0, 3])})
    ends = {(TOPIC, 0): LeaderEnd(1, 7), (TOPIC, 1): LeaderEnd(2, 6)}
    rows, _ = gather(first, second, chunk=150, ends=ends)
    # What lies below the log start is no part of the replica either.
    assert [row["offset"] for row in rows[1] if row["partition"] == 0] == list(range(1, 9))
    assert final_log(tmp_path) == [(0, offset, 5, offset) for offset in range(1, 7)] + [
        (1, offset, 5, offset) for offset in range(6)
    ]


def test_what_a_replica_left_behind_when_it_moved_away_is_none(gather: Gather) -> None:
    marks = {"replication-offset-checkpoint": format_offsets({(TOPIC, 0): 3}).encode()}
    old = Broker(1, {segment(0): log([0]), segment(0, 1): log([0]), **marks})
    new = Broker(2, {segment(0): log([0, 0]), segment(0, 1): log([0]), **marks})
    ends = {(TOPIC, 0): LeaderEnd(2, 6, (2,)), (TOPIC, 1): LeaderEnd(1, 3, (1, 2))}
    rows, stored = gather(old, new, ends=ends)
    held = {number: sorted({row["partition"] for row in found}) for number, found in rows.items()}
    assert held == {1: [1], 2: [0, 1]}
    assert sorted(stored["1"]) == [f"{LANE}/1"]
    assert sorted(stored["2"]) == [f"{LANE}/0", f"{LANE}/1"]


def test_a_tiered_replica_is_what_the_leader_gives_out_below_the_broker_s_own_segments(
    gather: Gather, tmp_path: Path
) -> None:
    remote = tmp_path / f"{3:020}.log"
    remote.write_bytes(log([0, 0, 2, 2], first=3))
    marks = {"replication-offset-checkpoint": format_offsets({(TOPIC, 0): 15}).encode()}
    leader = Broker(1, {segment(9): log([2, 2], first=9), **marks})
    behind = Broker(2, {segment(12): log([2], first=12), segment(15): b"", **marks})
    ends = {(TOPIC, 0): LeaderEnd(1, 14)}
    rows, _ = gather(leader, behind, ends=ends, tiered={(TOPIC, 0): remote})
    assert [[(row["offset"], row["leader_epoch"]) for row in rows[broker]] for broker in (1, 2)] == 2 * [
        [(offset, 0 if offset < 9 else 2) for offset in range(3, 15)]
    ]
    final = pq.read_table(tmp_path / "log" / "broker-1.parquet").to_pylist()
    assert [row["offset"] for row in final] == [*range(3, 14)]


def test_a_leader_whose_files_end_below_its_high_watermark_gives_no_log(gather: Gather, tmp_path: Path) -> None:
    ends = {(TOPIC, 0): LeaderEnd(1, 7)}
    with pytest.raises(
        ClusterFailure, match="broker-1: its files of topic-of-orders-0 end at offset 6, below the high waterm"
    ):
        gather(Broker(1, {segment(0): log([0, 0])}), ends=ends)
    assert not (tmp_path / "log").exists()


def test_a_file_that_can_not_be_read_leaves_nothing_half_written(gather: Gather, tmp_path: Path) -> None:
    broken = Broker(1, {segment(0): log([0]), f"{TOPIC}-0/leader-epoch-checkpoint": b"rubbish"})
    with pytest.raises(
        Exception, match="broker-1:topic-of-orders-0/leader-epoch-checkpoint, line 1: version is 'rubbish'"
    ):
        gather(broken)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def batch_of(
    records: list[tuple[bytes | None, bytes]], *, offset: int, kafka_id: int, epoch: int = 0, control: bool = False
) -> bytes:
    """A transactional batch of (key, value), or a control batch."""
    batch = bytearray(build([(key, value, []) for key, value in records], offset=offset, epoch=3))
    struct.pack_into(">h", batch, 21, 0x30 if control else 0x10)
    struct.pack_into(">qhi", batch, 43, kafka_id, epoch, 0)
    struct.pack_into(">I", batch, 17, calc_crc32c(memoryview(bytes(batch))[21:]))
    return bytes(batch)


def marker(offset: int, kind: int, *, kafka_id: int, epoch: int = 0) -> bytes:
    records = [(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 1))]
    return batch_of(records, offset=offset, kafka_id=kafka_id, epoch=epoch, control=True)


def test_a_marker_ends_what_was_before_it_though_remote_storage_holds_what_follows(
    gather: Gather, tmp_path: Path
) -> None:
    codec = IdentityCodec(LANE, 40)
    first, second = (
        batch_of([(None, codec.encode(producer, 0))], offset=offset, kafka_id=900, epoch=epoch)
        for producer, offset, epoch in ((5, 3, 0), (6, 5, 1))
    )
    local = marker(4, 1, kafka_id=900) + second + marker(6, 1, kafka_id=900, epoch=1)
    remote = tmp_path / f"{3:020}.log"
    remote.write_bytes(first + local)
    broker = Broker(1, {segment(4): local})
    rows, _ = gather(broker, transactional=True, tiered={(TOPIC, 0): remote})
    found = [(row["offset"], row["kind"], row["producer_id"]) for row in rows[1]]
    assert found == [(3, "data", 5), (4, "commit", 5), (5, "data", 6), (6, "commit", 6)]


@pytest.mark.parametrize("chunk", [40, 150, 1 << 20])
def test_a_marker_is_told_with_the_producer_whose_transaction_it_ends(
    chunk: int, gather: Gather, tmp_path: Path
) -> None:
    codec = IdentityCodec(LANE, 40)

    def data(offset: int, producer: int, *seqs: int, kafka_id: int, epoch: int = 0) -> bytes:
        records = [(None, codec.encode(producer, seq)) for seq in seqs]
        return batch_of(records, offset=offset, kafka_id=kafka_id, epoch=epoch)

    content = b"".join(
        [
            marker(0, 1, kafka_id=900),
            data(1, 5, 0, 1, kafka_id=900),
            data(3, 6, 0, kafka_id=901),
            marker(4, 1, kafka_id=900),
            # The next incarnation has the same id of Kafka and a higher epoch.
            marker(5, 0, kafka_id=901, epoch=1),
            data(6, 7, 0, kafka_id=900, epoch=1),
            marker(7, 0, kafka_id=900, epoch=2),
            # A leader change, which ends no transaction.
            marker(8, 2, kafka_id=900),
        ]
    )
    rows, reported = gather(
        Broker(1, {segment(0): content}), chunk=chunk, ends={(TOPIC, 0): LeaderEnd(1, 9)}, transactional=True
    )
    found = [(row["offset"], row["kind"], row["producer_id"], row["seq"], row["producer_epoch"]) for row in rows[1]]
    assert found == [
        (0, "commit", -1, -1, 0),
        *((1, "data", 5, 0, 0), (2, "data", 5, 1, 0), (3, "data", 6, 0, 0)),
        *((4, "commit", 5, -1, 0), (5, "abort", 6, -1, 1)),
        *((6, "data", 7, 0, 1), (7, "abort", 7, -1, 2)),
    ]
    assert {row["leader_epoch"] for row in rows[1]} == {3}
    assert reported["1"][f"{LANE}/0"]["log_end_offset"] == 9
    final = pq.read_table(tmp_path / "log").to_pylist()
    assert [row["offset"] for row in final] == [1, 2, 3, 6], "consumers get no markers"
