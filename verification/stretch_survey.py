"""A history screened by its stretches: each table read once, everything else asked of some two percent of its rows.

Guarantee: what is left out of the scope is proven to hold no case; what is in it are the rows themselves, taken out of
the stretches again. Only where a consumer's reads are out of line are rows of consumed/ read a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    suspects = keep(stretches.suspect_words(packed.sent, packed.read, packed.stored))
    count, repeated = suspects.agg(F.count(F.lit(1)), F.max("repeated")).collect()[0]
    if repeated:
        evidence.require_unique_identities(run, frames)
    log = keep(stretches.pieces(packed.stored))
    links = keep(stretches.log_links(log))
    holes, tangled, descents = links.agg(F.max("hole"), F.max("overlap"), F.max("descent")).collect()[0]
    unruly = _unruly_reads(packed, log)
    return _Doubts(
        suspects=suspects,
        n_suspects=count,
        log=log,
        holes=bool(holes),
        descents=bool(descents),
        tangled=links.where("overlap").select("lane", "partition").distinct() if tangled else None,
        unruly=None if unruly.isEmpty() else unruly,
    )


def _unruly_reads(packed: _Packed, log: DataFrame) -> DataFrame:
    """lane and partition of reads that are out of line, or that leave out an offset which the log holds."""
    links = keep(stretches.read_links(stretches.pieces(packed.read)))
    twice = packed.read.where(F.col("n") != F.bit_count("bits"))
    unruly = links.where("back").select("lane", "partition").union(twice.select("lane", "partition"))
    holes = links.where(~F.col("back"))
    if not holes.isEmpty():
        unruly = unruly.union(stretches.held_holes(holes, log))
    return keep(unruly.distinct())


def _scope(drill: _Drill, frames: Frames, doubts: _Doubts, ends: DataFrame, runs: DataFrame | None) -> Scope:
    """The rows behind the doubts."""
    seen = keep(drill.seen(ends))
    clean_log = drill.clean_log()
    stored = history.places_in_log(seen)
    shown = drill.shown(seen, clean_log)
    ascending = clean_log
    if doubts.tangled is not None:
        tangled = keep(drill.places(drill.within(clean_log, doubts.tangled)))
        ascending = drill.outside(clean_log, doubts.tangled)
        shown, stored = shown.union(tangled), stored.union(tangled)
    is_phantom = F.col("outcome").isNull()
    misread = keep(seen.where(is_phantom & F.col("read")).select("lane", "partition").distinct())
    polls = consumed = held = None
    if doubts.unruly is not None or not misread.isEmpty():
        # A phantom does not count as a step of its consumer, so the reads around it must be looked at themselves.
        unruly = misread if doubts.unruly is None else keep(doubts.unruly.union(misread).distinct())
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
        if loose.isEmpty():
            return shown
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
