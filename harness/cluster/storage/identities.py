"""Reads the identities of a lane's records from the bytes of segments, many at a time.

Guarantee: `IdentityReader` finds what decoding record by record finds. Uncompressed batches of plain identity values
are decoded by columns. The positions of their records are guessed from the magic bytes in every identity, and each
guess is proven by the lengths in the records themselves. A batch with anything else in it is decoded record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kafka_chaos.contract.lane.transactions import DATA, RECORD_KINDS
from kafka_chaos.contract.wire.kafka_python import decode_varint
from kafka_chaos.harness.cluster.storage.segments import HEADER_SIZE, Batch
from kafka_chaos.harness.identity import IDENTITY_BYTES, MAGIC, IdentityCodec

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_DATA = RECORD_KINDS.index(DATA)
# The positions of fields in an identity, after a checksum of four bytes.
_MAGIC_AT = 4
_PRODUCER_ID_AT = 8
_SEQ_AT = 12
_MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class Identities:
    """Records and their identities as columns of equal length, in the order of the log.

    `producer_epochs` are the epochs by which brokers recognise retries, −1 if the producer is not idempotent. `kinds`
    are indices of `RECORD_KINDS`.
    """

    offsets: Numbers
    leader_epochs: Numbers
    producer_ids: Numbers
    seqs: Numbers
    producer_epochs: Numbers
    kinds: Numbers

    def between(self, first: int, end: int | None = None) -> Identities:
        """The rows with offsets from `first` on, and below `end` if that is not None."""
        kept = self.offsets >= first
        if end is not None:
            kept &= self.offsets < end
        return self.select(kept)

    def select(self, rows: npt.NDArray[Any]) -> Identities:
        """The rows that a mask or an array of row numbers selects."""
        return Identities(*(getattr(self, name)[rows] for name in Identities.__slots__))


class IdentityReader:
    """Reads the identities of one lane."""

    def __init__(self, lane: str) -> None:
        self._lane = lane
        self._codec = IdentityCodec(lane)
        self._codecs: dict[int, IdentityCodec] = {}
        """A codec for each size of values, since a checksum covers the whole value."""

    def read(self, batches: Sequence[Batch]) -> Identities:
        """The identities of all records in the batches except transaction markers; (−1, −1) if a record has none."""
        with_data = [batch for batch in batches if not batch.control and batch.count > 0]
        plain = [(index, size) for index, batch in enumerate(with_data) if (size := _plain_value_size(batch))]
        decoded: dict[int, Identities] = dict(self._by_columns(with_data, plain)) if plain else {}
        return joined([decoded.get(index) or self._one_by_one(batch) for index, batch in enumerate(with_data)])

    def _one_by_one(self, batch: Batch) -> Identities:
        records = batch.records()
        identities = [self._codec.decode_record(record.value, record.headers) for record in records]
        offsets = np.array([record.offset for record in records], dtype=np.int64)
        producer_ids, seqs = np.array(identities, dtype=np.int64).reshape(-1, 2).T
        return _with_batch_fields(batch, offsets, producer_ids, seqs)

    def _by_columns(
        self, batches: Sequence[Batch], plain: Sequence[tuple[int, int]]
    ) -> Iterable[tuple[int, Identities]]:
        """The indices and identities of the batches that can be decoded by columns.

        `plain`: the batches to try, by index, with the size of their first records' values.
        """
        # One more byte, since the proof reads the byte after the last record.
        data = np.frombuffer(b"".join(batches[index].data for index, _ in plain) + b"\0", dtype=np.uint8)
        sizes = np.array([batches[index].size for index, _ in plain], dtype=np.int64)
        ends = np.cumsum(sizes)
        counts = np.array([batches[index].count for index, _ in plain], dtype=np.int64)
        # The guess: wherever the magic is, a value begins. The guess fits a batch with as many records as magics.
        magics = np.flatnonzero(data[: -len(MAGIC)] == MAGIC[0]).astype(np.int64)
        for index, byte in enumerate(MAGIC[1:], start=1):
            magics = magics[data[magics + index] == byte]
        values = magics - _MAGIC_AT
        first, last = np.searchsorted(values, ends - sizes + HEADER_SIZE), np.searchsorted(values, ends)
        fits = last - first == counts
        # The guesses in batches that fit, and for each of these guesses, the number of its batch in `plain`.
        rows = np.concatenate([np.arange(a, b) for a, b in zip(first[fits], last[fits], strict=True)] or [first[:0]])
        batch_of = np.repeat(np.flatnonzero(fits), counts[fits])
        value_sizes = np.array([size for _, size in plain], dtype=np.int64)[batch_of]
        starts = (ends - sizes + HEADER_SIZE)[batch_of]
        deltas, proven = _prove(data, values[rows], value_sizes, starts, batch_of)
        broken = np.zeros(len(plain), dtype=bool)
        broken[batch_of[~proven]] = True
        # The last record has to end where its batch does.
        record_ends = values[rows] + value_sizes + 1
        is_last = np.append(batch_of[1:] != batch_of[:-1], True)[: len(batch_of)]  # [:0] if there is no guess
        broken[batch_of[is_last & (record_ends != ends[batch_of])]] = True
        producer_ids, seqs = self._identities(data, values[rows], value_sizes)
        bounds = np.searchsorted(batch_of, np.arange(len(plain) + 1))
        for number in np.flatnonzero(fits & ~broken).tolist():
            index, rows_of_batch = plain[int(number)][0], slice(bounds[number], bounds[number + 1])
            batch = batches[index]
            offsets = batch.base_offset + deltas[rows_of_batch]
            yield index, _with_batch_fields(batch, offsets, producer_ids[rows_of_batch], seqs[rows_of_batch])

    def _identities(self, data: Bytes, values: Numbers, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """The producer ids and sequence numbers in values that begin at these positions."""
        # A wrong guess may be too near to the end of the data. What is read there is not used.
        heads = data[np.minimum(values[:, None] + np.arange(IDENTITY_BYTES), len(data) - 1)]
        stored_checksums = _number(heads, 0, ">u4")
        producer_ids, seqs = _number(heads, _PRODUCER_ID_AT, ">i4"), _number(heads, _SEQ_AT, ">i8")
        sound = np.zeros(len(values), dtype=bool)
        for size in np.unique(sizes):
            codec = self._codecs.setdefault(int(size), IdentityCodec(self._lane, int(size)))
            same_size = sizes == size
            computed = codec.checksums(producer_ids[same_size], seqs[same_size])
            sound[same_size] = stored_checksums[same_size] == computed
        sound &= ~_has_content(data, values + IDENTITY_BYTES, values + sizes)
        # Values with another checksum or with content after the identity are decoded one by one.
        for row in np.flatnonzero(~sound):
            value = data[values[row] : values[row] + sizes[row]].tobytes()
            producer_ids[row], seqs[row] = self._codec.decode(value)
        return producer_ids, seqs


def _with_batch_fields(batch: Batch, offsets: Numbers, producer_ids: Numbers, seqs: Numbers) -> Identities:
    """The rows of a batch's records, with the fields that all records of the batch share."""
    shared = (batch.leader_epoch, batch.idempotent_epoch, _DATA)
    leader_epochs, producer_epochs, kinds = (np.full(len(offsets), value, dtype=np.int64) for value in shared)
    return Identities(offsets, leader_epochs, producer_ids, seqs, producer_epochs, kinds)


def _plain_value_size(batch: Batch) -> int | None:
    """The size of the first record's value; None if the batch has to be decoded record by record."""
    if batch.compression != "none" or batch.legacy:
        return None
    data, position = batch.data, HEADER_SIZE
    try:
        _, position = decode_varint(data, position)  # The record's length.
        position += 1  # Its attributes.
        for _ in ("timestamp delta", "offset delta"):
            _, position = decode_varint(data, position)
        key_size, position = decode_varint(data, position)
        size, _ = decode_varint(data, position + max(0, key_size))
    except (IndexError, ValueError):
        return None
    return size if IDENTITY_BYTES <= size <= len(data) else None


def _varints(data: Bytes, positions: Numbers) -> tuple[Numbers, Numbers]:
    """The varints at these positions, and the positions after them, as `decode_varint` returns them for one position.

    A position beyond the data reads the last byte.
    """
    last = len(data) - 1
    positions = positions.copy()
    values = np.zeros(len(positions), dtype=np.int64)
    more = np.ones(len(positions), dtype=bool)
    for index in range(_MAX_VARINT_BYTES):
        current = data[np.clip(positions, 0, last)].astype(np.int64)
        values[more] |= (current[more] & 0x7F) << (7 * index)
        # Only the varints that are not yet complete (`more` is a mask) go on to their next byte.
        positions += more
        more &= current >= 0x80
        if not more.any():
            break
    # Zigzag: 0, 1, 2, 3 stand for 0, -1, 1, -2.
    return (values >> 1) ^ -(values & 1), positions


def _prove(
    data: Bytes, values: Numbers, sizes: Numbers, first_starts: Numbers, batch_of: Numbers
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The offset deltas of records whose values are guessed to begin at `values`, and whether each guess is right.

    A batch's first record begins after the batch's header (at `first_starts`), each further record where the record
    before ends. If every record's own length agrees, and its fields lead to the guessed value, the guess is right.
    """
    # A record ends with the number of its headers, one byte after the value, which has to be 0.
    ends = values + sizes + 1
    starts = np.where(np.append(True, batch_of[1:] != batch_of[:-1])[: len(ends)], first_starts, np.roll(ends, 1))
    length, body = _varints(data, starts)
    _, position = _varints(data, body + 1)
    deltas, position = _varints(data, position)
    key_size, position = _varints(data, position)
    value_size, position = _varints(data, position + np.maximum(key_size, 0))
    proven = (body + length == ends) & (position == values) & (value_size == sizes)
    return deltas, proven & (data[np.clip(ends - 1, 0, len(data) - 1)] == 0)


def _has_content(data: Bytes, starts: Numbers, ends: Numbers) -> npt.NDArray[np.bool_]:
    """Whether there is anything but zeros from each start to each end."""
    content = np.zeros(len(starts), dtype=bool)
    padded = ends > starts
    if padded.any():
        last = len(data) - 1
        bounds = np.stack([np.minimum(starts[padded], last), np.minimum(ends[padded], last)], axis=1).ravel()
        content[padded] = np.bitwise_or.reduceat(data, bounds)[::2] != 0
    return content


def _number(heads: Bytes, position: int, kind: str) -> Numbers:
    width = np.dtype(kind).itemsize
    return np.ascontiguousarray(heads[:, position : position + width]).view(kind).ravel().astype(np.int64)


def joined(parts: Sequence[Identities]) -> Identities:
    """The rows of all parts, one part after the other."""

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0, dtype=np.int64)])

    return Identities(*map(column, Identities.__slots__))
