"""A history as stretches: records of one producer whose seqs, offsets and poll times advance in step.

Guarantee: a table's stretches hold exactly what its rows hold of identities, places and outcomes (`members` gives the
rows back), so whatever is concluded from stretches is concluded from the rows; nothing is hashed but names of lanes
and consumers. How well a history packs decides only how fast it is: `paces` tells beforehand.

A lane's records have the number `step = seq div stride` within their `seq mod stride`: a producer that deals its
records to 6 partitions in turn has stride 6, one that fills one batch after the other has 1. Where offsets advance
with steps, `shift = offset − step` stays the same, and 64 neighbouring steps are one row: a word of bits. Clients
write batches and brokers append them whole, so ten million rows are some two hundred thousand stretches, and all that
is asked afterwards is asked of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kafka_chaos.verification.history import INFO, OK, UNDECODABLE, local_frame, outcome_code

WORD = ("lane_key", "producer_id", "word")
STRETCH = (*WORD, "partition", "shift")
CHAIN = ("lane_key", "reader", "partition")

STEP_BITS = 6
WORTH_IT = 0.75
"""Share of neighbouring records that must advance at their lane's pace."""
SAMPLED_FILES, SAMPLED_ROWS = 8, 2048

_LANES = StructType(
    [StructField("lane", StringType()), StructField("stride", LongType()), StructField("tick", LongType())]
)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a lane's records advance from offset to offset: `stride` in seqs (at least 1), `tick` in poll times (ns)."""

    stride: int = 1
    tick: int = 1


def lane_key() -> Column:
    """The lane as a whole number: as a grouping key it is cheaper than its name."""
    return F.xxhash64("lane")


# ------------------------------------------------------------------- pace


def paces(spark: SparkSession, log_files: list[str], read_files: list[str]) -> dict[str, Pace] | None:
    """Each lane's pace, from the first rows of a few files; None where the history does not come in stretches.

    Under the empty name stands the usual pace, for lanes that the sample does not show.
    """
    stored = _sample(spark, log_files, "seq", "producer_id")
    read = _sample(spark, read_files, "poll_ns", "consumer")
    samples = [sample for sample in (stored, read) if sample is not None]
    if not samples:
        return None
    rows = usual_steps(reduce(DataFrame.union, samples), "chain").collect()
    for what in ("seq", "poll_ns"):
        found = [row for row in rows if row.what == what]
        if sum(row.most or 0 for row in found) < WORTH_IT * sum(row.all for row in found):
            return None
    strides = {row.lane: row.usual for row in rows if row.what == "seq"}
    ticks = {row.lane: row.usual for row in rows if row.what == "poll_ns"}
    lanes = {*strides, *ticks}
    known = {lane: Pace(max(1, strides.get(lane) or 1), max(0, ticks.get(lane) or 0)) for lane in lanes}
    paces_of_lanes = list(known.values())
    return {**known, "": max(paces_of_lanes, key=paces_of_lanes.count)}


def usual_steps(rows: DataFrame, chain: str) -> DataFrame:
    """How much `value` usually grows from an offset to the next: (what,) lane, usual, and `most` of `all` do so.

    `rows`: lane, partition, offset, value, the column `chain`, and `what` if there are values of several kinds.
    """
    kinds = ("what", "lane") if "what" in rows.columns else ("lane",)
    along = Window.partitionBy(*kinds, chain, "partition").orderBy("offset")
    follows = F.col("offset") - F.lag("offset").over(along) == 1
    steps = rows.select(*kinds, F.when(follows, F.col("value") - F.lag("value").over(along)).alias("step"))
    counted = steps.groupBy(*kinds, "step").agg(F.count(F.lit(1)).alias("n"))
    regular = F.when(F.col("step").isNotNull(), F.col("n"))
    return counted.groupBy(*kinds).agg(
        F.max_by("step", regular).alias("usual"), F.max(regular).alias("most"), F.sum("n").alias("all")
    )


def _sample(spark: SparkSession, files: list[str], value: str, chain: str) -> DataFrame | None:
    if not files:
        return None
    few = min(len(files), SAMPLED_FILES)
    chosen = [files[index * len(files) // few] for index in range(few)]
    columns = f"lane string, partition int, offset bigint, {value} bigint, "
    schema = columns + ("consumer string" if chain == "consumer" else f"{chain} int")
    parts = [spark.read.schema(schema).parquet(file).limit(SAMPLED_ROWS) for file in chosen]
    return reduce(DataFrame.union, parts).select(
        F.lit(value).alias("what"),
        "lane",
        F.col(chain).cast("string").alias("chain"),
        "partition",
        "offset",
        F.col(value).alias("value"),
    )


def lanes_frame(spark: SparkSession, known: Mapping[str, Pace]) -> DataFrame:
    """lane, stride, tick and lane_key of every lane, small enough to be joined by broadcast."""
    rows = [(name, pace.stride, pace.tick) for name, pace in known.items()]
    return local_frame(spark, _LANES, rows).withColumn("lane_key", lane_key())


@dataclass(frozen=True, slots=True)
class Packing:
    """Turns rows into stretches, at each lane's pace.

    Every table of stretches has beside its own columns those of `lanes` (`lanes_frame`); where lanes.json does not name
    the lane, they are null.
    """

    known: Mapping[str, Pace]
    lanes: DataFrame

    def _of_lane(self, name: str) -> Column | int:
        """A pace by the row's lane, or one number if all lanes have it in common."""
        groups: dict[int, list[str]] = {}
        for lane, pace in self.known.items():
            groups.setdefault(int(getattr(pace, name)), []).append(lane)
        # What most lanes have needs no comparison.
        usual = max(groups, key=lambda value: len(groups[value]))
        if len(groups) == 1:
            return usual
        chosen = F.lit(usual).cast("bigint")
        for value, lanes in groups.items():
            if value != usual:
                chosen = F.when(F.col("lane").isin(lanes), F.lit(value).cast("bigint")).otherwise(chosen)
        return chosen

    def _step(self) -> tuple[Column, Column]:
        """A row's step, and the word that it is in."""
        stride = self._of_lane("stride")
        if stride == 1:
            return F.col("seq"), F.shiftright("seq", STEP_BITS)
        if isinstance(stride, int):
            stride = F.lit(stride).cast("bigint")
        turn = F.pmod(F.col("seq"), stride)
        step = _divided(F.col("seq") - turn, stride)
        return step, F.shiftright(step, STEP_BITS) * stride + turn

    def _stretches(self, table: DataFrame, further: Mapping[str, Column], stamps: tuple[str, ...] = ()) -> DataFrame:
        step, word = self._step()
        last_bits = step.bitwiseAND((1 << STEP_BITS) - 1).cast("int")
        rows = table.select(
            lane_key().alias("lane_key"),
            "producer_id",
            word.alias("word"),
            "partition",
            (F.col("offset") - step).alias("shift"),
            *(column.alias(name) for name, column in further.items()),
            F.call_function("shiftleft", F.lit(1).cast("bigint"), last_bits).alias("bit"),
            *stamps,
        )
        packed = rows.groupBy(*STRETCH, *further).agg(
            F.bit_or("bit").alias("bits"),
            F.count(F.lit(1)).alias("n"),
            *(F.min(stamp).alias(f"first_{stamp}") for stamp in stamps),
        )
        return packed.join(F.broadcast(self.lanes), "lane_key", "left")

    def sent(self, produced: DataFrame) -> DataFrame:
        """PRODUCED to STRETCH, outcome (a code; null for none of them), bits, n, first_complete_ns."""
        return self._stretches(produced, {"outcome": outcome_code()}, ("complete_ns",))

    def stored(self, log: DataFrame) -> DataFrame:
        """LOG to STRETCH, bits, n and the stretch's ends (`_with_ends`)."""
        return _with_ends(self._stretches(log, {}))

    def read(self, consumed: DataFrame) -> DataFrame:
        """CONSUMED to STRETCH, reader, start, bits, n and the stretch's ends (`_with_ends`).

        A read at `offset` was polled at `start + tick · offset`.
        """
        tick = self._of_lane("tick")
        start = F.col("poll_ns") - F.lit(tick) * F.col("offset")
        return _with_ends(self._stretches(consumed, {"reader": F.xxhash64("consumer"), "start": start}))


def _divided(value: Column, by: Column) -> Column:
    return F.call_function("div", value, by)


# ---------------------------------------------------------------- members


def _number(step: Column) -> Column:
    """The seq of a step in the row's word."""
    turn = F.pmod(F.col("word"), F.col("stride"))
    return step * F.col("stride") + turn


def _first_step() -> Column:
    turn = F.pmod(F.col("word"), F.col("stride"))
    return F.shiftleft(_divided(F.col("word") - turn, F.col("stride")), STEP_BITS)


def members(stretches: DataFrame) -> DataFrame:
    """Every record of the stretches as a row: lane, producer_id, seq, partition, offset and the other columns.

    A record that a table holds several times in one stretch is one row.
    """
    bits = F.explode(F.array(*(F.lit(bit).cast("bigint") for bit in range(1 << STEP_BITS)))).alias("bit")
    wide = stretches.select("*", bits)
    held = F.call_function("shiftright", F.col("bits"), F.col("bit").cast("int")).bitwiseAND(1) == 1
    step = _first_step() + F.col("bit")
    named = wide.where(held).withColumn("seq", _number(step)).withColumn("offset", step + F.col("shift"))
    return named.drop("bit", "bits", "word", "shift", "n", "stride", *_ENDS)


_ENDS = ("first", "last", "first_seq", "last_seq", "whole")


def _with_ends(stretches: DataFrame) -> DataFrame:
    """Adds first, last (offsets), first_seq, last_seq, and whether all between is there: `whole`."""
    low = F.col("bits").bitwiseAND(-F.col("bits"))
    first_bit = F.bit_count(low - F.lit(1).cast("bigint")).cast("bigint")
    last_bit = (F.length(F.bin("bits")) - 1).cast("bigint")
    wide = stretches.withColumn("first_step", _first_step() + first_bit)
    wide = wide.withColumn("last_step", _first_step() + last_bit)
    return (
        wide.withColumn("first", F.col("first_step") + F.col("shift"))
        .withColumn("last", F.col("last_step") + F.col("shift"))
        .withColumn("first_seq", _number(F.col("first_step")))
        .withColumn("last_seq", _number(F.col("last_step")))
        .withColumn("whole", F.bit_count("bits") == F.col("last_step") - F.col("first_step") + 1)
        .drop("first_step", "last_step")
    )


# --------------------------------------------------------------- suspects


def suspect_words(sent: DataFrame, read: DataFrame, stored: DataFrame) -> DataFrame:
    """The words of identities that are not clean: WORD, and whether an identity was `repeated` in produced/.

    Clean: each identity was produced once; each `ok` is stored, at its own place if it names one; what is stored was
    produced, not as a `fail`, and is at one place only; it is read where it is stored and nowhere else; no `info`
    names a place.
    """
    nothing = F.lit(0).cast("bigint")
    outcome, bits = F.col("outcome"), F.col("bits")
    is_placed = F.col("partition").isNotNull() & F.col("shift").isNotNull()

    def kept(condition: Column) -> Column:
        return F.when(condition, bits).otherwise(nothing)

    def narrow(table: DataFrame, **columns: Column) -> DataFrame:
        names = ("sent", "n_sent", "ok", "open", "placed", "claimed", "stored", "read")
        return table.select(*STRETCH, *(columns.get(name, nothing).alias(name) for name in names))

    produced = narrow(
        sent,
        sent=bits,
        n_sent=F.col("n"),
        ok=kept(outcome == OK),
        open=kept((outcome == OK) | (outcome == INFO)),
        placed=kept((outcome == OK) & is_placed),
        claimed=kept((outcome == INFO) & is_placed),
    )
    rows = produced.union(narrow(read, read=bits)).union(narrow(stored, stored=bits))
    words = ("sent", "ok", "open", "placed", "claimed", "stored", "read")
    places = rows.groupBy(*STRETCH).agg(F.sum("n_sent").alias("n_sent"), *(F.bit_or(w).alias(w) for w in words))
    astray = (F.col("placed").bitwiseAND(F.bitwise_not("stored")) != 0) | (F.col("read") != F.col("stored"))
    block = places.groupBy(*WORD).agg(
        F.sum("n_sent").alias("n_sent"),
        F.sum(F.bit_count("stored")).alias("places"),
        F.max(astray).alias("astray"),
        *(F.bit_or(w).alias(w) for w in ("sent", "ok", "open", "claimed", "stored")),
    )
    repeated = F.col("n_sent") != F.bit_count("sent")
    stray = F.col("stored").bitwiseAND(F.bitwise_not("open")) != 0
    missing = F.col("ok").bitwiseAND(F.bitwise_not("stored")) != 0
    twice = F.col("places") != F.bit_count("stored")
    undecodable = (F.col("producer_id") == UNDECODABLE) & (F.col("stored") != 0)
    suspect = repeated | F.col("astray") | stray | missing | twice | (F.col("claimed") != 0) | undecodable
    return block.where(suspect).select(*WORD, repeated.alias("repeated"))


# ------------------------------------------------------------------ order


def pieces(stretches: DataFrame) -> DataFrame:
    """Stretches of the log or of reads as pieces without holes: lane, lane_key, partition, producer_id and their ends.

    A stretch with holes is given as its single records. Reads have reader, start and tick besides.
    """
    further = [name for name in ("reader", "start", "tick") if name in stretches.columns]
    columns = ["lane", "lane_key", "partition", "producer_id", *_ENDS[:4], *further]
    offset, seq = F.col("offset"), F.col("seq")
    single = members(stretches.where(~F.col("whole"))).withColumns(
        {"first": offset, "last": offset, "first_seq": seq, "last_seq": seq}
    )
    return stretches.where("whole").select(*columns).union(single.select(*columns))


def log_links(pieces_of_log: DataFrame) -> DataFrame:
    """Where the log is not one ascending line: lane_key, lane, partition, hole, overlap, descent.

    Compared are neighbouring pieces: `hole`: offsets between them are missing; `overlap`: they share offsets;
    `descent`: one producer's seqs do not ascend from the one to the next.
    """
    place = Window.partitionBy("lane_key", "partition").orderBy("first", "last")
    before = place.rowsBetween(Window.unboundedPreceding, -1)
    own = Window.partitionBy("lane_key", "partition", "producer_id").orderBy("first", "last")
    previous = F.max("last").over(before)
    links = pieces_of_log.select(
        "lane_key",
        "lane",
        "partition",
        F.coalesce(F.col("first") > previous + 1, F.lit(False)).alias("hole"),
        F.coalesce(F.col("first") <= previous, F.lit(False)).alias("overlap"),
        F.coalesce(F.col("first_seq") <= F.lag("last_seq").over(own), F.lit(False)).alias("descent"),
    )
    return links.where(F.col("hole") | F.col("overlap") | F.col("descent"))


def read_links(pieces_of_reads: DataFrame) -> DataFrame:
    """Where a consumer's reads are not one ascending line: lane_key, lane, partition, back, first, last.

    `back`: a piece does not follow the one before it in both offset and poll time; otherwise offsets `first` to `last`
    lie between the two.
    """
    chain = Window.partitionBy(*CHAIN).orderBy("first_poll", "first", "last")
    timed = pieces_of_reads.withColumn("first_poll", F.col("start") + F.col("tick") * F.col("first")).withColumn(
        "last_poll", F.col("start") + F.col("tick") * F.col("last")
    )
    previous = F.lag("last").over(chain)
    back = (F.col("first") <= previous) | (F.col("first_poll") < F.lag("last_poll").over(chain))
    links = timed.select(
        "lane_key",
        "lane",
        "partition",
        F.coalesce(back, F.lit(False)).alias("back"),
        (previous + 1).alias("hole_first"),
        (F.col("first") - 1).alias("hole_last"),
    )
    hole = F.coalesce(F.col("hole_first") <= F.col("hole_last"), F.lit(False))
    found = links.where(F.col("back") | hole)
    return found.select(
        "lane_key", "lane", "partition", "back", F.col("hole_first").alias("first"), F.col("hole_last").alias("last")
    )


def held_holes(holes: DataFrame, pieces_of_log: DataFrame) -> DataFrame:
    """The lane and partition of holes in reads (`read_links`) in which the log holds an offset."""
    ours = holes.select("lane", "partition", "first", "last", F.lit(True).alias("is_hole"))
    events = ours.union(pieces_of_log.select("lane", "partition", "first", "last", F.lit(False)))
    order = Window.partitionBy("lane", "partition").orderBy("first", "last")
    piece = ~F.col("is_hole")
    reached = F.max(F.when(piece, F.col("last"))).over(order.rowsBetween(Window.unboundedPreceding, -1))
    next_first = F.min(F.when(piece, F.col("first"))).over(order.rowsBetween(1, Window.unboundedFollowing))
    marked = events.withColumn("reached", reached).withColumn("next_first", next_first)
    held = F.coalesce(F.col("reached") >= F.col("first"), F.lit(False)) | F.coalesce(
        F.col("next_first") <= F.col("last"), F.lit(False)
    )
    return marked.where(F.col("is_hole") & held).select("lane", "partition").distinct()
