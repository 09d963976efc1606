"""Reads the transactions of a run: builds the tables of `tables.py`, counts what they show, and finds the cases.

Guarantee: rows stay in Spark. The driver gets counts, and a row per consumer and partition. Stray values are refused,
with the file that holds them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.transactions import READ_UNCOMMITTED
from kafka_chaos.verification.agreement.pieces import Agreement
from kafka_chaos.verification.agreement.survey import Given
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables import evidence
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import CommittedEnds, LaneFacts, OpenEnd, TransactionFacts
from kafka_chaos.verification.tables.history import FAIL, OK, gathered
from kafka_chaos.verification.tables.refusals import refuse_stray_transactions
from kafka_chaos.verification.tables.scope import keep
from kafka_chaos.verification.transactions import anomalies, tables
from kafka_chaos.verification.transactions.stored import BY_COMMIT, Stored, stored_pieces, stored_rows
from kafka_chaos.verification.transactions.tables import ABORTED, COMMITTED, Tables

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ranges:
    """The range that a consumer read of a partition: the lowest and the highest offset."""

    lane: str
    consumer: str
    partition: int
    lowest: int
    highest: int
    isolation: str | None


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactional lanes of a run: their tables, and what was counted in them.

    `agreement`: what of produced/ and the log is not looked at record by record; None in a small run. `doubtful`: the
    blocks in which consumers may not have read just what they were to be given (`Scope.doubtful`); None: all.
    """

    tables: Tables
    facts: Mapping[str, TransactionFacts]
    ends: CommittedEnds
    ranges: tuple[Ranges, ...] = ()
    agreement: Agreement | None = None
    doubtful: DataFrame | None = None

    @property
    def given(self) -> Given:
        """The facts that `by_blocks` needs."""
        stored = self.tables.stored
        readers = frozenset(self.uncommitted_readers)
        if stored is None:
            return Given(self.lanes, uncommitted_readers=readers)
        return Given(self.lanes, stored.committed, stored.descents, readers)

    @property
    def has_fates(self) -> bool:
        """Whether it is known what the log committed."""
        return self.tables.stored is not None

    def committed(self, records: DataFrame | None = None) -> DataFrame | None:
        """POSITION, producer_id, seq of committed records: of all, or at least of these (lane, producer_id, seq).

        None without a final log or replicas.
        """
        if self.tables.stored is None:
            return None
        return self.tables.stored.rows(records).where(f"fate = {BY_COMMIT}").drop("fate")

    @property
    def lanes(self) -> tuple[str, ...]:
        """The transactional lanes."""
        return self.ends.lanes

    @property
    def uncommitted_readers(self) -> list[tuple[str, str]]:
        """The consumers that are to be given everything: lane and name."""
        found = {(one.lane, one.consumer) for one in self.ranges if one.isolation == READ_UNCOMMITTED}
        return sorted(found)


def transactions_of(run: RunDirectory, frames: Frames, agreement: Agreement | None = None) -> Transactions | None:
    """The run's transactions; None if no lane is transactional. Raises `RunDirectoryError` for stray values.

    `agreement`: what need not be looked at record by record.
    """
    lanes = tuple(lane.lane for lane in run.lanes if lane.transactional is not None)
    if not lanes or frames.transactions is None or frames.assignments is None:
        return None
    refuse_stray_transactions(run, frames)
    small = evidence.is_small(run)
    produced, consumed = (_of(lanes, table) for table in (frames.produced, frames.consumed))
    ended = keep(tables.ended(_of(lanes, frames.transactions), small=small), small=small)
    isolation = tables.isolation(_of(lanes, frames.assignments))
    members = tables.members(produced)
    stored = None
    if frames.log is not None and frames.markers is not None:
        log, markers = (_of(lanes, table) for table in (frames.log, frames.markers))
        if agreement is None:
            stored = stored_rows(log, members, markers, ended, small=small)
        else:
            stored, agreement = stored_pieces(
                log, members, markers, ended, agreement, lanes, large=evidence.is_large(run)
            )
    outlines = tables.outlines(members, stored, ended, agreement, small=small)
    outlines = keep(gathered(outlines, small=small), small=small)
    reads = tables.committed_reads(consumed, isolation)
    built = Tables(members, reads, ended, stored, outlines)
    ranges = _ranges(consumed if agreement is None else _of(lanes, agreement.reads), isolation)
    uncommitted = [one for one in ranges if one.isolation == READ_UNCOMMITTED]
    committed_ends, is_open = _ends(stored)
    open_ends = _open_ends(built, small=small) if is_open else {}
    return Transactions(
        tables=built,
        facts=_facts(lanes, _counts(lanes, frames, built, produced, agreement), ranges, open_ends),
        ends=CommittedEnds(lanes, committed_ends, _highest(uncommitted)),
        ranges=ranges,
        agreement=agreement,
    )


def with_transactions(facts: Mapping[str, LaneFacts], transactions: Transactions | None) -> dict[str, LaneFacts]:
    """The facts of all lanes, with those of their transactions."""
    if transactions is None:
        return dict(facts)
    lanes = {**dict.fromkeys(transactions.lanes, LaneFacts()), **facts}
    return {lane: replace(of_lane, transactions=transactions.facts.get(lane)) for lane, of_lane in lanes.items()}


def as_ended(frames: Frames, transactions: Transactions | None) -> Frames:
    """The tables, where PRODUCED has an `info` for each record of a transaction of which an outcome promises nothing.

    Whether a `fail` of an aborted transaction is in the log is nobody's promise: an abort drops what it finds unsent.
    It loses its offset. Without a final log, only readers show records, and they rightly miss those that are not
    committed: an `ok` counts if its transaction is known to be committed.
    """
    if transactions is None:
        return frames
    known = transactions.tables.ended.select(*tables.TRANSACTION, F.col("outcome").alias("ended"))
    failed, missed = f"outcome = 'fail' AND coalesce(ended = {ABORTED}, false)", "false"
    concerned = "outcome = 'fail' AND transaction IS NOT NULL"
    if frames.log is None:
        missed = f"outcome = 'ok' AND coalesce(ended != {COMMITTED}, true)"
        concerned = "outcome IN ('ok', 'fail') AND transaction IS NOT NULL"
    elif not any(facts.failed for facts in transactions.facts.values()):
        return replace(frames, ends=transactions.ends)
    doubtful = frames.produced.where(concerned).join(known, list(tables.TRANSACTION), "left")
    columns = frames.produced.columns
    dropped = {
        "outcome": f"IF(({failed}) OR ({missed}), 'info', outcome) AS outcome",
        "offset": f"IF({failed}, NULL, offset) AS offset",
    }
    changed = doubtful.selectExpr(*(dropped.get(column, column) for column in columns))
    produced = frames.produced.where(f"NOT coalesce({concerned}, false)").select(*columns).union(changed)
    return replace(frames, produced=produced, ends=transactions.ends)


def shown_committed(transactions: Transactions, records: DataFrame) -> DataFrame:
    """POSITION of what is known to be committed: by the final log, or by what producers and readers were told.

    Of at least these `records` (lane, producer_id, seq).
    """
    committed = transactions.committed(records)
    if committed is not None:
        return committed.select(*POSITION).distinct()
    built = transactions.tables
    ended = built.ended.where(f"outcome = {COMMITTED}").select(*tables.TRANSACTION)
    acknowledged = built.members.where("offset IS NOT NULL").join(ended, list(tables.TRANSACTION), "left_semi")
    return acknowledged.select(*POSITION).union(built.reads.select(*POSITION)).distinct()


def _of(lanes: tuple[str, ...], table: DataFrame) -> DataFrame:
    return table.where(F.col("lane").isin(list(lanes)))


def _ranges(consumed: DataFrame, isolation: DataFrame) -> tuple[Ranges, ...]:
    """One row per consumer and partition. `consumed`: CONSUMED, or its blocks."""
    first, last = ("offset", "offset") if "offset" in consumed.columns else ("first", "last")
    read = consumed.groupBy("lane", "consumer", "partition").agg(
        F.min(first).alias("lowest"), F.max(last).alias("highest")
    )
    rows = read.join(F.broadcast(isolation), ["lane", "consumer"], "left").collect()
    return tuple(Ranges(row.lane, row.consumer, row.partition, row.lowest, row.highest, row.isolation) for row in rows)


def _highest(ranges: list[Ranges]) -> dict[Place, int]:
    ends: dict[Place, int] = {}
    for one in ranges:
        place = (one.lane, one.partition)
        ends[place] = max(one.highest, ends.get(place, one.highest))
    return ends


def _ends(stored: Stored | None) -> tuple[dict[Place, int], bool]:
    """The last committed offsets of partitions, and whether one has a record of an open transaction."""
    if stored is None:
        return {}, False
    ends = stored.sums.groupBy("lane", "partition").agg(F.max("last").alias("last"), F.max("open").alias("open"))
    rows = ends.collect()
    return (
        {(row.lane, row.partition): row["last"] for row in rows if row["last"] is not None},
        any(row.open is not None for row in rows),
    )


def _facts(
    lanes: tuple[str, ...],
    counts: Mapping[str, Counter[str]],
    ranges: tuple[Ranges, ...],
    open_ends: Mapping[str, list[OpenEnd]],
) -> dict[str, TransactionFacts]:
    facts = {}
    for lane in lanes:
        found = counts.get(lane, Counter())
        reads = [one for one in ranges if one.lane == lane]
        committed = [one for one in reads if one.isolation not in (None, READ_UNCOMMITTED)]
        facts[lane] = TransactionFacts(
            **{name: found[name] for name in ("transactions", "committed", "aborted", "in_doubt", "assignments")},
            unnamed=found["unnamed"],
            outside=found["outside"],
            failed=found["failed"],
            markers=found["markers"] if found["kinds"] else None,
            unknown_readers=tuple(sorted({one.consumer for one in reads if one.isolation is None})),
            read_to={partition: end for (_, partition), end in _highest(committed).items()},
            open_ends=tuple(sorted(open_ends.get(lane, ()), key=lambda end: end.partition)),
            ends_ns=found["ends_ns"],
        )
    return facts


def _counts(
    lanes: tuple[str, ...], frames: Frames, built: Tables, produced: DataFrame, agreement: Agreement | None
) -> dict[str, Counter[str]]:
    """Everything that is counted by lane, in one job."""
    assert frames.transactions is not None
    assert frames.assignments is not None

    def by_lane(table: DataFrame, **columns: str) -> DataFrame:
        grouped = table.groupBy("lane").agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))
        pairs = ", ".join(f"'{name}', cast({name} AS bigint)" for name in columns)
        return grouped.selectExpr("lane", f"stack({len(columns)}, {pairs}) AS (name, number)")

    parts = [
        by_lane(
            built.ended,
            transactions="count(1)",
            committed=f"count_if(outcome = {COMMITTED})",
            aborted=f"count_if(outcome = {ABORTED})",
            in_doubt=f"count_if(outcome NOT IN ({COMMITTED}, {ABORTED}))",
        ),
        by_lane(_of(lanes, frames.assignments), assignments="count(1)"),
        by_lane(built.outlines, unnamed="count_if(begin_ns IS NULL)"),
        *_of_history(lanes, frames, produced, agreement, by_lane),
        by_lane(_of(lanes, frames.transactions), ends_ns="max(greatest(begin_ns, coalesce(end_ns, 0)))"),
    ]
    if frames.replica_sums is not None:
        parts.append(by_lane(_of(lanes, frames.replica_sums), kinds="sum(kinds)", markers="sum(markers)"))
    counts: dict[str, Counter[str]] = {}
    for row in reduce(DataFrame.union, parts).collect():
        found = counts.setdefault(row.lane, Counter())
        number = row.number or 0
        found[row.name] = max(found[row.name], number) if row.name == "ends_ns" else found[row.name] + number
    return counts


def _of_history(
    lanes: tuple[str, ...],
    frames: Frames,
    produced: DataFrame,
    agreement: Agreement | None,
    by_lane: Callable[..., DataFrame],
) -> list[DataFrame]:
    """The counts by lane in produced/ and consumed/, or from their blocks."""
    if agreement is None:
        sent = by_lane(
            produced,
            outside="count_if(transaction IS NULL AND outcome = 'ok')",
            failed="count_if(transaction IS NOT NULL AND outcome = 'fail')",
            ends_ns="max(greatest(invoke_ns, coalesce(complete_ns, 0)))",
        )
        return [sent, by_lane(_of(lanes, frames.consumed), ends_ns="max(poll_ns)")]
    sent = by_lane(
        _of(lanes, agreement.sent),
        outside=f"sum(IF(outside AND outcome = {OK}, n, 0L))",
        failed=f"sum(IF(NOT outside AND outcome = {FAIL}, n, 0L))",
        ends_ns="max(last_ns)",
    )
    return [sent, by_lane(_of(lanes, agreement.reads), ends_ns="max(last_ns)")]


def _open_ends(built: Tables, *, small: bool) -> dict[str, list[OpenEnd]]:
    found: dict[str, list[OpenEnd]] = {}
    if built.stored is not None:
        for row in anomalies.open_ends(built.stored.units, built.outlines, small=small).collect():
            end = OpenEnd(row.partition, row.offset, row.producer_id, row.seq, row.transaction, row.last_ns)
            found.setdefault(row.lane, []).append(end)
    return found
