"""Identities read by columns against identities read record by record, over every kind of batch."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_chaos.contract.wire.kafka_python import MemoryRecordsBuilder
from kafka_chaos.harness.cluster.storage.identities import IdentityReader
from kafka_chaos.harness.cluster.storage.segments import Batch, read_segment
from kafka_chaos.harness.identity import IDENTITY_HEADER, MAGIC, IdentityCodec

LANE = "lane-ä"
FIRST = "00000000000000000000.log"
RARE = settings(max_examples=50)

identities = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
keys = st.none() | st.binary(max_size=10) | st.just(MAGIC * 2)


@st.composite
def records(draw: st.DrawFn, size: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    kind = draw(
        st.sampled_from(["plain"] * 12 + ["other size", "damaged", "padded", "noise", "null", "header", "stray"])
    )
    producer_id, seq = draw(identities)
    value: bytes | None = IdentityCodec(LANE, size).encode(producer_id, seq)
    headers: list[tuple[str, bytes | None]] = []
    assert value is not None
    if kind == "other size":
        value = IdentityCodec(LANE, draw(st.integers(20, 80))).encode(producer_id, seq)
    elif kind == "damaged":
        place = draw(st.integers(0, size - 1))
        value = value[:place] + bytes([value[place] ^ draw(st.integers(1, 255))]) + value[place + 1 :]
    elif kind == "padded":
        # Right in its checksum, with content where others have zeros.
        body = value[4:] + b"\1" + bytes(draw(st.integers(0, 3))) + MAGIC
        value = struct.pack(">I", __import__("zlib").crc32(LANE.encode() + body)) + body
    elif kind == "noise":
        value = draw(st.binary(max_size=60)) + draw(st.sampled_from([b"", MAGIC]))
    elif kind == "null":
        value = None
    elif kind == "header":
        headers = [(IDENTITY_HEADER, IdentityCodec(LANE).encode(producer_id, seq)), ("x", None)]
    elif kind == "stray":
        value = IdentityCodec("another-lane", size).encode(producer_id, seq)
    return draw(keys), value, headers


@st.composite
def logs(draw: st.DrawFn) -> tuple[Batch, ...]:
    data, offset = b"", draw(st.integers(0, 2**40))
    start = offset
    for _ in range(draw(st.integers(0, 4))):
        size = draw(st.sampled_from([20, 21, 50, 100]))
        content = draw(st.lists(records(size), min_size=1, max_size=6))
        builder = MemoryRecordsBuilder(2, draw(st.sampled_from([0, 0, 0, 4])), 1 << 20)
        for key, value, headers in content:
            # Gaps, as compaction leaves them.
            builder.skip(draw(st.sampled_from([0, 0, 0, 300])))
            builder.append(draw(st.integers(1, 2**50)), key, value, headers)
        builder.close()
        batch = bytearray(builder.buffer())
        struct.pack_into(">q", batch, 0, offset)
        struct.pack_into(">i", batch, 12, draw(st.integers(0, 1000)))
        data += bytes(batch)
        offset += builder.next_offset()
    segment = read_segment(f"{start:020}.log", data)
    assert segment.torn is None
    return segment.batches


@RARE
@given(logs())
def test_columns_say_what_records_say(batches: tuple[Batch, ...]) -> None:
    codec, expected = IdentityCodec(LANE), []
    for record in (record for batch in batches for record in batch.records()):
        carriers = [value for name, value in record.headers if name == IDENTITY_HEADER]
        identity = codec.decode(carriers[-1] if carriers else record.value)
        expected.append((record.offset, record.leader_epoch, *identity))
    found = IdentityReader(LANE).read(batches)
    columns = (found.offsets, found.leader_epochs, found.producer_ids, found.seqs)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    if expected:
        middle = expected[len(expected) // 2][0]
        assert found.between(middle).offsets.tolist() == [row[0] for row in expected if row[0] >= middle]


def test_a_magic_at_the_very_end_is_no_identity() -> None:
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    builder.append(1, None, IdentityCodec(LANE, 20).encode(7, 0), [])
    builder.append(1, None, None, [("x", MAGIC)])
    builder.close()
    batch = read_segment(FIRST, bytes(builder.buffer())).batches[0]
    found = IdentityReader(LANE).read([batch])
    assert list(zip(found.producer_ids.tolist(), found.seqs.tolist(), strict=True)) == [(7, 0), (-1, -1)]
