import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_chaos.harness.identity import IDENTITY_BYTES, UNDECODABLE, IdentityCodec

producer_ids = st.integers(0, 2**31 - 1)
seqs = st.integers(0, 2**62)


@given(lane=st.text(min_size=1), producer_id=producer_ids, seq=seqs, size=st.integers(IDENTITY_BYTES, 300))
def test_a_value_decodes_to_what_was_encoded(lane: str, producer_id: int, seq: int, size: int) -> None:
    codec = IdentityCodec(lane, size)
    value = codec.encode(producer_id, seq)
    assert len(value) == size
    assert codec.decode(value) == (producer_id, seq)


@given(
    producer_id=producer_ids,
    first=st.integers(0, 2**62),
    count=st.integers(1, 600),
    size=st.integers(IDENTITY_BYTES, 64),
)
def test_many_are_encoded_like_one_by_one(producer_id: int, first: int, count: int, size: int) -> None:
    codec = IdentityCodec("lane", size)
    expected = [codec.encode(producer_id, first + index) for index in range(count)]
    assert codec.encode_many(producer_id, first, count) == expected


@given(seq=seqs, position=st.integers(0, 99), flip=st.integers(1, 255))
def test_a_damaged_value_is_undecodable(seq: int, position: int, flip: int) -> None:
    codec = IdentityCodec("lane", 100)
    value = bytearray(codec.encode(1, seq))
    value[position] ^= flip
    assert codec.decode(bytes(value)) == UNDECODABLE


def test_the_layout_is_the_documented_one_and_a_size_below_it_is_refused() -> None:
    value = IdentityCodec("lane", 24).encode(7, 9)
    body = b"KC01" + (7).to_bytes(4, "big") + (9).to_bytes(8, "big") + bytes(4)
    assert value == zlib.crc32(b"lane" + body).to_bytes(4, "big") + body
    with pytest.raises(ValueError, match="record_size: 19 is not valid: expected at least 20"):
        IdentityCodec("lane", 19)
