"""Prefilters a history by its runs: each table is read once, and all later steps work on about two percent of its rows.

Guarantee: everything outside the scope is proven to hold no case. The scope has the rows themselves, unpacked from the
runs. Only if a consumer's reads are out of order, rows of consumed/ are read a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.run_length import encoding
from kafka_chaos.verification.run_length import prefilter as run_prefilter
from kafka_chaos.verification.run_length.encoding import WORD, Packing
from kafka_chaos.verification.run_length.stride import Stride
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables import counts, evidence, history
from kafka_chaos.verification.tables.blocks import lane_key
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import LaneFacts
from kafka_chaos.verification.tables.history import READ, STORED
from kafka_chaos.verification.tables.refusals import require_unique_identities
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, Related, Scope, Survey, asked, keep, keys

BUCKET_BITS = 6
PLACE = ("lane_key", "partition")
_TOGETHER = ("lane_key", "word")
_MARKED = (*POSITION, "producer_id", "seq", "outcome", "source")


@dataclass(frozen=True, slots=True)
class _Doubts:
    """The doubts that runs leave: their `counts`, and the tables in which they were counted.

    words: candidate words of identities, in `candidates`; those with one of the `REASONS`. holes, overlaps, descents:
    in `links` of the `log`'s pieces. back, gaps: in the links of `reads`. twice: runs of `repeats`, which hold a read
    more than once.
    """

    counts: Mapping[str, int]
    candidates: DataFrame
    log: DataFrame
    links: DataFrame
    reads: DataFrame
    repeats: DataFrame

    @property
    def in_order(self) -> bool:
        """Whether every producer's records are in the log in the order of their seqs, and no offset is taken twice."""
        return not (self.counts["descents"] or self.counts["overlaps"])


def by_runs(
    spark: SparkSession, run: RunDirectory, frames: Frames, log: DataFrame, known: Mapping[str, Stride]
) -> Survey:
    """The survey of a run with a final log. `known`: the known strides of lanes."""
    usual = known.get("", Stride())
    strides = {lane.lane: known.get(lane.lane, usual) for lane in run.lanes}
    small = evidence.is_small(run)
    packing = Packing(strides, encoding.lanes_frame(spark, strides))
    packed = keep(encoding.together(packing.tables(frames.produced, frames.consumed, log)))
    packed = history.gathered(packed, small=small)
    facts, related, doubts = _doubts(run, frames, packed)
    count = doubts.counts
    runs = doubts.log if count["holes"] else None
    out_of_order = _out_of_order(doubts)
    if doubts.in_order and out_of_order is None and not count["words"]:
        return Survey(frames, facts, Scope(runs=runs), related)
    overlapping = doubts.links.where("overlap").select("lane", "partition").distinct() if count["overlaps"] else None
    rows = run.rows
    wide = overlapping is not None or out_of_order is not None
    evidence.tune(spark, rows if wide else min(rows, max(evidence.SMALL, 3 * 64 * count["words"])))
    expand = _Expand(packed, doubts.candidates, few=count["words"] <= MOST_BROADCAST, small=small)
    ends = counts.ends(spark, facts, final_log=True)
    return Survey(frames, facts, _scope(expand, frames, doubts, ends, runs, overlapping, out_of_order), related)


def _early(packed: DataFrame, early: DataFrame) -> list[Row]:
    """By lane and producer, the first seq that was read of these words, and how many they are."""
    read = packed.where(f"source = {READ}").join(early, list(WORD), "left_semi")
    words = read.groupBy("lane", *WORD).agg(F.min("first_seq").alias("seq"))
    return words.groupBy("lane", "producer_id").agg(F.min("seq"), F.count("seq")).collect()


def _doubts(
    run: RunDirectory, frames: Frames, packed: DataFrame
) -> tuple[dict[str, LaneFacts], Related | None, _Doubts]:
    """The facts, what relations ask of a large run, and all doubts. A table without doubts is never computed by itself,
    and of those with doubts, only the words are used more than once."""
    small = evidence.is_small(run)
    words = run_prefilter.unclean_words(packed)
    words = words if small else keep(words, small=True)
    log = encoding.pieces(packed.where(f"source = {STORED}"), small=small)
    links = run_prefilter.log_links(log)
    reads = run_prefilter.read_links(encoding.pieces(packed.where(f"source = {READ}"), small=small))
    repeats = packed.where(f"source = {READ} AND n != bit_count(bits)")
    of_words = {
        "words": _times(words, words="candidate", early="early", **{name: name for name in run_prefilter.REASONS})
    }
    others = dict(
        facts=counts.packed_facts(packed),
        links=_times(links, holes="hole", overlaps="overlap", descents="descent"),
        reads=_times(reads, back="back", gaps="NOT back"),
        repeats=_times(repeats, twice="true"),
        **({"related": encoding.related(packed)} if frames.is_plain and not run.fits_into_memory else {}),
    )
    if small:
        answers = asked(**of_words, **others)
    else:
        # To plan one job takes as long as to run the other.
        with ThreadPoolExecutor(1, thread_name_prefix="facts") as beside:
            counted = beside.submit(asked, **others)
            answers = {**asked(**of_words), **counted.result()}
    facts = counts.facts_of(run, frames, answers.pop("facts"))
    sent = answers.pop("related", None)
    found: dict[str, int] = {}
    for (row,) in answers.values():
        found.update(row)
    if found.pop("repeated"):
        require_unique_identities(run, frames)
    early = _early(packed, words.where("early")) if found.pop("early") else ()
    related = None if sent is None else Related(sent, early)
    candidates = words.where("candidate")
    if small and found["words"]:
        candidates = keep(candidates, small=True)
    return facts, related, _Doubts(found, candidates, log, links, reads, repeats)


def _out_of_order(doubts: _Doubts) -> DataFrame | None:
    """(lane, partition) whose reads are out of order or skip an offset of the log; None if there are none."""
    places = [doubts.reads.where("back"), doubts.repeats] if doubts.counts["back"] or doubts.counts["twice"] else []
    if doubts.counts["gaps"]:
        places.append(run_prefilter.held_holes(doubts.reads.where("NOT back"), doubts.log))
    if not places:
        return None
    out_of_order = keep(reduce(DataFrame.union, (place.select("lane", "partition") for place in places)).distinct())
    return None if out_of_order.isEmpty() else out_of_order


def _times(table: DataFrame, **conditions: str) -> DataFrame:
    """How often each condition holds in a table, as one row."""
    return table.selectExpr(*(f"count_if({text}) AS {name}" for name, text in conditions.items()))


def _scope(
    expand: _Expand,
    frames: Frames,
    doubts: _Doubts,
    ends: DataFrame,
    runs: DataFrame | None,
    overlapping: DataFrame | None,
    out_of_order: DataFrame | None,
) -> Scope:
    """The rows behind the doubts.

    `overlapping`: partitions (lane, partition) in which two records share an offset; `out_of_order`: those of
    `_out_of_order`. None if there are none.
    """
    seen = keep(expand.seen(ends), small=expand.small)
    clean_log = expand.clean_log()
    stored = history.places_in_log(seen)
    shown = expand.shown(seen, clean_log) if doubts.counts["loose"] else history.places_shown(seen)
    ascending = clean_log
    if overlapping is not None:
        places = keep(expand.places(expand.within(clean_log, overlapping)))
        ascending = expand.outside(clean_log, overlapping)
        shown, stored = shown.union(places), stored.union(places)
    polls = consumed = held = None
    if doubts.counts["misread"]:
        # A phantom does not count as a step of its consumer, so the reads around it must be examined as rows.
        misread = seen.where("outcome IS NULL AND read").select("lane", "partition")
        out_of_order = keep((misread if out_of_order is None else out_of_order.union(misread)).distinct())
    if out_of_order is not None:
        consumed = keep(frames.consumed.join(F.broadcast(out_of_order), ["lane", "partition"], "left_semi"))
        polls = history.genuine(consumed, history.phantoms(seen))
        held = history.places_in_log(seen).union(expand.places(expand.within(clean_log, out_of_order)))
    return Scope(
        absent=frozenset(name for name, count in doubts.counts.items() if not count),
        seen=seen,
        records=keep(history.records(seen, together=() if expand.small else _TOGETHER), small=expand.small),
        shown=shown,
        stored=None if doubts.in_order else stored,
        ascending=None if doubts.in_order else encoding.pieces(ascending),
        held=held,
        polls=polls,
        consumed=consumed,
        runs=runs,
    )


@dataclass(frozen=True, slots=True)
class _Expand:
    """Turns candidate words, and partitions that are out of order, back into rows.

    `few`: the candidates can be broadcast. `small`: everything is in one partition (`history.gathered`).
    """

    packed: DataFrame
    candidates: DataFrame
    few: bool
    small: bool

    def seen(self, ends: DataFrame) -> DataFrame:
        """OCCURRENCES of the candidate identities."""
        candidate = self.packed.join(self._keys(self.candidates), list(WORD), "left_semi")
        if self.small:
            rows = encoding.members(candidate).select(*_MARKED)
            return history.marked_occurrences(rows, ends, final_log=True, small=True)
        # Runs are exchanged instead of their records: an identity's rows are all in runs of one word.
        rows = encoding.members(candidate.repartition(*WORD)).select(*_TOGETHER, *_MARKED)
        return history.marked_occurrences(rows, ends, final_log=True, together=_TOGETHER)

    def clean_log(self) -> DataFrame:
        """The runs of the log without candidates."""
        stored = self.packed.where(f"source = {STORED}")
        return stored.join(self._keys(self.candidates), list(WORD), "left_anti")

    def shown(self, seen: DataFrame, clean_log: DataFrame) -> DataFrame:
        """The places of candidate identities, with other records that the log holds there."""
        # Only a place outside the log can differ from the record that the log holds there.
        outside = history.places_shown(seen.where("NOT in_log"))
        loose = outside.selectExpr(lane_key(), "partition", f"{_bucket('offset')} AS bucket").distinct()
        loose = loose if self.small else keep(loose)
        near = clean_log.selectExpr("*", f"explode(sequence({_bucket('first')}, {_bucket('last')})) AS bucket")
        near = near.join(self._keys(loose), [*PLACE, "bucket"], "left_semi")
        shown = history.places_shown(seen).union(self.places(near.drop("bucket")))
        return history.gathered(shown, small=self.small)

    def within(self, table: DataFrame, partitions: DataFrame) -> DataFrame:
        """The runs of `table` in the partitions (lane, partition)."""
        return table.join(F.broadcast(partitions.selectExpr(lane_key(), "partition")), list(PLACE), "left_semi")

    def outside(self, table: DataFrame, partitions: DataFrame) -> DataFrame:
        """The runs of `table` in all other partitions."""
        return table.join(F.broadcast(partitions.selectExpr(lane_key(), "partition")), list(PLACE), "left_anti")

    def places(self, table: DataFrame) -> DataFrame:
        """The records of runs as places: POSITION, producer_id, seq."""
        return encoding.members(table).select(*POSITION, "producer_id", "seq")

    def _keys(self, frame: DataFrame) -> DataFrame:
        return keys(frame, few=self.few, small=self.small)


def _bucket(offset: str) -> str:
    return f"shiftright({offset}, {BUCKET_BITS})"
