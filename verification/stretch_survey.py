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
    packed = keep(packing.tables(frames.produced, frames.consumed, log))
    facts, doubts = _doubts(run, frames, packed)
    runs = doubts.log if doubts.holes else None
    if doubts.none:
        return Survey(frames, facts, Scope(runs=runs))
    wide = doubts.tangled is not None or doubts.unruly is not None
    rows = sum(run.rows.values())
    evidence.tune(spark, rows if wide else min(rows, max(evidence.SMALL, 3 * 64 * doubts.n_suspects)))
    drill = _Drill(packed, doubts.suspects, doubts.n_suspects <= MOST_BROADCAST)
    ends = evidence.ends(spark, facts, final_log=True)
    return Survey(frames, facts, _scope(drill, frames, doubts, ends, runs))


def _doubts(run: RunDirectory, frames: Frames, packed: DataFrame) -> tuple[dict[str, LaneFacts], _Doubts]:
    """The facts and all doubts, asked for in one job; what there is none of is never computed as a table of its own."""
    # In a small run the number of jobs counts, in a large one that nothing is computed twice.
    held = (lambda table: table) if evidence.is_small(run) else keep
    suspects = held(stretch_screen.suspect_words(packed))
    log = held(stretches.pieces(packed.where(f"source = {STORED}")))
    links = held(stretch_screen.log_links(log))
    reads = held(stretch_screen.read_links(stretches.pieces(packed.where(f"source = {READ}"))))
    twice = packed.where(f"source = {READ} AND n != bit_count(bits)")
    answers = _asked(
        facts=evidence.packed_facts(packed),
        suspects=_times(suspects, all="true", repeated="repeated"),
        links=_times(links, hole="hole", overlap="overlap", descent="descent"),
        reads=_times(reads, back="back", gap="NOT back"),
        twice=_times(twice, all="true"),
    )
    facts = evidence.facts_of(run, frames, answers["facts"])
    n_suspects, in_log, in_reads = answers["suspects"][0], answers["links"][0], answers["reads"][0]
    if n_suspects["repeated"]:
        evidence.require_unique_identities(run, frames)
    unruly = reads.where("back").select("lane", "partition").union(twice.select("lane", "partition"))
    if in_reads["gap"]:
        unruly = unruly.union(stretch_screen.held_holes(reads.where("NOT back"), log))
    out_of_line = bool(in_reads["back"] or answers["twice"][0]["all"])
    unruly = keep(unruly.distinct()) if out_of_line or in_reads["gap"] else unruly
    return facts, _Doubts(
        suspects=suspects if not n_suspects["all"] or held is keep else keep(suspects),
        n_suspects=n_suspects["all"],
        log=log,
        holes=bool(in_log["hole"]),
        descents=bool(in_log["descent"]),
        tangled=links.where("overlap").select("lane", "partition").distinct() if in_log["overlap"] else None,
        unruly=unruly if out_of_line or (in_reads["gap"] and not unruly.isEmpty()) else None,
    )


def _times(table: DataFrame, **conditions: str) -> DataFrame:
    """How often each condition holds: a table of one row."""
    return table.agg(*(F.expr(f"count_if({text}) AS {name}") for name, text in conditions.items()))


def _asked(**tables: DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The rows of several small tables by the tables' names, in one job; what is null in a row is left out."""
    rows = [table.selectExpr(f"'{name}' AS name", "to_json(struct(*)) AS content") for name, table in tables.items()]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
    for row in reduce(DataFrame.union, rows).collect():
        found[row.name].append(json.loads(row.content))
    return found


def _scope(drill: _Drill, frames: Frames, doubts: _Doubts, ends: DataFrame, runs: DataFrame | None) -> Scope:
    """The rows behind the doubts."""
    seen = keep(drill.seen(ends))
    clean_log = drill.clean_log()
    stored = history.places_in_log(seen)
    is_misread = "outcome IS NULL AND read"
    counts = _asked(seen=_times(seen, loose=f"{history.SHOWN} AND NOT in_log", misread=is_misread))["seen"][0]
    shown = drill.shown(seen, clean_log) if counts["loose"] else history.places_shown(seen)
    ascending = clean_log
    if doubts.tangled is not None:
        tangled = keep(drill.places(drill.within(clean_log, doubts.tangled)))
        ascending = drill.outside(clean_log, doubts.tangled)
        shown, stored = shown.union(tangled), stored.union(tangled)
    polls = consumed = held = None
    if doubts.unruly is not None or counts["misread"]:
        # A phantom does not count as a step of its consumer, so the reads around it must be looked at themselves.
        misread = seen.where(is_misread).select("lane", "partition").distinct()
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

    packed: DataFrame
    suspects: DataFrame
    few: bool

    def seen(self, ends: DataFrame) -> DataFrame:
        """SIGHTINGS of the suspect identities."""
        suspect = self.packed.join(self._hint(self.suspects), list(WORD), "left_semi")
        return history.marked_sightings(stretches.members(suspect).select(*_MARKED), ends, final_log=True)

    def clean_log(self) -> DataFrame:
        """The stretches of the log that are not suspect."""
        stored = self.packed.where(f"source = {STORED}")
        return stored.join(self._hint(self.suspects), list(WORD), "left_anti")

    def shown(self, seen: DataFrame, clean_log: DataFrame) -> DataFrame:
        """The places of suspect identities, with what else the log holds there."""
        # Only a place outside the log can be a second one for what the log holds there.
        outside = history.places_shown(seen.where("NOT in_log"))
        loose = keep(outside.selectExpr(LANE_KEY, "partition", f"{_bucket('offset')} AS bucket").distinct())
        near = clean_log.selectExpr("*", f"explode(sequence({_bucket('first')}, {_bucket('last')})) AS bucket")
        near = near.join(self._hint(loose), [*PLACE, "bucket"], "left_semi")
        return history.places_shown(seen).union(self.places(near.drop("bucket")))

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
        return F.broadcast(keys) if self.few else keys


def _bucket(offset: str) -> str:
    return f"shiftright({offset}, {BUCKET_BITS})"
