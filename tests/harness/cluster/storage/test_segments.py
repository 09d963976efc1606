"""Segment bytes → batches and records: torn tails, damage, and the formats before v2."""

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_chaos.contract.wire.kafka_python import MemoryRecordsBuilder, calc_crc32c
from kafka_chaos.harness.cluster.storage import segments
from kafka_chaos.harness.cluster.storage.files import CheckpointError, parse_leader_epochs, parse_offsets

NAME = "00000000000000000000.log"

Content = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def build(
    records: list[Content],
    *,
    offset: int = 0,
    epoch: int = 0,
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    builder = MemoryRecordsBuilder(
        2, codec, 1 << 20, 0, producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2]
    )
    for index, (key, value, headers) in enumerate(records):
        assert builder.append(1000 + index, key, value, headers) is not None
    builder.close()
    batch = bytearray(builder.buffer())
    # The broker sets these two; the checksum doesn't cover them.
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">i", batch, 12, epoch)
    return bytes(batch)


@given(st.data())
def test_a_cut_anywhere_is_a_torn_tail_behind_the_whole_batches(data: st.DataObject) -> None:
    pieces = [build([(b"k", b"v" * 30, [])] * 2, offset=2 * index) for index in range(3)]
    whole = b"".join(pieces)
    cut = data.draw(st.integers(0, len(whole)))
    segment = segments.read_segment(NAME, whole[:cut])
    complete = cut // len(pieces[0])
    assert len(segment.batches) == complete
    assert segment.next_offset == 2 * complete
    if cut % len(pieces[0]) == 0:
        assert segment.torn is None
    else:
        assert segment.torn is not None
        assert segment.torn.position == complete * len(pieces[0])


@given(position=st.integers(segments.HEADER_SIZE - 40, 90), flip=st.integers(1, 255))
def test_damage_behind_the_checksum_is_noticed(position: int, flip: int) -> None:
    good, bad = build([(None, b"v" * 30, [])]), bytearray(build([(None, b"v" * 30, [])], offset=1))
    bad[position % len(bad)] ^= flip
    segment = segments.read_segment(NAME, good + bytes(bad))
    assert len(segment.batches) == 1
    assert segment.torn is not None
    assert segment.torn.reason == "the batch's checksum differs"


@given(st.binary(max_size=300))
def test_any_bytes_are_batches_a_torn_tail_or_a_clear_refusal(data: bytes) -> None:
    with suppress(segments.SegmentError):
        segment = segments.read_segment(NAME, data)
        read = sum(batch.size for batch in segment.batches)
        assert read == (segment.torn.position if segment.torn else len(data))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", segments.CODECS[:3])
def test_messages_of_formats_before_v2_are_read_without_epoch_and_producer(magic: int, codec: str) -> None:
    builder = MemoryRecordsBuilder(magic, segments.CODECS.index(codec), 1 << 20, offset=0)
    for index in range(3):
        builder.append(index, b"key", b"value" * 10)
    builder.close()
    data = bytes(builder.buffer())
    segment = segments.read_segment(NAME, data + data[:20])
    assert segment.torn is not None
    assert (segment.torn.position, segment.torn.cut_short) == (len(data), True)
    assert [batch.compression for batch in segment.batches] == [codec] * (3 if codec == "none" else 1)
    assert segment.next_offset == 3
    found = [
        (record.offset, record.key, record.value, record.leader_epoch, record.producer_id)
        for batch in segment.batches
        for record in batch.records()
    ]
    assert found == [(index, b"key", b"value" * 10, -1, -1) for index in range(3)]


def test_a_damaged_message_of_a_former_format_ends_the_segment() -> None:
    builder = MemoryRecordsBuilder(1, 0, 1 << 20)
    for index in range(2):
        builder.append(index, None, b"value")
    builder.close()
    data = bytearray(builder.buffer())
    data[-1] ^= 1
    segment = segments.read_segment(NAME, bytes(data))
    assert [batch.base_offset for batch in segment.batches] == [0]
    assert segment.torn is not None
    assert segment.torn.reason == "the message's checksum differs"


def test_records_that_do_not_decompress_are_told_with_their_place() -> None:
    batch = bytearray(build([(None, b"v" * 100, [])], codec=4))
    batch[segments.HEADER_SIZE : segments.HEADER_SIZE + 8] = b"rubbish!"
    struct.pack_into(">I", batch, 17, calc_crc32c(bytes(batch[21:])))
    segment = segments.read_segment(NAME, bytes(batch))
    with pytest.raises(segments.SegmentError, match=f"{NAME}: batch of offset 0 at position 0: .*"):
        segment.batches[0].records()


@pytest.mark.parametrize("name", ["0.log", "00000000000000000000.index", "leader-epoch-checkpoint", ""])
def test_only_a_segment_s_name_tells_a_base_offset(name: str) -> None:
    with pytest.raises(segments.SegmentError, match="not a segment's name"):
        segments.base_offset_of(name)
    assert segments.base_offset_of("broker-1:t-0/00000000000000000042.log") == 42


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_offsets, "1\n0\n", "f, line 1: version 1, expected 0"),
        (parse_offsets, "0\n", "f, line 2: missing, expected the number of entries"),
        (parse_offsets, "0\n2\nt 0 1\n", "f, line 2: 2 entries announced, 1 lines follow"),
        (parse_offsets, "0\n1\nt 0\n", "f, line 3: 't 0', expected 'topic partition offset'"),
        (parse_offsets, "0\n2\nt 0 1\nt -1 1\n", "f, line 4: partition is '-1', expected a whole number of 0 or more"),
        (parse_offsets, "0\n1\nt 0 ٣\n", "f, line 3: offset is '٣'"),
        (parse_offsets, "0\n2\nt 0 1\nt 0 2\n", "f, line 4: t-0 occurs twice"),
        (parse_leader_epochs, "0\n1\n0\n", "f, line 3: '0', expected 'epoch start-offset'"),
        (parse_leader_epochs, "0\n2\n3 0\n2 5\n",
         "f, line 4: epoch 2 from 5 on is older than the line before, epoch 3 from 0 on"),
    ],
)  # fmt: skip
def test_checkpoints_that_kafka_would_not_write_are_refused(
    parse: Callable[[str, str], object], text: str, message: str
) -> None:
    with pytest.raises(CheckpointError) as refusal:
        parse("f", text)
    assert message in str(refusal.value)


@given(st.text(alphabet="0123456789 -t\n", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_offsets, parse_leader_epochs):
        with suppress(CheckpointError):
            parse("f", text)
