"""A record's identity in its bytes: encoded here, decoded by Spark's column expressions."""

from typing import Any

import pytest

from kafka_chaos.contract.identity import IDENTITY_BYTES, IDENTITY_HEADER, encode_identity

BIGGEST = 2**63 - 1
Header = list[tuple[str, bytes]] | None


def test_layout_is_the_documented_one() -> None:
    value = encode_identity("acks1", 7, 2**40 + 5, size=32)
    assert len(value) == 32
    assert value[4:8] == b"KC01"
    assert value[8:12] == (7).to_bytes(4, "big")
    assert value[12:20] == (2**40 + 5).to_bytes(8, "big")
    assert value[20:] == bytes(12)


def test_a_size_below_the_identity_is_refused() -> None:
    with pytest.raises(ValueError, match="20 bytes"):
        encode_identity("a", 0, 0, size=IDENTITY_BYTES - 1)


def corrupted(value: bytes, position: int) -> bytes:
    return value[:position] + bytes([value[position] ^ 1]) + value[position + 1 :]


IDENTITIES = [(0, 0), (1, 1), (2**31 - 1, BIGGEST), (-5, -9), (3, 2**32), (3, 2**31), (3, 2**63 - 2**32)]
PLAIN = encode_identity("käfka", 4, 44, size=100)
CARRIED: list[tuple[bytes | None, Header, tuple[int, int]]] = [
    (PLAIN, None, (4, 44)),
    (PLAIN, [], (4, 44)),
    (None, [(IDENTITY_HEADER, encode_identity("käfka", 1, 2))], (1, 2)),
    (b"the user's own", [("trace", b"x"), (IDENTITY_HEADER, encode_identity("käfka", 1, 3))], (1, 3)),
    (PLAIN, [(IDENTITY_HEADER, encode_identity("käfka", 1, 4))], (1, 4)),
    (PLAIN, [(IDENTITY_HEADER, b"broken")], (-1, -1)),
    (None, None, (-1, -1)),
    (b"", None, (-1, -1)),
    (b"short", None, (-1, -1)),
    (b"a value of somebody else's, long enough to hold one", None, (-1, -1)),
    (encode_identity("another lane", 4, 44), None, (-1, -1)),
    *((corrupted(PLAIN, position), None, (-1, -1)) for position in (0, 3, 4, 8, 19, 20, 99)),
]


@pytest.mark.spark
def test_spark_decodes_what_was_encoded(spark: Any) -> None:
    from pyspark.sql import functions as F

    from kafka_chaos.verification.inputs.topics.kafka_log import decoded_log

    cases = [(encode_identity("käfka", *identity), None, identity) for identity in IDENTITIES] + CARRIED
    rows = [("käfka", 0, offset, None, value, headers) for offset, (value, headers, _) in enumerate(cases)]
    schema = (
        "lane string, partition int, offset bigint, key binary, value binary, "
        "headers array<struct<key string, value binary>>"
    )
    records = spark.createDataFrame(rows, schema)
    log = decoded_log(records).orderBy(F.col("offset")).collect()
    assert [(row.producer_id, row.seq) for row in log] == [expected for _, _, expected in cases]


@pytest.mark.spark
def test_keys_are_text_or_null(spark: Any) -> None:
    from kafka_chaos.verification.inputs.topics.kafka_log import decoded_log

    texts = ["k1", "", "ключ", "𝄞", "a\0b"]
    not_utf8 = [b"\xff\xfe", b"a\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x82"]
    given = [*(text.encode() for text in texts), None, *not_utf8]
    rows = [("a", 0, offset, key, b"", None) for offset, key in enumerate(given)]
    schema = (
        "lane string, partition int, offset bigint, key binary, value binary, "
        "headers array<struct<key string, value binary>>"
    )
    keys = [row.key for row in decoded_log(spark.createDataFrame(rows, schema)).orderBy("offset").collect()]
    assert keys == [*texts, *[None] * (1 + len(not_utf8))]
