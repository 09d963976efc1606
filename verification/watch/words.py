"""Words of 64 identities, and what they show: which records are on their way, lost, or there twice.

Guarantee: a word is closed only once all its records are sent and stored once each; a further copy opens it again.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kafka_chaos.verification.run_length import encoding
from kafka_chaos.verification.run_length.encoding import WORD, Packing
from kafka_chaos.verification.tables.history import FAIL, OK

FULL = -1
"""A word in which all 64 bits are set."""
OPEN = (*WORD, "partition", "shift", "sent", "ok", "failed", "stored", "n_sent", "last_ns", "closed")
"""The columns of open words, a row per place."""


def opened(packing: Packing, rows: DataFrame) -> DataFrame:
    """A batch's rows as places of words: OPEN, n, is_ok."""
    nothing = F.lit(0).cast("bigint")

    def places(table: DataFrame, **columns: Column) -> DataFrame:
        names = ("sent", "ok", "failed", "stored", "n_sent", "last_ns")
        filled = (columns.get(name, nothing).cast("bigint").alias(name) for name in names)
        is_ok = columns.get("is_ok", F.lit(False)).alias("is_ok")
        return table.select(*WORD, "partition", "shift", *filled, F.lit(False).alias("closed"), "n", is_ok)

    bits, outcome = F.col("bits"), F.col("outcome")
    known = F.col("lane").isNotNull()
    sent = packing.sent(rows.where(~F.col("is_stored"))).where(known)
    stored = packing.stored(rows.where("is_stored")).where(known)
    return places(
        sent,
        sent=bits,
        ok=F.when(outcome == OK, bits).otherwise(nothing),
        failed=F.when(outcome == FAIL, bits).otherwise(nothing),
        n_sent=F.col("n"),
        last_ns=F.col("first_complete_ns"),
        is_ok=F.coalesce(outcome == OK, F.lit(False)),
    ).union(places(stored, stored=bits))


def closed_apart(words: DataFrame, closed: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The words that stay open, and those that are done: all 64 sent, none as a fail, each stored at one place.

    What arrives for a word that was closed before is a further copy of a record, and stays, marked so.
    """
    sums = [F.bit_or(name).alias(name) for name in ("sent", "ok", "failed", "stored")]
    places = words.groupBy(*WORD, "partition", "shift").agg(
        *sums, F.sum("n_sent").alias("n_sent"), F.max("last_ns").alias("last_ns"), F.max("closed").alias("closed")
    )
    ranges = closed.withColumnsRenamed({"lane_key": "of_lane", "producer_id": "of_producer"})
    within = (
        (F.col("lane_key") == F.col("of_lane"))
        & (F.col("producer_id") == F.col("of_producer"))
        & (F.col("word") >= F.col("first"))
        & (F.col("word") <= F.col("last"))
    )
    marked = places.join(F.broadcast(ranges), within, "left").withColumn(
        "closed", F.col("closed") | F.col("of_lane").isNotNull()
    )
    marked = marked.select(*OPEN).localCheckpoint(eager=True)
    whole = marked.groupBy(*WORD).agg(
        F.bit_or("sent").alias("sent"),
        F.bit_or("failed").alias("failed"),
        F.bit_or("stored").alias("stored"),
        F.sum(F.bit_count("stored")).alias("places"),
        F.max("closed").alias("closed"),
    )
    is_done = (F.col("sent") == FULL) & (F.col("stored") == FULL) & (F.col("places") == 64) & (F.col("failed") == 0)
    done = whole.where(is_done & ~F.col("closed")).select(*WORD).localCheckpoint(eager=True)
    still_open = marked.join(done, list(WORD), "left_anti")
    return still_open, done.select(*WORD[:2], F.col("word").alias("first"), F.col("word").alias("last"))


def joined(ranges: DataFrame) -> DataFrame:
    """Ranges of closed words in which neighbours are one range."""
    order = Window.partitionBy(*WORD[:2]).orderBy("first")
    begins = F.coalesce(F.col("first") > F.lag("last").over(order) + 1, F.lit(True)).cast("int")
    numbered = ranges.withColumn("begins", begins).withColumn("island", F.sum("begins").over(order))
    return (
        numbered.groupBy(*WORD[:2], "island")
        .agg(F.min("first").alias("first"), F.max("last").alias("last"))
        .drop("island")
    )


def lost(words: DataFrame, late: Column) -> DataFrame:
    """lane_key and `n`: acknowledged identities of open words that are stored nowhere, where `late` holds."""
    missing = words.withColumn("late_ok", F.when(late, F.col("ok")).otherwise(0)).groupBy(*WORD)
    bits = missing.agg(
        F.bit_or("late_ok").alias("ok"), F.bit_or("stored").alias("stored"), F.max("closed").alias("closed")
    )
    missed = F.bit_count(F.col("ok").bitwiseAND(F.bitwise_not("stored")))
    return bits.where(~F.col("closed")).groupBy("lane_key").agg(F.sum(missed).alias("n"))


def duplicates(words: DataFrame, lanes: DataFrame) -> DataFrame:
    """lane_key and `n`: identities of open words that are stored at two places, or again after theirs was closed."""
    kept = words.where("stored != 0").withColumn("bits", F.col("stored"))
    known = words.groupBy(*WORD).agg(F.bit_or("sent").alias("known"), F.max("closed").alias("known_closed"))
    wide = kept.join(known, list(WORD)).join(F.broadcast(lanes), "lane_key")
    ends = [F.lit(None).alias(name) for name in ("first", "last", "first_seq", "last_seq", "whole")]
    bit = "(known >> cast(pmod((seq - pmod(word_of, stride_of)) div stride_of, 64) as int)) & 1 = 1"
    rows = wide.select(
        "*", F.lit(0).alias("n"), F.col("word").alias("word_of"), F.col("stride").alias("stride_of"), *ends
    )
    records = encoding.members(rows.withColumn("key", F.col("lane_key")))
    genuine = records.where(F.col("known_closed") | F.expr(bit))
    copies = genuine.groupBy(F.col("key").alias("lane_key"), "producer_id", "seq", "known_closed").agg(
        F.count(F.lit(1)).alias("places")
    )
    return (
        copies.where(F.col("known_closed") | (F.col("places") > 1))
        .groupBy("lane_key")
        .agg(F.count(F.lit(1)).alias("n"))
    )
