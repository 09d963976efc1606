"""A history screened by its stretches: each table read once, everything else asked of some two percent of its rows.

Guarantee: what is left out of the scope is proven to hold no case; what is in it are the rows themselves, taken out of
the stretches again. Only where a consumer's reads are out of line are rows of consumed/ read a second time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.verification import evidence, history, stretch_screen, stretches
from kafka_chaos.verification.evidence import Frames
from kafka_chaos.verification.history import READ, STORED
from kafka_chaos.verification.judge import LaneFacts
from kafka_chaos.verification.pace import Pace
from kafka_chaos.verification.run_directory import RunDirectory
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.scope import MOST_BROADCAST, Scope, Survey, keep
from kafka_chaos.verification.stretches import LANE_KEY, WORD, Packing

BUCKET_BITS = 6
PLACE = ("lane_key", "partition")
_MARKED = (*POSITION, "producer_id", "seq", "outcome", "source")


@dataclass(frozen=True, slots=True)
class _Doubts:
    """What the stretches do not prove clean: counts, and the tables that they were counted in.

    `words`: suspect words of identities, in `suspects`; `lost` to `loose`: of them (`stretch_screen.SUSPICIONS`).
    `holes`, `overlaps`, `descents`: in `links` of the `log`'s pieces. `back`, `gaps`: in the links of `reads`. `twice`:
    stretches of `repeats`, which hold a read more than once.
    """

    words: int
    lost: int
    copied: int
    denied: int
    unread: int
    truncated: int
    misread: int
    loose: int
    holes: int
    overlaps: int
    descents: int
    back: int
    gaps: int
    twice: int
    suspects: DataFrame
    log: DataFrame
    links: DataFrame
    reads: DataFrame
    repeats: DataFrame

    @property
    def proven(self) -> frozenset[Anomaly]:
        """The anomalies of which there is no case."""
        doubts = {
            Anomaly.LOST_WRITE: self.lost,
            Anomaly.DUPLICATE: self.copied,
            Anomaly.FALSE_FAILURE: self.denied,
            Anomaly.PHANTOM: self.denied,
            Anomaly.UNSEEN: self.unread,
            Anomaly.TRUNCATED_READ: self.truncated,
            Anomaly.OFFSET_MISMATCH: self.loose,
            # Two records are at one place only if the log has two there, or one is not where it was shown.
            Anomaly.INCONSISTENT_OFFSET: self.loose or self.overlaps,
        }
        return frozenset(anomaly for anomaly, count in doubts.items() if not count)

    @property
    def in_order(self) -> bool:
        """Whether every producer's records are in the log in the order of their seqs, and no offset is taken twice."""
        return not (self.descents or self.overlaps)


def by_stretches(
    spark: SparkSession,
    run: RunDirectory,
    frames: Frames,
    log: DataFrame,
    known: Mapping[str, Pace],
) -> Survey:
    """The survey of a run with a final log. `known`: the lanes' paces, as far as they are known."""
    usual = known.get("", Pace())
    paces = {lane.lane: known.get(lane.lane, usual) for lane in run.lanes}
    packing = Packing(paces, stretches.lanes_frame(spark, paces))
    small = evidence.is_small(run)
    packed = history.gathered(keep(packing.tables(frames.produced, frames.consumed, log)), small=small)
    facts, doubts = _doubts(run, frames, packed)
    runs = doubts.log if doubts.holes else None
    unruly = _unruly(doubts)
    if doubts.in_order and unruly is None and not doubts.words:
        return Survey(frames, facts, Scope(runs=runs))
    tangled = doubts.links.where("overlap").select("lane", "partition").distinct() if doubts.overlaps else None
    rows = sum(run.rows.values())
    wide = tangled is not None or unruly is not None
    evidence.tune(spark, rows if wide else min(rows, max(evidence.SMALL, 3 * 64 * doubts.words)))
    drill = _Drill(packed, doubts.suspects, few=doubts.words <= MOST_BROADCAST, small=small)
    ends = evidence.ends(spark, facts, final_log=True)
    return Survey(frames, facts, _scope(drill, frames, doubts, ends, runs, tangled, unruly))


def _doubts(run: RunDirectory, frames: Frames, packed: DataFrame) -> tuple[dict[str, LaneFacts], _Doubts]:
    """The facts and all doubts, asked for in one job; what there is none of is never computed as a table of its own."""
    # In a small run the number of jobs counts, in a large one that nothing is computed twice.
    small = evidence.is_small(run)
    held = (lambda table: table) if small else keep
    suspects = held(stretch_screen.suspect_words(packed))
    log = held(stretches.pieces(packed.where(f"source = {STORED}"), small=small))
    links = held(stretch_screen.log_links(log))
    reads = held(stretch_screen.read_links(stretches.pieces(packed.where(f"source = {READ}"), small=small)))
    repeats = packed.where(f"source = {READ} AND n != bit_count(bits)")
    answers = _asked(
        evidence.packed_facts(packed).selectExpr("'facts' AS name", "to_json(struct(*)) AS content"),
        _times("words", suspects, words="true", **{name: name for name in stretch_screen.SUSPICIONS}),
        _times("links", links, holes="hole", overlaps="overlap", descents="descent"),
        _times("reads", reads, back="back", gaps="NOT back"),
        _times("repeats", repeats, twice="true"),
    )
    facts = evidence.facts_of(run, frames, answers.pop("facts", []))
    counts: dict[str, int] = {}
    for (row,) in answers.values():
        counts.update(row)
    if counts.pop("repeated"):
        evidence.require_unique_identities(run, frames)
    if small and counts["words"]:
        suspects = keep(suspects, small=True)
    return facts, _Doubts(suspects=suspects, log=log, links=links, reads=reads, repeats=repeats, **counts)


def _unruly(doubts: _Doubts) -> DataFrame | None:
    """(lane, partition) whose reads are out of line, or leave out an offset of the log; None: there are none."""
    places = [doubts.reads.where("back"), doubts.repeats] if doubts.back or doubts.twice else []
    if doubts.gaps:
        places.append(stretch_screen.held_holes(doubts.reads.where("NOT back"), doubts.log))
    if not places:
        return None
    unruly = keep(reduce(DataFrame.union, (place.select("lane", "partition") for place in places)).distinct())
    return None if unruly.isEmpty() else unruly


def _times(name: str, table: DataFrame, **conditions: str) -> DataFrame:
    """How often each condition holds in a table: one row for `_asked`."""
    counts = ", ".join(f"'{what}', count_if({text})" for what, text in conditions.items())
    return table.selectExpr(f"'{name}' AS name", f"to_json(named_struct({counts})) AS content")


def _asked(*answers: DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The rows of several small tables in one job, by the tables' names; what is null in a row is left out.

    Each has the columns name and content (JSON).
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for row in reduce(DataFrame.union, answers).collect():
        found.setdefault(row.name, []).append(json.loads(row.content))
    return found


def _scope(
    drill: _Drill,
    frames: Frames,
    doubts: _Doubts,
    ends: DataFrame,
    runs: DataFrame | None,
    tangled: DataFrame | None,
    unruly: DataFrame | None,
) -> Scope:
    """The rows behind the doubts.

    `tangled`, `unruly` (lane, partition): partitions in which an offset is taken twice, and `_unruly` ones; None: there
    are none.
    """
    seen = keep(drill.seen(ends), small=drill.small)
    clean_log = drill.clean_log()
    stored = history.places_in_log(seen)
    shown = drill.shown(seen, clean_log) if doubts.loose else history.places_shown(seen)
    ascending = clean_log
    if tangled is not None:
        places = keep(drill.places(drill.within(clean_log, tangled)))
        ascending = drill.outside(clean_log, tangled)
        shown, stored = shown.union(places), stored.union(places)
    polls = consumed = held = None
    if doubts.misread:
        # A phantom does not count as a step of its consumer, so the reads around it must be looked at themselves.
        misread = seen.where("outcome IS NULL AND read").select("lane", "partition")
        unruly = keep((misread if unruly is None else unruly.union(misread)).distinct())
    if unruly is not None:
        consumed = keep(frames.consumed.join(F.broadcast(unruly), ["lane", "partition"], "left_semi"))
        polls = history.genuine(consumed, history.phantoms(seen))
        held = history.places_in_log(seen).union(drill.places(drill.within(clean_log, unruly)))
    return Scope(
        proven=doubts.proven,
        seen=seen,
        records=keep(history.records(seen), small=drill.small),
        shown=shown,
        stored=None if doubts.in_order else stored,
        ascending=None if doubts.in_order else stretches.pieces(ascending),
        held=held,
        polls=polls,
        consumed=consumed,
        runs=runs,
    )


@dataclass(frozen=True, slots=True)
class _Drill:
    """From suspect words, and partitions that are out of order, back to rows.

    `few`: the suspects can be broadcast. `small`: all is in one partition (`history.gathered`).
    """

    packed: DataFrame
    suspects: DataFrame
    few: bool
    small: bool

    def seen(self, ends: DataFrame) -> DataFrame:
        """SIGHTINGS of the suspect identities."""
        suspect = self.packed.join(self._hint(self.suspects), list(WORD), "left_semi")
        rows = stretches.members(suspect).select(*_MARKED)
        return history.marked_sightings(rows, ends, final_log=True, small=self.small)

    def clean_log(self) -> DataFrame:
        """The stretches of the log that are not suspect."""
        stored = self.packed.where(f"source = {STORED}")
        return stored.join(self._hint(self.suspects), list(WORD), "left_anti")

    def shown(self, seen: DataFrame, clean_log: DataFrame) -> DataFrame:
        """The places of suspect identities, with what else the log holds there."""
        # Only a place outside the log can be a second one for what the log holds there.
        outside = history.places_shown(seen.where("NOT in_log"))
        loose = outside.selectExpr(LANE_KEY, "partition", f"{_bucket('offset')} AS bucket").distinct()
        loose = loose if self.small else keep(loose)
        near = clean_log.selectExpr("*", f"explode(sequence({_bucket('first')}, {_bucket('last')})) AS bucket")
        near = near.join(self._hint(loose), [*PLACE, "bucket"], "left_semi")
        shown = history.places_shown(seen).union(self.places(near.drop("bucket")))
        return history.gathered(shown, small=self.small)

    def within(self, table: DataFrame, partitions: DataFrame) -> DataFrame:
        """The stretches of `table` in the partitions (lane, partition)."""
        return table.join(F.broadcast(partitions.selectExpr(LANE_KEY, "partition")), list(PLACE), "left_semi")

    def outside(self, table: DataFrame, partitions: DataFrame) -> DataFrame:
        """The stretches of `table` in all other partitions."""
        return table.join(F.broadcast(partitions.selectExpr(LANE_KEY, "partition")), list(PLACE), "left_anti")

    def places(self, table: DataFrame) -> DataFrame:
        """The records of stretches as places: POSITION, producer_id, seq."""
        return stretches.members(table).select(*POSITION, "producer_id", "seq")

    def _hint(self, keys: DataFrame) -> DataFrame:
        if self.small:
            # Without an exchange, and without a job for the broadcast.
            return keys.hint("shuffle_hash")
        return F.broadcast(keys) if self.few else keys


def _bucket(offset: str) -> str:
    return f"shiftright({offset}, {BUCKET_BITS})"
