"""Compares produced/ with the log by counts and sums of hashes, and packs what agrees into pieces.

Guarantee: of an identity whose word is not in doubt, the log has exactly what was acknowledged: its record, once, at
the place that its `ok` names, and nothing of what is not acknowledged, unless two different contents of a block have
the same number of rows and the same sum of 64-bit hashes. How well a history packs affects only the speed.

A piece is records of one transaction (or of none), one outcome and one word of 64 seqs that stand side by side in one
block of a partition, their seqs in step with their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.verification.agreement.reads import BLOCK, content, read_blocks
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.run_length.encoding import of_lanes
from kafka_chaos.verification.run_length.stride import read_sample, steps_of_lanes, stored_sample, usual_steps
from kafka_chaos.verification.schemas import IDENTITY
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.tables.evidence import Frames, is_large
from kafka_chaos.verification.tables.history import OK, OUTCOME_CODE, UNDECODABLE
from kafka_chaos.verification.tables.refusals import require_unique_identities
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, asked, keep, keys

WORD = ("lane", "producer_id", "word")
WORD_BITS = 6
_UNDECODABLE = f"producer_id = {UNDECODABLE}"
WORD_OF_SEQ = f"shiftright(seq, {WORD_BITS}) AS word"


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of produced/ and the log.

    `pieces`: all of produced/: WORD, transaction, outcome (a code), partition, placed (whether an `ok` names a place),
    block, n, bits (of the word), content, first and last offset, first_seq and last_seq; first_ns and sent_ns, when the
    first and the last of them was sent; last_ns, when one was last heard of; first_complete_ns.
    `sent`: what is counted in them: BLOCK, outcome, outside (of transactions), n, content, first_complete_ns, last_ns,
    odd: whether one is not without holes. `all_placed`: whether every one is placed.
    `log`: BLOCK, n, content, first, last, and `bits` of the offsets of each word. `doubtful`: the words of identities
    on which the two may disagree, `doubts` in number. `reads`: consumed/ by blocks (`reads.read_blocks`).
    """

    pieces: DataFrame
    sent: DataFrame
    log: DataFrame
    doubtful: DataFrame
    doubts: int
    reads: DataFrame
    all_placed: bool = False

    @property
    def keys(self) -> DataFrame:
        """The words in doubt as the selecting side of a join."""
        return keys(self.doubtful, few=self.doubts <= MOST_BROADCAST)

    @property
    def agreed(self) -> DataFrame:
        """The pieces that are not in doubt."""
        return self.pieces.join(self.keys, list(WORD), "left_anti") if self.doubts else self.pieces

    def of_doubtful(self, table: DataFrame) -> DataFrame:
        """The rows of PRODUCED, CONSUMED or LOG whose identities are in doubt."""
        return within(table, self.keys)

    def others(self, table: DataFrame) -> DataFrame:
        """The rows of PRODUCED, CONSUMED or LOG whose identities are not in doubt."""
        return table.selectExpr("*", WORD_OF_SEQ).join(self.keys, list(WORD), "left_anti").drop("word")

    def acknowledged(self, records: DataFrame) -> DataFrame:
        """Where those of these few records (IDENTITY) that are not in doubt were acknowledged, if they were.

        IDENTITY, partition, offset.
        """
        wanted = F.broadcast(records.selectExpr(*IDENTITY, WORD_OF_SEQ))
        held = self.agreed.where("placed").join(wanted, list(WORD))
        held = held.where(f"(shiftright(bits, cast(seq & {(1 << WORD_BITS) - 1} AS int)) & 1) = 1")
        # A piece has no holes, and its seqs are in step with its offsets.
        step = "IF(last = first, 1L, (last_seq - first_seq) div (last - first))"
        return held.selectExpr(*IDENTITY, "partition", f"first + (seq - first_seq) div {step} AS offset")

    def doubting(self, words: DataFrame) -> Agreement:
        """The same with more words in doubt."""
        doubtful = keep(self.doubtful.union(words.select(*WORD)).distinct())
        return replace(self, doubtful=doubtful, doubts=doubtful.count())


def within(table: DataFrame, words: DataFrame) -> DataFrame:
    """The rows of a table whose identities are in these words."""
    return table.selectExpr("*", WORD_OF_SEQ).join(words, list(WORD), "left_semi").drop("word")


def words_of(rows: DataFrame) -> DataFrame:
    """The words of these identities."""
    return rows.selectExpr("lane", "producer_id", WORD_OF_SEQ).distinct()


def agreement_of(run: RunDirectory, frames: Frames, log: DataFrame) -> Agreement:
    """The agreement of produced/ and the log. Raises `RunDirectoryError` for an identity that was produced twice."""
    strides, ticks = (
        {lane.lane: max(least, steps.get(lane.lane, least)) for lane in run.lanes}
        for least, steps in (
            (1, usual_steps(steps_of_lanes(stored_sample(run, log)))),
            (0, usual_steps(steps_of_lanes(read_sample(run, frames.consumed)))),
        )
    )
    pieces = keep(_pieces(frames.produced, strides), large=is_large(run))
    stored = keep(_stored(log))
    sent, reads = keep(_sent(pieces)), keep(read_blocks(frames.consumed, ticks))
    differing = keep(_differing(sent, stored))
    whole = pieces.groupBy(*WORD).agg(F.expr("sum(n) != bit_count(bit_or(bits)) AS repeated"))
    found = asked(
        repeated=whole.where("repeated").agg(F.expr("count(1) AS number")),
        differing=differing.agg(F.expr("count(1) AS number")),
        # `ok` without a place: where the record is to be is not known.
        unplaced=sent.agg(F.expr(f"count_if(block IS NULL AND outcome = {OK}) AS number")),
        # Nobody produced what carries no identity, whatever the two tables say.
        undecodable=pieces.agg(F.expr(f"count_if({_UNDECODABLE}) AS number")),
        others=sent.agg(F.expr("count_if(block IS NULL) AS number")),
    )
    numbers = {name: rows[0]["number"] for name, rows in found.items()}
    if numbers["repeated"]:
        require_unique_identities(run, frames)
    doubtful = pieces.where(f"(outcome = {OK} AND NOT placed) OR {_UNDECODABLE}").select(*WORD)
    if numbers["differing"]:
        few = keys(differing, few=numbers["differing"] <= MOST_BROADCAST)
        placed = pieces.where("placed").join(few, list(BLOCK), "left_semi").select(*WORD)
        held = log.selectExpr("*", blocks.block_of()).join(few, list(BLOCK), "left_semi")
        doubtful = doubtful.union(placed).union(words_of(held))
    all_placed = not numbers["others"]
    if not any(numbers[name] for name in ("differing", "unplaced", "undecodable")):
        return Agreement(pieces, sent, stored, doubtful, 0, reads, all_placed)
    doubtful = keep(doubtful.distinct())
    return Agreement(pieces, sent, stored, doubtful, doubtful.count(), reads, all_placed)


def _pieces(produced: DataFrame, strides: Mapping[str, int]) -> DataFrame:
    """PRODUCED to pieces."""
    placed = "coalesce(outcome = 'ok' AND partition IS NOT NULL AND offset IS NOT NULL, false)"
    rows = produced.selectExpr(
        "lane",
        "producer_id",
        "seq",
        WORD_OF_SEQ,
        "transaction",
        f"{OUTCOME_CODE} AS outcome",
        "partition",
        f"{placed} AS placed",
        f"IF({placed}, offset, NULL) AS offset",
        "invoke_ns",
        "complete_ns",
    ).selectExpr("*", blocks.block_of(), f"offset * {of_lanes(strides)} - seq AS shift")
    columns = {
        "n": "count(1)",
        "bits": f"bit_or(shiftleft(1L, cast(seq & {(1 << WORD_BITS) - 1} AS int)))",
        "content": content(),
        "first": "min(offset)",
        "last": "max(offset)",
        "first_seq": "min(seq)",
        "last_seq": "max(seq)",
        "first_ns": "min(invoke_ns)",
        "sent_ns": "max(invoke_ns)",
        "last_ns": "max(coalesce(complete_ns, invoke_ns))",
        "first_complete_ns": "min(complete_ns)",
    }
    key = (*WORD, "transaction", "outcome", "partition", "block", "shift")
    packed = rows.groupBy(*key).agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))
    return packed.selectExpr("*", "block IS NOT NULL AS placed").drop("shift")


def _sent(pieces: DataFrame) -> DataFrame:
    columns = {
        "n": "sum(n)",
        "content": "sum(content)",
        "first_complete_ns": "min(first_complete_ns)",
        "last_ns": "max(greatest(sent_ns, last_ns))",
        "odd": "max(placed AND n != last - first + 1)",
    }
    rows = pieces.selectExpr("*", "transaction IS NULL AS outside").groupBy(*BLOCK, "outcome", "outside")
    return rows.agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))


def _stored(log: DataFrame) -> DataFrame:
    """LOG to words of offsets."""
    columns = {
        "n": "count(1)",
        "bits": f"bit_or(shiftleft(1L, cast(offset & {(1 << WORD_BITS) - 1} AS int)))",
        "content": content(),
        "first": "min(offset)",
        "last": "max(offset)",
    }
    rows = log.selectExpr("*", f"shiftright(offset, {WORD_BITS}) AS near")
    packed = rows.groupBy("lane", "partition", "near").agg(
        *(F.expr(f"{text} AS {name}") for name, text in columns.items())
    )
    return packed.selectExpr(
        "lane", "partition", f"shiftright(near, {blocks.BLOCK_BITS - WORD_BITS}) AS block", *columns
    )


def _differing(sent: DataFrame, stored: DataFrame) -> DataFrame:
    """The BLOCKs in which acknowledged and stored records differ, or share places, or a piece is not without holes."""
    placed = sent.where("block IS NOT NULL")
    acknowledged = placed.selectExpr(*BLOCK, "n", "0L AS held", "content", "0L AS other", "odd")
    held = stored.selectExpr(*BLOCK, "0L", "n", "0L", "content", "n != bit_count(bits)")
    compared = acknowledged.union(held).groupBy(*BLOCK)
    differs = "sum(n) != sum(held) OR sum(content) != sum(other) OR max(odd)"
    return compared.agg(F.expr(f"{differs} AS differs")).where("differs").select(*BLOCK)


def facts_rows(agreement: Agreement) -> list[dict[str, Any]]:
    """The rows that `counts.facts_of` needs."""
    ok = f"outcome = {OK}"
    found = asked(
        sent=agreement.sent.groupBy("lane").agg(
            F.expr("min(partition) AS lowest_partition"),
            F.expr("max(partition) AS highest_partition"),
            F.expr("sum(n) AS produced"),
            F.expr(f"sum(IF({ok}, n, 0L)) AS acknowledged"),
            F.expr("sum(IF(outcome IS NULL, n, 0L)) AS bad_outcomes"),
            F.expr(f"sum(IF({ok} AND block IS NULL, n, 0L)) AS unplaced"),
            F.expr(f"min(IF({ok}, first_complete_ns, NULL)) AS first_acknowledged_ns"),
        ),
        read=agreement.reads.groupBy("lane", "partition").agg(
            F.expr("sum(n) AS consumed"), F.expr("max(last) AS read_end")
        ),
        stored=agreement.log.groupBy("lane", "partition").agg(
            F.expr("sum(n) AS stored"), F.expr("max(last) AS log_end")
        ),
    )
    places: dict[tuple[str, int | None], dict[str, Any]] = {}
    for rows in found.values():
        for row in rows:
            place = (row["lane"], row.get("partition"))
            places.setdefault(place, {"bad_outcomes": 0}).update(row)
    return list(places.values())
