"""The identity that a record carries: producer_id and seq under a checksum, in a layout that any client can write.

Layout of a value, all numbers big-endian, at least `IDENTITY_BYTES` long:

    crc32 uint32 | magic b"KC01" | producer_id int32 | seq int64 | zero padding up to the record's size

The crc32 (zlib's) covers the lane's name in UTF-8 followed by value[4:]. So neither a damaged record nor one that
strayed into another lane's topic can be mistaken for another record. If a record's value is null or the user's own, the
header `kafka-chaos-id` carries the same 20 bytes, without padding. A header takes precedence over the value.
"""

import struct
import zlib

IDENTITY_BYTES = 20
IDENTITY_HEADER = "kafka-chaos-id"
MAGIC = b"KC01"
UNDECODABLE = (-1, -1)
"""The identity of a record that carries none."""

CHECKSUM_BYTES = 4
_LAYOUT = struct.Struct(">I4siq")


def lane_checksum(lane: str) -> int:
    """The CRC-32 of a lane's name, from which the checksums of its records continue."""
    return zlib.crc32(lane.encode())


def encode_identity(lane: str, producer_id: int, seq: int, size: int = IDENTITY_BYTES) -> bytes:
    """The value (or header) that carries this identity, padded to `size` bytes; ValueError if it does not fit."""
    if size < IDENTITY_BYTES:
        raise ValueError(f"size {size} is too small: an identity takes {IDENTITY_BYTES} bytes")
    body = _LAYOUT.pack(0, MAGIC, producer_id, seq)[CHECKSUM_BYTES:] + bytes(size - IDENTITY_BYTES)
    return struct.pack(">I", zlib.crc32(body, lane_checksum(lane))) + body


def decode_identity(value: bytes | None, lane_seed: int) -> tuple[int, int]:
    """(producer_id, seq), or `UNDECODABLE`; `lane_seed` is the lane's `lane_checksum`."""
    if value is None or len(value) < IDENTITY_BYTES:
        return UNDECODABLE
    crc, magic, producer_id, seq = _LAYOUT.unpack_from(value)
    if magic != MAGIC or crc != zlib.crc32(value[CHECKSUM_BYTES:], lane_seed):
        return UNDECODABLE
    return producer_id, seq
