"""One narrow pass over each table, which proves most blocks of a history clean and names the others.

Guarantee: the exact functions of `anomalies.py` find the same cases on the rows of these blocks as on the whole tables.
A block is clean only on proof: bits of 64 neighbouring identities, sorted lists of 1024 neighbouring offsets, and sums
of 64-bit hashes of their content that agree. Only a collision of such hashes can hide a case (for n blocks, its
probability is in the order of n² · 2⁻⁶⁴).

Identities and offsets are dense whole numbers. So 64 identities fit into one word, `lost = acknowledged & ~stored` is
one operation on it, and the exchange between the tables shrinks accordingly.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from kafka_chaos.verification.tables.history import FAIL, OK, OUTCOME_CODE

BLOCK = ("lane_key", "partition", "block")

IDENTITY_BITS = 6
OFFSET_BITS = 10


def lane_key() -> Column:
    """The lane as a whole number, a grouping key that is several times cheaper than the lane's name."""
    return F.xxhash64("lane")


def identity_key() -> Column:
    """The block of a row's identity: 64 neighbouring seqs of one producer in one lane."""
    return F.xxhash64("lane", "producer_id", F.shiftright("seq", IDENTITY_BITS))


def offset_block() -> Column:
    """The block of a row's offset in its partition."""
    return F.shiftright("offset", OFFSET_BITS)


def place_key() -> Column:
    """A row's position as one number."""
    return F.xxhash64("lane", "partition", "offset")


def block_key() -> Column:
    """BLOCK as one number, computed from its columns: a join by it costs a third."""
    return F.xxhash64(*BLOCK)


# ---------------------------------------------------------------- identities


def _word() -> Column:
    return F.expr(f"shiftleft(1L, cast(seq & {(1 << IDENTITY_BITS) - 1} as int))")


def _content() -> Column:
    # The lane and the producer are those of the block.
    return F.xxhash64("seq", "partition", "offset")


def _zero() -> Column:
    return F.lit(0).cast("bigint")


def _produced_words(produced: DataFrame) -> DataFrame:
    code = F.expr(OUTCOME_CODE)
    rows = produced.select(
        identity_key().alias("key"),
        _word().alias("word"),
        code.alias("code"),
        ((code == OK) & F.col("offset").isNotNull() & F.col("partition").isNotNull()).alias("placed"),
        ((code != OK) & F.col("offset").isNotNull()).alias("claimed"),
        _content().alias("content"),
    )
    return rows.groupBy("key").agg(
        F.bit_or("word").alias("known"),
        F.bit_or(F.when(F.col("code") == OK, F.col("word")).otherwise(_zero())).alias("ok"),
        F.bit_or(F.when(F.col("code") == FAIL, F.col("word")).otherwise(_zero())).alias("failed"),
        F.count(F.lit(1)).alias("n_produced"),
        F.sum(F.when(F.col("placed"), F.lit(1)).otherwise(F.lit(0))).cast("bigint").alias("n_placed"),
        F.sum(F.when(F.col("claimed"), F.lit(1)).otherwise(F.lit(0))).cast("bigint").alias("n_claimed"),
        F.sum(F.when(F.col("placed"), F.col("content")).otherwise(_zero())).alias("sum_placed"),
    )


def _shown_words(table: DataFrame, name: str) -> DataFrame:
    rows = table.select(identity_key().alias("key"), _word().alias("word"), _content().alias("content"))
    return rows.groupBy("key").agg(
        F.bit_or("word").alias(name),
        F.count(F.lit(1)).alias(f"n_{name}"),
        F.sum("content").alias(f"sum_{name}"),
    )


_WORDS = ("known", "ok", "failed", "read", "stored")
_SUMS = ("n_produced", "n_placed", "n_claimed", "sum_placed", "n_read", "sum_read", "n_stored", "sum_stored")


def candidate_identities(produced: DataFrame, consumed: DataFrame, log: DataFrame) -> DataFrame:
    """The identity blocks that are not proven clean: `key`, and whether an identity was `repeated` in produced/.

    Clean: each identity was produced once; what is stored was produced, stored once, read, and read only where it
    is stored, by every reading of the block; every `ok` is stored, at its offset if it has one; no `fail` is; no
    `info` names an offset.
    """
    parts = [_produced_words(produced), _shown_words(consumed, "read"), _shown_words(log, "stored")]
    wide = [
        part.select("key", *((F.col(n) if n in part.columns else _zero()).alias(n) for n in (*_WORDS, *_SUMS)))
        for part in parts
    ]
    blocks = wide[0].union(wide[1]).union(wide[2]).groupBy("key")
    words = [F.bit_or(name).alias(name) for name in _WORDS]
    block = blocks.agg(*words, *(F.sum(name).alias(name) for name in _SUMS))
    readings = F.col("n_read") / F.col("n_stored")
    all_read = F.col("sum_read") == F.col("sum_stored") * readings.cast("bigint")
    even = F.col("n_read") % F.greatest(F.col("n_stored"), F.lit(1)) == 0
    nothing_stored = (F.col("n_stored") == 0) & (F.col("n_read") == 0)
    unplaced = F.col("n_placed") == 0
    repeated = F.col("n_produced") != F.bit_count("known")
    clean = (
        ~repeated
        & (F.col("n_stored") == F.bit_count("stored"))
        & (unplaced | ((F.col("n_stored") == F.col("n_placed")) & (F.col("sum_stored") == F.col("sum_placed"))))
        & (F.col("ok") == F.col("stored"))
        & (F.col("n_claimed") == 0)
        & (F.col("read") == F.col("stored"))
        & (nothing_stored | (even & all_read))
    )
    # ok == stored leaves no room for a stored phantom or fail: both would be stored without being ok.
    return block.where(~F.coalesce(clean, F.lit(False))).select("key", repeated.alias("repeated"))


# ------------------------------------------------------------------- offsets


def _packed(high: Column, low: Column, low_bits: int, fits: Column) -> Column:
    """Two numbers in one that sorts by the higher; −1 where they do not fit."""
    return F.when(fits, F.shiftleft(high, low_bits).bitwiseOR(low)).otherwise(F.lit(-1).cast("bigint"))


def _wide_bits() -> int:
    """How many bits remain besides the sign and the low bits of an offset."""
    return 63 - OFFSET_BITS


def _low_offset() -> Column:
    return F.col("offset").bitwiseAND((1 << OFFSET_BITS) - 1)


def _fits(value: Column) -> Column:
    return (value >= 0) & (value < 1 << _wide_bits())


def _lists(rows: DataFrame, chain: tuple[str, ...], packed: Column) -> DataFrame:
    """Per chain and offset block the sorted list of packed numbers, and whether all of them fitted."""
    narrow = rows.select(*chain, offset_block().alias("block"), packed.alias("packed"))
    lists = narrow.groupBy(*chain, "block").agg(F.sort_array(F.collect_list("packed")).alias("packed"))
    return lists.withColumn("fitted", F.element_at("packed", 1) >= 0)


LOG_CHAIN = ("lane_key", "partition", "producer_id")
READ_CHAIN = ("lane_key", "partition", "reader")


def log_order(log: DataFrame) -> DataFrame:
    """Per producer, partition and offset block of the log: whether its seqs ascend in the order of offsets.

    Columns: LOG_CHAIN, block, clean, first, last (seqs).
    """
    packed = _packed(_low_offset(), F.col("seq"), _wide_bits(), _fits(F.col("seq")))
    lists = _lists(log.withColumn("lane_key", lane_key()), LOG_CHAIN, packed)
    seqs = lists.withColumn("seqs", F.transform("packed", lambda value: value.bitwiseAND((1 << _wide_bits()) - 1)))
    return seqs.select(
        *LOG_CHAIN,
        "block",
        (F.col("fitted") & (F.col("seqs") == F.sort_array("seqs"))).alias("clean"),
        F.element_at("seqs", 1).alias("first"),
        F.element_at("seqs", -1).alias("last"),
    )


def read_order(consumed: DataFrame, first_poll_ns: int) -> DataFrame:
    """Per consumer, partition and offset block: whether it read each offset from its first to its last, in order.

    `first_poll_ns`: a time before every poll, so that times fit. Columns: READ_CHAIN, block, rows, clean, first,
    last (offsets), first_poll, last_poll.
    """
    since = F.col("poll_ns") - F.lit(first_poll_ns)
    packed = _packed(since, _low_offset(), OFFSET_BITS, _fits(since))
    keyed = consumed.withColumn("lane_key", lane_key()).withColumn("reader", F.xxhash64("consumer"))
    lists = _lists(keyed, READ_CHAIN, packed)
    offsets = lists.withColumn("offsets", F.transform("packed", lambda value: value.bitwiseAND((1 << OFFSET_BITS) - 1)))
    first, last = F.array_min("offsets"), F.array_max("offsets")
    base = F.shiftleft("block", OFFSET_BITS)
    return offsets.select(
        *READ_CHAIN,
        "block",
        F.size("packed").cast("bigint").alias("rows"),
        (F.col("fitted") & (F.col("offsets") == F.sequence(first, last))).alias("clean"),
        (base + first).alias("first"),
        (base + last).alias("last"),
        F.shiftright(F.element_at("packed", 1), OFFSET_BITS).alias("first_poll"),
        F.shiftright(F.element_at("packed", -1), OFFSET_BITS).alias("last_poll"),
    )


def log_runs(log: DataFrame) -> DataFrame:
    """Per partition and offset block of the log: whether it holds each offset from its first to its last, once.

    Columns: lane_key, partition, block, rows, clean, first, last (offsets).
    """
    word_of = F.shiftright("offset", IDENTITY_BITS)
    bit = F.expr(f"shiftleft(1L, cast(offset & {(1 << IDENTITY_BITS) - 1} as int))")
    words = (
        log.select(lane_key().alias("lane_key"), "partition", word_of.alias("word"), "offset", bit.alias("bit"))
        .groupBy("lane_key", "partition", "word")
        .agg(
            F.bit_or("bit").alias("bits"),
            F.count(F.lit(1)).alias("rows"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
        )
    )
    block = F.shiftright("word", OFFSET_BITS - IDENTITY_BITS)
    blocks = words.groupBy("lane_key", "partition", block.alias("block")).agg(
        F.sum("rows").alias("rows"),
        F.sum(F.bit_count("bits")).alias("distinct"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )
    whole = F.col("distinct") == F.col("last") - F.col("first") + 1
    clean = whole & (F.col("rows") == F.col("distinct"))
    return blocks.select("lane_key", "partition", "block", "rows", clean.alias("clean"), "first", "last")


def candidate_log_blocks(order: DataFrame, runs: DataFrame) -> DataFrame:
    """The BLOCKs of `log_order` and `log_runs` that must be examined row by row.

    They include the neighbours of a candidate block in its chain. So every pair of neighbouring rows that could be a
    case is examined.
    """
    chain = Window.partitionBy(*LOG_CHAIN).orderBy("block")
    follows = F.col("first") > F.lag("last").over(chain)
    ordered = _with_neighbours(order, chain, ~F.col("clean"), ~F.coalesce(follows, F.lit(True)))
    return ordered.select(*BLOCK).union(runs.where(~F.col("clean")).select(*BLOCK)).distinct()


def candidate_read_blocks(reads: DataFrame) -> DataFrame:
    """The BLOCKs of `read_order` that must be examined row by row, with offsets that were skipped between blocks.

    If a consumer's polls do not follow the offsets from block to block, all its blocks are candidates: only then could
    the neighbour of a read, in poll order, lie in a distant block.
    """
    chain = Window.partitionBy(*READ_CHAIN).orderBy("block")
    whole = Window.partitionBy(*READ_CHAIN)
    previous = F.lag("block").over(chain)
    back = ~F.coalesce(F.col("first_poll") > F.lag("last_poll").over(chain), F.lit(True))
    gap = ~F.coalesce(F.col("first") == F.lag("last").over(chain) + 1, F.lit(True))
    marked = reads.withColumn("back", F.max(back).over(whole)).withColumn("previous", previous)
    candidate = _with_neighbours(marked, chain, ~F.col("clean") | F.col("back"), gap)
    # Two candidate neighbours: the blocks between them, of which the consumer read nothing, belong to the gap.
    between = F.when(F.col("gap"), F.col("previous") + 1).otherwise(F.col("block"))
    return candidate.select(
        "lane_key", "partition", F.explode(F.sequence(between, F.col("block"))).alias("block")
    ).distinct()


def _with_neighbours(blocks: DataFrame, chain: WindowSpec, dirty: Column, gap: Column) -> DataFrame:
    """The blocks that are dirty, or do not join the one before, or neighbour such a block."""
    marked = blocks.withColumn("gap", gap).withColumn("dirty", dirty)
    bad = F.col("dirty") | F.col("gap") | F.coalesce(F.lead("gap").over(chain), F.lit(False))
    marked = marked.withColumn("bad", bad)
    near = F.coalesce(F.lag("bad").over(chain), F.lit(False)) | F.coalesce(F.lead("bad").over(chain), F.lit(False))
    return marked.withColumn("chosen", F.col("bad") | near).where("chosen")
