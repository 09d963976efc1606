"""The end of each stored record: the log of transactional lanes, with the marker that follows each record.

Guarantee: records that are told apart by nothing are one row: pieces of `agreement`, which no marker of their writer
divides. All others are a row each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.transactions import ABORT, COMMIT
from kafka_chaos.verification.agreement.pieces import WORD_BITS, WORD_OF_SEQ, Agreement, within, words_of
from kafka_chaos.verification.agreement.reads import BLOCK, record_hash
from kafka_chaos.verification.schemas import IDENTITY, POSITION
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.tables.blocks import lane_key
from kafka_chaos.verification.tables.history import gathered
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, keep, keys

BY_COMMIT, BY_ABORT = 1, 2
"""The markers that end a record's transaction in the log: codes, because strings do not aggregate without a sort."""
_FATE = f"CASE kind WHEN '{COMMIT}' THEN {BY_COMMIT} WHEN '{ABORT}' THEN {BY_ABORT} END"
_TIMES = ("first_ns", "sent_ns", "last_ns")
_UNIT = (
    "lane",
    "partition",
    "producer_id",
    "transaction",
    "first",
    "last",
    "content",
    "first_seq",
    "last_seq",
    *_TIMES,
)
"""The sorted part of a unit; the rest follows from it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The log of transactional lanes, with fates.

    `units`: lane, partition, block, producer_id, transaction (null: none), word, first and last offset, n, content,
    first_seq and last_seq; the times of pieces; and `fate`: what the next marker says that a record's transactional id
    has after it in its partition (`BY_COMMIT`, `BY_ABORT`), null if there is none: the transaction is still open there.
    `sums`: what is known of them by blocks (`_sums`). `log`: the rows; None if each unit is one.
    """

    units: DataFrame
    sums: DataFrame
    log: DataFrame | None = None

    @property
    def committed(self) -> DataFrame:
        """The committed part of blocks: BLOCK, n, content, first and last offset."""
        return self.sums.where("n > 0").select(*BLOCK, "n", "content", "first", "last")

    @property
    def descents(self) -> DataFrame:
        """Where a next unit of a producer may begin with a lower seq: lane, partition."""
        return self.sums.where("descends").select("lane", "partition")

    def rows(self, records: DataFrame | None = None) -> DataFrame:
        """The rows of these identities (lane, producer_id, seq), and maybe others: POSITION, producer_id, seq, fate."""
        if self.log is None:
            return self.units.selectExpr(*_ROW)
        log, units = self.log, self.units
        if records is not None:
            words = keep(words_of(records))
            few = keys(words, few=words.count() <= MOST_BROADCAST)
            log, units = within(log, few), units.join(few, ["lane", "producer_id", "word"], "left_semi")
        place = ["lane", "partition", "producer_id", "word"]
        held = log.selectExpr(*POSITION, "producer_id", "seq", WORD_OF_SEQ)
        found = held.join(units.select(*place, "first", "last", "first_seq", "last_seq", "fate"), place)
        found = found.where("offset BETWEEN first AND last AND seq BETWEEN first_seq AND last_seq")
        return found.select(*POSITION, "producer_id", "seq", "fate").distinct()


_ROW = ("lane", "partition", "first AS offset", "producer_id", "first_seq AS seq", "fate")


def stored_rows(log: DataFrame, members: DataFrame, markers: DataFrame, ended: DataFrame, *, small: bool) -> Stored:
    """LOG with a unit for each row. `members`: the records of transactions; `markers`: POSITION, producer_id, kind."""
    units, sums = _with_fates(_units_of(log, members), markers, ended, small=small)
    return Stored(units.drop("cut", "descends"), sums)


def stored_pieces(
    log: DataFrame,
    members: DataFrame,
    markers: DataFrame,
    ended: DataFrame,
    agreement: Agreement,
    lanes: Sequence[str],
    *,
    large: bool,
) -> tuple[Stored, Agreement]:
    """LOG with pieces as units where produced/ and the log agree; the agreement, in doubt of divided pieces, too.

    `large`: see `scope.keep`.
    """
    while True:
        of_lanes = agreement.agreed.where(F.col("lane").isin(list(lanes)))
        units = of_lanes.where("placed").select(*_UNIT)
        if agreement.doubts:
            units = units.union(_units_of(agreement.of_doubtful(log), agreement.of_doubtful(members)))
        found, sums = _with_fates(units, markers, ended, large=large)
        if sums.where("cut").isEmpty():
            return Stored(found.drop("cut", "descends"), sums, log), agreement
        agreement = agreement.doubting(found.where("cut").select("lane", "producer_id", "word"))


def _units_of(log: DataFrame, members: DataFrame) -> DataFrame:
    """A unit for each row of the log."""
    rows = log.select(*POSITION, "producer_id", "seq").join(
        members.select(*IDENTITY, "transaction"), list(IDENTITY), "left"
    )
    given = {"first": "offset", "last": "offset", "first_seq": "seq", "last_seq": "seq", "content": record_hash()}
    given |= dict.fromkeys(_TIMES, "cast(NULL AS bigint)")
    return rows.selectExpr(*(f"{given[name]} AS {name}" if name in given else name for name in _UNIT))


def _with_fates(
    units: DataFrame, markers: DataFrame, ended: DataFrame, *, small: bool = False, large: bool = False
) -> tuple[DataFrame, DataFrame]:
    """The units with `fate`, `cut` and `descends`, and their sums by blocks (`_sums`).

    `cut`: whether a marker divides it; `descends`: whether the next unit of its producer may begin with a lower seq.

    Where replicas have different markers at an offset, the commit counts.
    """
    writers = ended.groupBy("lane", "producer_id").agg(F.expr("min(writer) AS writer"))
    marks = {"lane": "lane", "partition": "partition", "producer_id": "producer_id", "first": "offset"}
    kinds = dict(units.select(*_UNIT).dtypes)
    marked = markers.selectExpr(
        *(f"{marks[name]} AS {name}" if name in marks else f"cast(NULL AS {kinds[name]}) AS {name}" for name in _UNIT),
        f"{_FATE} AS marks",
    )
    rows = units.selectExpr(*_UNIT, "cast(NULL AS int) AS marks").union(marked)
    written = rows.join(F.broadcast(writers), ["lane", "producer_id"], "left")
    # Sorting compares numbers much faster than names.
    written = written.selectExpr(*_UNIT, "marks", "coalesce(writer, producer_id) AS writer", lane_key())
    # From the end, so that each unit has seen all markers after it; one at its own offset does not count.
    order = "PARTITION BY lane_key, partition, writer ORDER BY first DESC, marks DESC NULLS FIRST"
    before = f"OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    followed = written.selectExpr(
        *_UNIT,
        "marks",
        f"last_value(marks) IGNORE NULLS {before} AS fate",
        f"last_value(IF(marks IS NULL, NULL, first)) IGNORE NULLS {before} <= last AS cut",
        f"last_value(first_seq) IGNORE NULLS {before} AS next_seq",
        f"last_value(IF(marks IS NULL, producer_id, NULL)) IGNORE NULLS {before} AS next_producer",
    )
    known = followed.where("marks IS NULL").selectExpr(
        *_UNIT,
        "last - first + 1 AS n",
        f"shiftright(first, {blocks.BLOCK_BITS}) AS block",
        f"shiftright(first_seq, {WORD_BITS}) AS word",
        "fate",
        "coalesce(cut, false) AS cut",
        "coalesce(next_seq <= last_seq OR next_producer != producer_id, false) AS descends",
    )
    kept = keep(gathered(known, small=small), small=small, large=large)
    return kept, keep(gathered(_sums(kept), small=small), small=small)


def _sums(units: DataFrame) -> DataFrame:
    """UNITS by blocks: BLOCK, of what is committed n, content, first and last offset (null if nothing is).

    `open`: the first offset of a unit whose transaction is open; `cut`, `descends`: whether they hold for a unit.
    """
    by_commit = f"fate = {BY_COMMIT}"
    columns = {
        "n": f"sum(IF({by_commit}, n, 0L))",
        "content": f"sum(IF({by_commit}, content, 0L))",
        "first": f"min(IF({by_commit}, first, NULL))",
        "last": f"max(IF({by_commit}, last, NULL))",
        "open": "min(IF(fate IS NULL AND transaction IS NOT NULL, first, NULL))",
        "cut": "max(cut)",
        "descends": "max(descends)",
    }
    return units.groupBy(*BLOCK).agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))
