"""A history screened by its stretches: each table read once, everything else asked of some two percent of its rows.

Guarantee: what is left out of the scope is proven to hold no case; what is in it are the rows themselves, taken out of
the stretches again. Only where a consumer's reads are out of line are rows of consumed/ read a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification import evidence, history, stretches
from kafka_chaos.verification.evidence import Frames
from kafka_chaos.verification.run_directory import RunDirectory
from kafka_chaos.verification.schemas import OUTCOME_CODES, POSITION
from kafka_chaos.verification.scope import MOST_BROADCAST, Scope, Survey, keep
from kafka_chaos.verification.stretches import WORD, Pace, Packing

BUCKET_BITS = 6
PLACE = ("lane_key", "partition")


@dataclass(frozen=True, slots=True)
class _Packed:
    """The three tables as stretches."""

    sent: DataFrame
    read: DataFrame
    stored: DataFrame


@dataclass(frozen=True, slots=True)
class _Doubts:
    """What the stretches do not prove clean.

    `suspects`: words of identities, `n_suspects` of them. `log`: the log's pieces; `holes`, `descents`: whether offsets
    are missing between them, and whether a producer's seqs go back. `tangled` (lane, partition): partitions in which an
    offset is taken twice; None: there are none. `unruly` (lane, partition): partitions whose reads are out of line, or
    leave out an offset of the log; None: there are none.
    """

    suspects: DataFrame
    n_suspects: int
    log: DataFrame
    holes: bool
    descents: bool
    tangled: DataFrame | None
    unruly: DataFrame | None

    @property
    def none(self) -> bool:
        """Whether everything is proven clean, but for holes in the log."""
        clean = self.tangled is None and self.unruly is None
        return clean and not (self.n_suspects or self.descents)


def by_stretches(
    spark: SparkSession, run: RunDirectory, frames: Frames, log: DataFrame, known: Mapping[str, Pace]
) -> Survey:
    """The survey of a run with a final log. `known`: the lanes' paces, as far as they are known."""
    usual = known.get("", Pace())
    paces = {lane.lane: known.get(lane.lane, usual) for lane in run.lanes}
    packing = Packing(paces, stretches.lanes_frame(spark, paces))
    packed = _Packed(
        sent=keep(packing.sent(frames.produced)),
        read=keep(packing.read(frames.consumed)),
        stored=keep(packing.stored(log)),
    )
    facts = evidence.packed_facts(run, frames, packed.sent, packed.read, packed.stored)
    doubts = _doubts(run, frames, packed)
    runs = doubts.log if doubts.holes else None
    if doubts.none:
        return Survey(frames, facts, Scope(runs=runs))
    wide = doubts.tangled is not None or doubts.unruly is not None
    rows = sum(run.rows.values())
    evidence.tune(spark, rows if wide else min(rows, max(evidence.SMALL, 3 * 64 * doubts.n_suspects)))
    drill = _Drill(packed, doubts.suspects, doubts.n_suspects <= MOST_BROADCAST)
    ends = evidence.ends(spark, facts, final_log=True)
    return Survey(frames, facts, _scope(drill, frames, doubts, ends, runs))


def _doubts(run: RunDirectory, frames: Frames, packed: _Packed) -> _Doubts:
    """All doubts, asked for in one job; what there is none of is never computed as a table of its own."""
    # In a small run the number of jobs counts, in a large one that nothing is computed twice.
    held = (lambda table: table) if evidence.is_small(run) else keep
    suspects = held(stretches.suspect_words(packed.sent, packed.read, packed.stored))
    log = held(stretches.pieces(packed.stored))
    links = held(stretches.log_links(log))
    reads = held(stretches.read_links(stretches.pieces(packed.read)))
    twice = packed.read.where(F.col("n") != F.bit_count("bits"))
    n_suspects, repeated, holes, tangled, descents, back, gaps, again = _counted(
        suspects.agg(_times(F.lit(True)), _times(F.col("repeated"))),
        links.agg(_times(F.col("hole")), _times(F.col("overlap")), _times(F.col("descent"))),
        reads.agg(_times(F.col("back")), _times(~F.col("back"))),
        twice.agg(_times(F.lit(True))),
    )
    if repeated:
        evidence.require_unique_identities(run, frames)
    unruly = reads.where("back").select("lane", "partition").union(twice.select("lane", "partition"))
    if gaps:
        unruly = unruly.union(stretches.held_holes(reads.where(~F.col("back")), log))
    unruly = keep(unruly.distinct()) if back or again or gaps else unruly
    return _Doubts(
        suspects=suspects if not n_suspects or held is keep else keep(suspects),
        n_suspects=n_suspects,
        log=log,
        holes=bool(holes),
        descents=bool(descents),
        tangled=links.where("overlap").select("lane", "partition").distinct() if tangled else None,
        unruly=unruly if back or again or (gaps and not unruly.isEmpty()) else None,
    )


def _times(condition: Column) -> Column:
    return F.count(F.when(condition, F.lit(1)))


def _counted(*rows: DataFrame) -> list[int]:
    """The numbers of several tables of one row, in one job."""
    arrays = [
        row.select(F.lit(place).alias("place"), F.array(*row.columns).alias("numbers"))
        for place, row in enumerate(row.toDF(*(f"n{index}" for index in range(len(row.columns)))) for row in rows)
    ]
    found = reduce(DataFrame.union, arrays).collect()
    return [number for row in sorted(found, key=lambda row: row.place) for number in row.numbers]


def _scope(drill: _Drill, frames: Frames, doubts: _Doubts, ends: DataFrame, runs: DataFrame | None) -> Scope:
    """The rows behind the doubts."""
    seen = keep(drill.seen(ends))
    clean_log = drill.clean_log()
    stored = history.places_in_log(seen)
    is_phantom = F.col("outcome").isNull()
    loose, misread_rows = _counted(
        seen.agg(_times(history.is_shown() & ~F.col("in_log")), _times(is_phantom & F.col("read")))
    )
    shown = drill.shown(seen, clean_log) if loose else history.places_shown(seen)
    ascending = clean_log
    if doubts.tangled is not None:
        tangled = keep(drill.places(drill.within(clean_log, doubts.tangled)))
        ascending = drill.outside(clean_log, doubts.tangled)
        shown, stored = shown.union(tangled), stored.union(tangled)
    polls = consumed = held = None
    if doubts.unruly is not None or misread_rows:
        # A phantom does not count as a step of its consumer, so the reads around it must be looked at themselves.
        misread = seen.where(is_phantom & F.col("read")).select("lane", "partition").distinct()
        unruly = keep(misread if doubts.unruly is None else doubts.unruly.union(misread).distinct())
        consumed = keep(frames.consumed.join(F.broadcast(unruly), ["lane", "partition"], "left_semi"))
        polls = history.genuine(consumed, history.phantoms(seen))
        held = history.places_in_log(seen).union(drill.places(drill.within(clean_log, unruly)))
    in_order = not doubts.descents and doubts.tangled is None
    return Scope(
        seen=seen,
        records=keep(history.records(seen)),
        shown=shown,
        stored=None if in_order else stored,
        ascending=None if in_order else stretches.pieces(ascending),
        held=held,
        polls=polls,
        consumed=consumed,
        runs=runs,
    )


@dataclass(frozen=True, slots=True)
class _Drill:
    """From suspect words, and partitions that are out of order, back to rows. `few`: the suspects can be broadcast."""

    packed: _Packed
    suspects: DataFrame
    few: bool

    def seen(self, ends: DataFrame) -> DataFrame:
        """SIGHTINGS of the suspect identities."""
        sent = stretches.members(self._suspect(self.packed.sent)).withColumn("outcome", _outcome_name())
        read, stored = (stretches.members(self._suspect(table)) for table in (self.packed.read, self.packed.stored))
        return history.sightings(sent, read, stored, ends)

    def clean_log(self) -> DataFrame:
        """The stretches of the log that are not suspect."""
        return self.packed.stored.join(self._hint(self.suspects), list(WORD), "left_anti")

    def shown(self, seen: DataFrame, clean_log: DataFrame) -> DataFrame:
        """The places of suspect identities, with what else the log holds there."""
        shown = history.places_shown(seen)
        # Only a place outside the log can be a second one for what the log holds there.
        outside = history.places_shown(seen.where(~F.col("in_log")))
        loose = outside.select(stretches.lane_key(), "partition", _bucket("offset")).toDF(*PLACE, "bucket")
        loose = keep(loose.distinct())
        buckets = F.explode(F.sequence(_bucket("first"), _bucket("last"))).alias("bucket")
        near = clean_log.select("*", buckets)
        near = near.join(self._hint(loose), [*PLACE, "bucket"], "left_semi")
        return shown.union(self.places(near.drop("bucket")))

    def within(self, table: DataFrame, partitions: DataFrame) -> DataFrame:
        """The stretches of `table` in the partitions (lane, partition)."""
        keys = partitions.select(stretches.lane_key().alias("lane_key"), "partition")
        return table.join(F.broadcast(keys), list(PLACE), "left_semi")

    def outside(self, table: DataFrame, partitions: DataFrame) -> DataFrame:
        """The stretches of `table` in all other partitions."""
        keys = partitions.select(stretches.lane_key().alias("lane_key"), "partition")
        return table.join(F.broadcast(keys), list(PLACE), "left_anti")

    def places(self, table: DataFrame) -> DataFrame:
        """The records of stretches as places: POSITION, producer_id, seq."""
        return stretches.members(table).select(*POSITION, "producer_id", "seq")

    def _suspect(self, table: DataFrame) -> DataFrame:
        return table.join(self._hint(self.suspects), list(WORD), "left_semi")

    def _hint(self, keys: DataFrame) -> DataFrame:
        return F.broadcast(keys) if self.few else keys


def _bucket(offset: str) -> Column:
    return F.shiftright(offset, BUCKET_BITS)


def _outcome_name() -> Column:
    name = F.lit(None).cast("string")
    for text, code in OUTCOME_CODES.items():
        name = F.when(F.col("outcome") == code, text).otherwise(name)
    return name
