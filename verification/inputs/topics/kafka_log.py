"""Reads the final log from the lanes' topics, with Spark's own Kafka source.

Guarantee: it holds every record that the partitions' leaders showed a read_uncommitted consumer between the earliest
and the latest offset, each exactly once, decoded lane by lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafka_chaos.contract.identity import IDENTITY_BYTES, IDENTITY_HEADER, MAGIC
from kafka_chaos.contract.lane.lanes import Lane

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def topic_log(
    spark: SparkSession, *, bootstrap_servers: str, lanes: Iterable[Lane], options: Mapping[str, str] | None = None
) -> DataFrame:
    """The lanes' topics as rows of LOG, read from earliest to latest each time the DataFrame is evaluated.

    `spark`: a session started with `spark_session(with_kafka_source=True)`. `options`: other options of the Kafka
    source, such as `kafka.security.protocol`. Isolation is read_uncommitted, so that records of aborted transactions
    are read, too.
    """
    from pyspark.sql import functions as F

    topics = {lane.topic or lane.lane: lane.lane for lane in lanes}
    source = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.isolation.level": "read_uncommitted",
        # Asking for a topic that does not exist must not create it.
        "kafka.allow.auto.create.topics": "false",
        "subscribe": ",".join(topics),
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        **(options or {}),
    }
    records = spark.read.format("kafka").options(**source).load()
    lane = F.create_map(*(F.lit(text) for pair in topics.items() for text in pair))[F.col("topic")]
    return decoded_log(records.withColumn("lane", lane))


def decoded_log(records: DataFrame) -> DataFrame:
    """Rows of the Kafka source with their lane, as rows of LOG.

    A key that is not valid UTF-8 becomes null; no check uses keys.
    """
    from pyspark.sql import functions as F

    from kafka_chaos.verification.schemas import TABLES

    named = records.withColumn("who", decoded(F.col("lane"), F.col("value"), F.col("headers")))
    # Spark 3.5 has no try_validate_utf8, and Spark 4 fails to decode what is not UTF-8.
    utf8 = F.try_validate_utf8 if hasattr(F, "try_validate_utf8") else _utf8_by_decoding
    key = utf8(F.col("key").cast("string"))
    return named.select("lane", "partition", "offset", "who.producer_id", "who.seq", key.alias("key")).select(
        *TABLES["log"].names
    )


def _utf8_by_decoding(text: Column) -> Column:
    """The text, or null if it is not valid UTF-8: decoding it replaces what is not valid."""
    from pyspark.sql import functions as F

    content = text.cast("binary")
    return F.when(F.encode(F.decode(content, "UTF-8"), "UTF-8") == content, text)


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
