"""Decodes a record's identity with Spark's column expressions; `kafka_chaos.contract.identity` defines the layout.

Guarantee: a value that `encode_identity` wrote for a lane decodes to the same (producer_id, seq) in that lane, and to
(−1, −1) in any other lane. Everything else decodes to (−1, −1), too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_chaos.contract.identity import IDENTITY_BYTES, IDENTITY_HEADER, MAGIC

if TYPE_CHECKING:
    from pyspark.sql import Column


def decoded(lane: Column, value: Column, headers: Column | None = None) -> Column:
    """A struct (producer_id int, seq bigint) from a record's lane, value and headers; (−1, −1) if there is none.

    `headers`: Spark's `array<struct<key string, value binary>>`, or None if the source has none.
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
