"""The identity that a record carries: producer_id and seq under a checksum, in a layout that any client can write.

A value is: crc32 (uint32) | magic `KC01` | producer_id (int32) | seq (int64) | zero padding to the record size, all
big-endian, 20 bytes at least. The checksum (CRC-32 as in zlib) covers the lane's name in UTF-8 followed by everything
behind the checksum itself: a damaged record can't be read as another, nor one that strayed into another lane's topic.
A record with a null value, or with a value of the user's own, carries the same 20 bytes in the header
`kafka-chaos-id`.
"""

from __future__ import annotations

import struct
import zlib
from functools import cached_property

import numpy as np
import numpy.typing as npt

MAGIC = b"KC01"
HEADER = "kafka-chaos-id"
SIZE = 20
UNDECODABLE = (-1, -1)

_LAYOUT = struct.Struct(">I4siq")
_SEQ_BYTES = 8
_SEQ_START = 12


class IdentityCodec:
    """Writes and reads the identities of one lane; `record_size` is the size of a value in bytes."""

    def __init__(self, lane: str, record_size: int = SIZE) -> None:
        if record_size < SIZE:
            raise ValueError(f"record_size: {record_size} is not valid: expected at least {SIZE}")
        self.record_size = record_size
        self._seed = zlib.crc32(lane.encode())

    def encode(self, producer_id: int, seq: int) -> bytes:
        """One value."""
        body = _LAYOUT.pack(0, MAGIC, producer_id, seq)[4:] + bytes(self.record_size - SIZE)
        return struct.pack(">I", zlib.crc32(body, self._seed)) + body

    def encode_many(self, producer_id: int, first_seq: int, count: int) -> list[bytes]:
        """`count` values with consecutive seqs.

        CRC-32 is affine over bits, so the checksum of a value is that of seq 0 with one table entry per byte of seq
        mixed in: no byte of padding is looked at again.
        """
        size = self.record_size
        values = np.zeros((count, size), dtype=np.uint8)
        values[:] = np.frombuffer(self.encode(producer_id, 0), dtype=np.uint8)
        seqs = np.arange(first_seq, first_seq + count, dtype=">i8")
        seq_bytes = seqs.view(np.uint8).reshape(count, _SEQ_BYTES)
        crc = np.full(count, int.from_bytes(self.encode(producer_id, 0)[:4], "big"), dtype=np.uint32)
        for position in range(_SEQ_BYTES):
            if seq_bytes[0, position] or seq_bytes[-1, position] or count > 256 ** (_SEQ_BYTES - position - 1):
                crc ^= self._byte_effects[position][seq_bytes[:, position]]
        values[:, :4] = crc.astype(">u4").view(np.uint8).reshape(count, 4)
        values[:, _SEQ_START:SIZE] = seq_bytes
        whole = values.tobytes()
        return [whole[start : start + size] for start in range(0, count * size, size)]

    def checksums(self, producer_ids: npt.NDArray[np.int64], seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The checksums that values with these identities carry, without writing any of them."""
        crc = np.zeros(len(seqs), dtype=np.uint32)
        for producer_id in np.unique(producer_ids):
            crc[producer_ids == producer_id] = int.from_bytes(self.encode(int(producer_id), 0)[:4], "big")
        seq_bytes = seqs.astype(">i8").view(np.uint8).reshape(len(seqs), _SEQ_BYTES)
        for position in range(_SEQ_BYTES):
            crc ^= self._byte_effects[position][seq_bytes[:, position]]
        return crc.astype(np.int64)

    def decode(self, value: bytes | None) -> tuple[int, int]:
        """(producer_id, seq), or (-1, -1) for what is not a value of this lane."""
        if value is None or len(value) < SIZE:
            return UNDECODABLE
        crc, magic, producer_id, seq = _LAYOUT.unpack_from(value)
        if magic != MAGIC or crc != zlib.crc32(value[4:], self._seed):
            return UNDECODABLE
        return producer_id, seq

    @cached_property
    def _byte_effects(self) -> npt.NDArray[np.uint32]:
        """What each value of each of seq's bytes changes in the checksum: an array of shape (8, 256)."""
        body = bytearray(self.record_size - 4)
        nothing = zlib.crc32(body)
        effects = np.zeros((_SEQ_BYTES, 256), dtype=np.uint32)
        for position in range(_SEQ_BYTES):
            for value in range(256):
                body[_SEQ_START - 4 + position] = value
                effects[position][value] = zlib.crc32(body) ^ nothing
            body[_SEQ_START - 4 + position] = 0
        return effects
