"""The identity that a record carries: producer_id and seq, with a checksum, in a layout that any client can write.

`producer_id` is the producer's number in its lane, and `seq` counts its records. Both are the harness's, not Kafka's.

Layout of a value, all numbers big-endian, at least `IDENTITY_BYTES` long:

    crc32 uint32 | magic b"KC01" | producer_id int32 | seq int64 | zero padding up to the record's size

The crc32 (zlib's) covers the lane's name in UTF-8 followed by value[4:]. So a reader recognises a damaged record, and a
record that strayed into another lane's topic. If a record's value is null or the user's own, the header
`kafka-chaos-id` carries the same 20 bytes, without padding. A header takes precedence over the value.

NumPy computes many values or checksums at once, since producers write thousands of records a second.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

IDENTITY_BYTES = 20
IDENTITY_HEADER = "kafka-chaos-id"
MAGIC = b"KC01"
UNDECODABLE = (-1, -1)
"""The identity of a record that carries none."""

_CHECKSUM_BYTES = 4
_LAYOUT = struct.Struct(">I4siq")
_SEQ_BYTES = 8
_SEQ_START = 12


class IdentityCodec:
    """Writes and reads the identities of one lane; `record_size` is the size of a value in bytes."""

    def __init__(self, lane: str, record_size: int = IDENTITY_BYTES) -> None:
        if record_size < IDENTITY_BYTES:
            raise ValueError(f"record_size: {record_size} is not valid: expected at least {IDENTITY_BYTES}")
        self.record_size = record_size
        self._seed = zlib.crc32(lane.encode())

    def encode(self, producer_id: int, seq: int) -> bytes:
        """The value that carries this identity."""
        body = _LAYOUT.pack(0, MAGIC, producer_id, seq)[_CHECKSUM_BYTES:] + bytes(self.record_size - IDENTITY_BYTES)
        return struct.pack(">I", zlib.crc32(body, self._seed)) + body

    def encode_many(self, producer_id: int, first_seq: int, count: int) -> list[bytes]:
        """`count` values with consecutive seqs.

        CRC-32 is affine over bits. So a value's checksum is the checksum of the value with seq 0, XORed with one table
        entry for each byte of seq. Bytes that are 0 in all seqs have no effect. The padding is read only once.
        """
        size = self.record_size
        values = np.zeros((count, size), dtype=np.uint8)
        values[:] = np.frombuffer(self.encode(producer_id, 0), dtype=np.uint8)
        seqs = np.arange(first_seq, first_seq + count, dtype=">i8")
        seq_bytes = seqs.view(np.uint8).reshape(count, _SEQ_BYTES)
        crc = np.full(count, int.from_bytes(self.encode(producer_id, 0)[:_CHECKSUM_BYTES], "big"), dtype=np.uint32)
        for position in range(_SEQ_BYTES):
            # A byte that is 0 in the first and the last seq is 0 in all, unless `count` suffices to wrap it around.
            if seq_bytes[0, position] or seq_bytes[-1, position] or count > 256 ** (_SEQ_BYTES - position - 1):
                crc ^= self._byte_effects[position][seq_bytes[:, position]]
        values[:, :_CHECKSUM_BYTES] = crc.astype(">u4").view(np.uint8).reshape(count, _CHECKSUM_BYTES)
        values[:, _SEQ_START:IDENTITY_BYTES] = seq_bytes
        joined = values.tobytes()
        return [joined[start : start + size] for start in range(0, count * size, size)]

    def checksums(self, producer_ids: npt.NDArray[np.int64], seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The checksums of values with these identities, computed without writing the values."""
        crc = np.zeros(len(seqs), dtype=np.uint32)
        for producer_id in np.unique(producer_ids):
            crc[producer_ids == producer_id] = int.from_bytes(self.encode(int(producer_id), 0)[:_CHECKSUM_BYTES], "big")
        seq_bytes = seqs.astype(">i8").view(np.uint8).reshape(len(seqs), _SEQ_BYTES)
        for position in range(_SEQ_BYTES):
            crc ^= self._byte_effects[position][seq_bytes[:, position]]
        return crc.astype(np.int64)

    def decode(self, value: bytes | None) -> tuple[int, int]:
        """The (producer_id, seq) in a value, or `UNDECODABLE` if the value is not of this lane."""
        if value is None or len(value) < IDENTITY_BYTES:
            return UNDECODABLE
        crc, magic, producer_id, seq = _LAYOUT.unpack_from(value)
        if magic != MAGIC or crc != zlib.crc32(value[_CHECKSUM_BYTES:], self._seed):
            return UNDECODABLE
        return producer_id, seq

    def decode_record(self, value: object, headers: Iterable[tuple[str, object]] | None) -> tuple[int, int]:
        """The identity of a record: a header wins over the value, and the last header over earlier headers."""
        id_headers = [content for name, content in headers or () if name == IDENTITY_HEADER]
        carrier = id_headers[-1] if id_headers else value
        return self.decode(carrier) if isinstance(carrier, bytes) else UNDECODABLE

    def columns_of(self, messages: Sequence[Any]) -> dict[str, list[Any]]:
        """The columns of `consumed/` that come from these messages of librdkafka.

        A header, which takes time to read, is read only if the value has no identity: no producer writes both.
        """
        identities = [self.decode(message.value()) for message in messages]
        if UNDECODABLE in identities:
            identities = [
                self.decode_record(None, message.headers()) if identity == UNDECODABLE else identity
                for message, identity in zip(messages, identities, strict=True)
            ]
        return {
            "partition": [message.partition() for message in messages],
            "offset": [message.offset() for message in messages],
            "producer_id": [producer_id for producer_id, _ in identities],
            "seq": [seq for _, seq in identities],
            "leader_epoch": [message.leader_epoch() for message in messages],
        }

    @cached_property
    def _byte_effects(self) -> npt.NDArray[np.uint32]:
        """How each byte of seq changes the checksum: an array of shape (8, 256), by position and value of the byte."""
        body = bytearray(self.record_size - _CHECKSUM_BYTES)
        crc_of_zeros = zlib.crc32(body)
        effects = np.zeros((_SEQ_BYTES, 256), dtype=np.uint32)
        for position in range(_SEQ_BYTES):
            for value in range(256):
                body[_SEQ_START - _CHECKSUM_BYTES + position] = value
                effects[position][value] = zlib.crc32(body) ^ crc_of_zeros
            body[_SEQ_START - _CHECKSUM_BYTES + position] = 0
        return effects
