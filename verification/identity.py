"""A record's identity in its bytes: how it is written, and how Spark reads it back with column expressions.

Guarantee: what `encode_identity` wrote for a lane decodes to the same (producer_id, seq) in that lane, and to
(−1, −1) in any other, as does everything that is not an identity.

Layout of a value, all whole numbers big-endian, at least `IDENTITY_BYTES` long:

    crc32 uint32 | magic b"KC01" | producer_id int32 | seq int64 | zero padding up to the record's size

The crc32 (zlib's) is over the lane's name in UTF-8 followed by value[4:]. A record whose value is null or the
user's own carries the same 20 bytes, without padding, in the header `kafka-chaos-id`; a header wins over the
value.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

IDENTITY_BYTES = 20
IDENTITY_HEADER = "kafka-chaos-id"
MAGIC = b"KC01"


def encode_identity(lane: str, producer_id: int, seq: int, size: int = IDENTITY_BYTES) -> bytes:
    """The value (or header) that carries this identity, padded to `size` bytes."""
    if size < IDENTITY_BYTES:
        raise ValueError(f"size {size} is too small: an identity takes {IDENTITY_BYTES} bytes")
    body = (MAGIC + struct.pack(">iq", producer_id, seq)).ljust(size - 4, b"\0")
    return struct.pack(">I", zlib.crc32(lane.encode() + body)) + body


def decoded(lane: Column, value: Column, headers: Column | None = None) -> Column:
    """A struct (producer_id int, seq bigint) from a record's lane, value and headers; (−1, −1) if there is none.

    `headers`: Spark's `array<struct<key string, value binary>>`, or None where the source has none.
    """
    from pyspark.sql import functions as F

    carrier = value
    if headers is not None:
        own = F.filter(headers, lambda header: header["key"] == IDENTITY_HEADER)
        carrier = F.when(F.size(own) > 0, F.element_at(own, -1)["value"]).otherwise(value)
    is_long_enough = F.octet_length(carrier) >= IDENTITY_BYTES
    checksum = _whole_number(carrier, 1, 4)
    content = F.crc32(F.concat(F.encode(lane, "UTF-8"), F.substring(carrier, 5, 0x7FFFFFFF)))
    holds = is_long_enough & (F.substring(carrier, 5, 4) == F.lit(MAGIC)) & (checksum == content)
    holds = F.coalesce(holds, F.lit(False))
    producer_id = F.shiftright(F.shiftleft(_whole_number(carrier, 9, 4), 32), 32).cast("int")
    high, low = _whole_number(carrier, 13, 4), _whole_number(carrier, 17, 4)
    seq = F.shiftleft(high, 32).bitwiseOR(low)
    return F.struct(
        F.when(holds, producer_id).otherwise(F.lit(-1)).alias("producer_id"),
        F.when(holds, seq).otherwise(F.lit(-1).cast("bigint")).alias("seq"),
    )


def _whole_number(carrier: Column, first: int, size: int) -> Column:
    """The unsigned big-endian number in `size` bytes of `carrier` from byte `first`, counted from 1."""
    from pyspark.sql import functions as F

    return F.conv(F.hex(F.substring(carrier, first, size)), 16, 10).cast("bigint")
