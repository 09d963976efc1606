"""Decodes segment files into batches and records, each with its place in the file.

Every whole batch is returned with the fields of its header, after its checksum was verified. If the end of a file makes
no sense, as after a crash, it is reported as a torn tail, and no error is raised. kafka-python decodes headers and
records. Layout: https://kafka.apache.org/39/documentation/#recordbatch. In the formats before v2 (Kafka 0.11), each
message counts as a batch (of the messages compressed in it, if any), and has neither leader epoch nor producer.
"""

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.wire.kafka_python import DefaultRecordBatch, LegacyRecordBatch, calc_crc32c

SEGMENT_NAME = re.compile(r"(\d{20})\.log")
HEADER_SIZE = DefaultRecordBatch.HEADER_STRUCT.size  # bytes of a batch's header in format v2
LENGTH_END = DefaultRecordBatch.AFTER_LEN_OFFSET  # the position after the field with the length
MAGIC_AT: int = LegacyRecordBatch.MAGIC_OFFSET  # the position of the magic byte, the same in all formats
LEGACY_SIZES = (26, 34)
"""The bytes of an empty message in format v0 (magic 0), and in format v1 (magic 1), which has a timestamp."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The compression types, by their numbers in a batch's attributes."""
NO_PRODUCER = NO_LEADER_EPOCH = -1


class SegmentError(KafkaChaosError):
    """Raised for a segment file or a batch that can't be read; the message names file and place."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a log. `control` records are transaction markers: no consumer sees them."""

    offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    control: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One record batch, at `position` (in bytes) of `file`, with the offsets `base_offset` to `last_offset`, inclusive.

    `count`: the number of its records. After a compaction, a batch may have fewer records than offsets.
    """

    file: str
    position: int
    base_offset: int
    last_offset: int
    count: int
    compression: str
    data: bytes = field(repr=False, compare=False)
    leader_epoch: int = NO_LEADER_EPOCH
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_PRODUCER
    transactional: bool = False
    control: bool = False

    def records(self) -> tuple[Record, ...]:
        """The batch's records, decompressed and decoded; raises `SegmentError` where that is impossible."""
        return tuple(
            Record(
                int(decoded.offset),
                self.leader_epoch,
                self.producer_id,
                self.producer_epoch,
                # In a control record, key and value are the marker itself.
                decoded.key,
                decoded.value,
                () if self.legacy else tuple(decoded.headers),
                self.control,
            )
            for decoded in _decoded(self.described, self.data)
        )

    @property
    def size(self) -> int:
        """The batch's size in bytes."""
        return len(self.data)

    @property
    def legacy(self) -> bool:
        """Whether the batch has a message format older than v2."""
        return self.data[MAGIC_AT] < len(LEGACY_SIZES)

    @property
    def idempotent_epoch(self) -> int:
        """The producer's epoch; -1 for a producer without idempotence, for which KafkaJS writes epoch 0 and id -1."""
        return NO_PRODUCER if self.producer_id == NO_PRODUCER else self.producer_epoch

    @property
    def described(self) -> str:
        """Which batch it is, in words for messages."""
        return f"{self.file}: batch of offset {self.base_offset} at position {self.position}"


@dataclass(frozen=True, slots=True)
class TornTail:
    """The end of a file, from `position` on, that is not a whole batch; `reason` says why.

    `cut_short`: whether the tail may be the beginning of a batch, which goes on in bytes that are not there.
    """

    position: int
    reason: str
    cut_short: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment file; `base_offset` is the offset in its name."""

    file: str
    base_offset: int
    batches: tuple[Batch, ...]
    torn: TornTail | None

    @property
    def next_offset(self) -> int:
        """The offset after the segment's last record."""
        return self.batches[-1].last_offset + 1 if self.batches else self.base_offset


def base_offset_of(file: str) -> int:
    """The base offset in a segment's file name; raises `SegmentError` for any other name."""
    match = SEGMENT_NAME.fullmatch(file.rpartition("/")[2])
    if match is None:
        raise SegmentError(f"{file}: not a segment's name, expected 20 digits and .log")
    return int(match[1])


def read_segment(file: str, data: bytes) -> Segment:
    """The batches of a segment file named `file` with the content `data`."""
    batches: list[Batch] = []
    position = 0
    while position < len(data):
        batch = _read_batch(file, data, position)
        if isinstance(batch, TornTail):
            return Segment(file, base_offset_of(file), tuple(batches), batch)
        batches.append(batch)
        position += batch.size
    return Segment(file, base_offset_of(file), tuple(batches), None)


def _read_batch(file: str, data: bytes, position: int) -> Batch | TornTail:
    """The batch at `position`, which may be a message of format v0 or v1, or the reason why there is none."""
    left = len(data) - position
    magic = data[position + MAGIC_AT] if left > MAGIC_AT else None
    legacy = magic is not None and magic < len(LEGACY_SIZES)
    unit, least = ("message", LEGACY_SIZES[magic]) if magic is not None and legacy else ("batch", HEADER_SIZE)
    if not legacy and left < least:
        return TornTail(position, f"{left} bytes are less than a batch header's {least}", cut_short=True)
    # Every format begins with the offset in 8 bytes, and the length of all that follows the length.
    size = LENGTH_END + int.from_bytes(data[position + 8 : position + LENGTH_END], "big", signed=True)
    if size < least:
        return TornTail(position, f"a {unit} length of {size} bytes is less than the least, {least}")
    if not legacy and magic != 2:
        return TornTail(position, f"magic {magic}, expected 2")
    if left < size:
        return TornTail(position, f"the {unit} has {size} bytes, {left} are there", cut_short=True)
    whole = data[position : position + size]
    header = LegacyRecordBatch(whole, magic) if legacy else DefaultRecordBatch(whole[:HEADER_SIZE])
    checked = memoryview(whole)[DefaultRecordBatch.ATTRIBUTES_OFFSET :]
    if not (header.validate_crc() if legacy else calc_crc32c(checked) == header.crc):
        return TornTail(position, f"the {unit}'s checksum differs")
    codec = header.compression_type
    compression = CODECS[codec] if codec < len(CODECS) else f"codec {codec}"
    make_batch = partial(Batch, file=file, position=position, data=whole, compression=compression)
    if legacy:
        # A compressed message has the offset of the last message in it.
        messages = _decoded(f"{file}: message at position {position}", whole) if codec else ()
        offsets = [message.offset for message in messages] or [header.base_offset]
        return make_batch(base_offset=offsets[0], last_offset=offsets[-1], count=len(offsets))
    return make_batch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        count=header.records_count,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        transactional=header.is_transactional,
        control=header.is_control_batch,
    )


def _decoded(batch: str, data: bytes) -> tuple[Any, ...]:
    """The records of a batch, or the messages in a compressed message; raises `SegmentError`, which names `batch`."""
    try:
        magic = data[MAGIC_AT]
        return tuple(LegacyRecordBatch(data, magic) if magic < len(LEGACY_SIZES) else DefaultRecordBatch(data))
    except Exception as error:
        # kafka-python and the compression libraries raise errors of many types.
        raise SegmentError(f"{batch}: its records can't be read: {error!r}") from error
