"""Segment files as batches and records, each with its place in the file.

Every whole batch is returned with what its header says, its checksum compared; where a file stops making sense, as
after a crash, the rest is reported as a torn tail and not raised. Record bodies are decoded by kafka-python. Layout:
https://kafka.apache.org/39/documentation/#recordbatch. A message of the formats before v2 (Kafka 0.11) is a batch of
its own, or of those that are compressed in it, without leader epoch and producer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.harness.cluster.kafka_python import (
    DefaultRecordBatch,
    KafkaError,
    LegacyRecordBatch,
    calc_crc32c,
    size_of_varint,
)

SEGMENT_NAME = re.compile(r"(\d{20})\.log")
HEADER_SIZE = DefaultRecordBatch.HEADER_STRUCT.size
LENGTH_END = DefaultRecordBatch.AFTER_LEN_OFFSET
MAGIC_AT: int = LegacyRecordBatch.MAGIC_OFFSET
LEGACY_SIZES = (26, 34)
"""Of an empty message of formats v0 and v1; the latter has a timestamp."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NO_SEQUENCE = NO_PRODUCER = NO_LEADER_EPOCH = NO_TIMESTAMP = -1

_MAX_SEQUENCE = 2**31 - 1


class SegmentError(KafkaChaosError):
    """A segment file that can't be read at all, or a batch whose records can't; the message names file and place."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a log.

    `timestamp` is in milliseconds since the epoch, `size` in bytes within its batch, uncompressed. `sequence` is the
    idempotent producer's, -1 without one. `control` records are transaction markers: no consumer sees them.
    """

    offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    size: int
    control: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch: `position` and `size` in bytes within `file`; offsets inclusive.

    `count` is the number of records left in it: compaction removes records and keeps the offsets.
    """

    file: str
    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    compression: str
    transactional: bool
    control: bool
    data: bytes = field(repr=False, compare=False)

    def records(self) -> tuple[Record, ...]:
        """Its records, decompressed and decoded; raises `SegmentError` where that is impossible."""
        if self.legacy:
            return tuple(self._legacy_record(found) for found in _messages(self.place, self.data))
        try:
            return tuple(self._record(found) for found in DefaultRecordBatch(self.data))
        except (KafkaError, ValueError, IndexError, TypeError, OverflowError) as error:
            raise SegmentError(f"{self.place}: its records can't be read: {error}") from error
        except Exception as error:
            # The compression libraries raise what they like.
            raise SegmentError(f"{self.place}: {self.compression} can't decompress it: {error!r}") from error

    @property
    def legacy(self) -> bool:
        """Whether its message format is older than v2."""
        return self.data[MAGIC_AT] < len(LEGACY_SIZES)

    @property
    def idempotent_epoch(self) -> int:
        """The epoch of its idempotent producer, -1 without one: KafkaJS then writes epoch 0 to producer id -1."""
        return NO_PRODUCER if self.producer_id == NO_PRODUCER else self.producer_epoch

    @property
    def place(self) -> str:
        """Its place, for messages."""
        return f"{self.file}: batch of offset {self.base_offset} at position {self.position}"

    def _record(self, found: object) -> Record:
        offset = int(found.offset)  # type: ignore[attr-defined]
        body = int(found.size_in_bytes)  # type: ignore[attr-defined]
        return Record(
            offset=offset,
            leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            sequence=_sequence(self.base_sequence, offset - self.base_offset),
            # A control record's key and value are the marker itself; kafka-python keeps them apart.
            key=found.key,  # type: ignore[attr-defined]
            value=found.value,  # type: ignore[attr-defined]
            headers=tuple(found.headers),  # type: ignore[attr-defined]
            timestamp=int(found.timestamp),  # type: ignore[attr-defined]
            size=body + size_of_varint(body),
            control=self.control,
        )

    def _legacy_record(self, found: Any) -> Record:
        return Record(
            offset=int(found.offset),
            leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            sequence=self.base_sequence,
            key=found.key,
            value=found.value,
            headers=(),
            timestamp=NO_TIMESTAMP if found.timestamp is None else int(found.timestamp),
            size=LEGACY_SIZES[self.data[MAGIC_AT]] + len(found.key or b"") + len(found.value or b""),
        )


@dataclass(frozen=True, slots=True)
class TornTail:
    """The tail after the last whole batch of a file: `size` bytes from `position` on, and why they are no batch.

    `cut_short`: they may be the beginning of a batch.
    """

    position: int
    size: int
    reason: str
    cut_short: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment file; `base_offset` is the one in its name."""

    file: str
    base_offset: int
    size: int
    batches: tuple[Batch, ...]
    torn: TornTail | None

    @property
    def next_offset(self) -> int:
        """The offset that a record behind this segment's last one takes."""
        return self.batches[-1].last_offset + 1 if self.batches else self.base_offset


def base_offset_of(file: str) -> int:
    """The base offset in a segment's file name; raises `SegmentError` for another name."""
    named = SEGMENT_NAME.fullmatch(file.rpartition("/")[2])
    if named is None:
        raise SegmentError(f"{file}: not a segment's name, expected 20 digits and .log")
    return int(named[1])


def read_segment(file: str, data: bytes) -> Segment:
    """The batches of a segment file named `file` with the content `data`."""
    batches: list[Batch] = []
    torn: TornTail | None = None
    position = 0
    while position < len(data):
        found = _read_batch(file, data, position)
        if isinstance(found, _Refusal):
            torn = TornTail(position, len(data) - position, found.reason, found.cut_short)
            break
        batches.append(found)
        position += found.size
    return Segment(file, base_offset_of(file), len(data), tuple(batches), torn)


def records_of(batches: tuple[Batch, ...]) -> Iterator[Record]:
    """All records of some batches, in their order."""
    for batch in batches:
        yield from batch.records()


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
    cut_short: bool = False


def _read_batch(file: str, data: bytes, position: int) -> Batch | _Refusal:
    """The batch at `position`, or the reason why there is none."""
    left = len(data) - position
    if left > MAGIC_AT and data[position + MAGIC_AT] < len(LEGACY_SIZES):
        return _read_message(file, data, position)
    if left < HEADER_SIZE:
        return _Refusal(f"{left} bytes are less than a batch header's {HEADER_SIZE}", cut_short=True)
    size = LENGTH_END + int.from_bytes(data[position + 8 : position + LENGTH_END], "big", signed=True)
    if size < HEADER_SIZE:
        return _Refusal(f"a batch length of {size} bytes is less than its header's {HEADER_SIZE}")
    magic = data[position + MAGIC_AT]
    if magic != 2:
        return _Refusal(f"magic {magic}, expected 2")
    if left < size:
        return _Refusal(f"the batch has {size} bytes, {left} are there", cut_short=True)
    whole = data[position : position + size]
    header = DefaultRecordBatch(whole[:HEADER_SIZE])
    if calc_crc32c(memoryview(whole)[DefaultRecordBatch.ATTRIBUTES_OFFSET :]) != header.crc:
        return _Refusal("the batch's checksum differs")
    codec = header.compression_type
    return Batch(
        file=file,
        position=position,
        size=size,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=header.records_count,
        compression=CODECS[codec] if codec < len(CODECS) else f"codec {codec}",
        transactional=header.is_transactional,
        control=header.is_control_batch,
        data=whole,
    )


def _read_message(file: str, data: bytes, position: int) -> Batch | _Refusal:
    """The message of format v0 or v1 at `position`, or the reason why there is none."""
    left = len(data) - position
    size = LENGTH_END + int.from_bytes(data[position + 8 : position + LENGTH_END], "big", signed=True)
    least = LEGACY_SIZES[data[position + MAGIC_AT]]
    if size < least:
        return _Refusal(f"a message length of {size} bytes is less than an empty one's {least}")
    if left < size:
        return _Refusal(f"the message has {size} bytes, {left} are there", cut_short=True)
    whole = data[position : position + size]
    header = LegacyRecordBatch(whole, whole[MAGIC_AT])
    if not header.validate_crc():
        return _Refusal("the message's checksum differs")
    codec = header.compression_type
    # A compressed message has the last offset of those in it.
    offsets = (
        [header.base_offset]
        if codec == 0
        else [found.offset for found in _messages(f"{file}: message at position {position}", whole)]
    )
    return Batch(
        file=file,
        position=position,
        size=size,
        base_offset=offsets[0],
        last_offset=offsets[-1],
        leader_epoch=NO_LEADER_EPOCH,
        producer_id=NO_PRODUCER,
        producer_epoch=NO_PRODUCER,
        base_sequence=NO_SEQUENCE,
        count=len(offsets),
        compression=CODECS[codec] if codec < len(CODECS) else f"codec {codec}",
        transactional=False,
        control=False,
        data=whole,
    )


def _messages(place: str, data: bytes) -> tuple[Any, ...]:
    """A message of format v0 or v1, or those that are compressed in it; raises `SegmentError`."""
    try:
        return tuple(LegacyRecordBatch(data, data[MAGIC_AT]))
    except Exception as error:
        # The compression libraries raise what they like.
        raise SegmentError(f"{place}: it can't be decompressed: {error!r}") from error


def _sequence(base: int, delta: int) -> int:
    """Sequence numbers wrap around to 0 behind the largest int32."""
    return NO_SEQUENCE if base == NO_SEQUENCE else (base + delta) % (_MAX_SEQUENCE + 1)
