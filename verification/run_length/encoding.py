"""A history as runs: records of one producer whose seqs, offsets and poll times advance in step.

Guarantee: a table's runs hold exactly the identities, places and outcomes of its rows (`members` turns them back into
rows). So a conclusion from runs is a conclusion from the rows. Only names of lanes and consumers are hashed. How well a
history packs affects only the speed; `stride.strides` estimates it in advance.

Within their `seq mod stride`, a lane's records have the number `step = seq div stride`. A producer that sends its
records to 6 partitions in turn has stride 6; one that fills one batch after the other has 1. While offsets advance with
steps, `shift = offset − step` stays the same, and 64 neighbouring steps are one row: a word of bits. Clients
write batches and brokers append them whole, so ten million rows become some two hundred thousand runs. All later
steps work on those.

Columns are SQL text here: building them one by one from Python took longer than the jobs of a small run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.run_length.stride import Stride
from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables.blocks import hashed, lane_key
from kafka_chaos.verification.tables.history import FAIL, OK, OUTCOME_CODE, READ, SENT, STORED, gathered, local_frame

WORD = ("lane_key", "producer_id", "word")
RUN = (*WORD, "partition", "shift")
CHAIN = ("lane_key", "reader", "partition")

STEP_BITS = 6

_KEYS = {"outcome": "int", "reader": "bigint", "start": "bigint"}
_STAMP = {"first_complete_ns": ("min", "complete_ns")}
_COUNTS = _STAMP | {
    "first_ns": ("min", "invoke_ns"),
    "last_ns": ("max", "invoke_ns"),
    "timed": ("count", "complete_ns"),
    "backwards": ("count_if", "complete_ns < invoke_ns"),
    "in_transactions": ("count", "transaction"),
    "sources": ("count", "coalesce(source_producer_id, source_seq)"),
}
"""What is known of the records of a run that were sent: by name a function and its argument."""
_ENDS = ("first", "last", "first_seq", "last_seq", "whole")
_OF_LANE = ("lane", "stride", "tick")
_FIRST_STEP = f"shiftleft((word - pmod(word, stride)) div stride, {STEP_BITS})"

_LANES = schema("lane string, stride int64, tick int64")


def lanes_frame(spark: SparkSession, known: Mapping[str, Stride]) -> DataFrame:
    """lane, stride, tick and lane_key of every lane, small enough to be joined by broadcast."""
    rows = [(name, stride.stride, stride.tick) for name, stride in known.items()]
    return local_frame(spark, _LANES, rows).selectExpr("*", lane_key())


@dataclass(frozen=True, slots=True)
class Packing:
    """Turns rows into runs, at each lane's stride.

    Every table of runs has the same columns: source, RUN; outcome (of what was sent: a code, null for none of
    them); reader and start (of reads: what was read at `offset` was polled at `start + tick · offset`); bits, n;
    `_COUNTS` (of what was sent); the lane's own (`lanes_frame`), null where lanes.json does not name it; the run's
    first and last offset, first_seq and last_seq, and whether it holds everything between them: `whole`.
    """

    known: Mapping[str, Stride]
    lanes: DataFrame

    def tables(self, produced: DataFrame, consumed: DataFrame, log: DataFrame) -> DataFrame:
        """PRODUCED, CONSUMED and LOG to runs, each marked with its source."""
        return self._finished([self._sent(produced, _COUNTS), self._read(consumed), self._stored(log)])

    def sent(self, produced: DataFrame) -> DataFrame:
        """PRODUCED to runs, of which only first_complete_ns is known."""
        return self._finished([self._sent(produced, _STAMP)])

    def stored(self, log: DataFrame) -> DataFrame:
        """LOG to runs."""
        return self._finished([self._stored(log)])

    def _sent(self, produced: DataFrame, counts: Mapping[str, tuple[str, str]]) -> DataFrame:
        return self._packed(produced, SENT, {"outcome": OUTCOME_CODE}, counts)

    def _read(self, consumed: DataFrame) -> DataFrame:
        start = f"poll_ns - {self._of_lane('tick')} * offset"
        return self._packed(consumed, READ, {"reader": hashed("consumer"), "start": start}, {})

    def _stored(self, log: DataFrame) -> DataFrame:
        return self._packed(log, STORED, {}, {})

    def _packed(
        self, table: DataFrame, source: int, keys: Mapping[str, str], counts: Mapping[str, tuple[str, str]]
    ) -> DataFrame:
        step, word = self._step()
        rows = table.selectExpr(
            lane_key(),
            "producer_id",
            f"{word} AS word",
            "partition",
            f"offset - {step} AS shift",
            *(f"{text} AS {name}" for name, text in keys.items()),
            f"shiftleft(1L, cast({step} & {(1 << STEP_BITS) - 1} AS int)) AS bit",
            *(f"{text} AS {name}" for name, (_, text) in counts.items()),
        )
        packed = rows.groupBy(*RUN, *keys).agg(
            F.expr("bit_or(bit) AS bits"),
            F.expr("count(1) AS n"),
            *(F.expr(f"{function}({name}) AS {name}") for name, (function, _) in counts.items()),
        )
        counted = (name if name in counts else f"cast(NULL AS bigint) AS {name}" for name in _COUNTS)
        filled = (name if name in keys else f"cast(NULL AS {kind}) AS {name}" for name, kind in _KEYS.items())
        return packed.selectExpr(f"{source} AS source", *RUN, *filled, "bits", "n", *counted)

    def _finished(self, packed: list[DataFrame]) -> DataFrame:
        rows = reduce(DataFrame.union, packed).join(F.broadcast(self.lanes), "lane_key", "left")
        columns = ("source", *RUN, *_KEYS, "bits", "n", *_COUNTS, *_OF_LANE)
        steps = rows.selectExpr(
            *columns,
            f"{_FIRST_STEP} + bit_count((bits & -bits) - 1) AS first_step",
            f"{_FIRST_STEP} + length(bin(bits)) - 1 AS last_step",
        )
        return steps.selectExpr(
            *columns,
            "first_step + shift AS first",
            "last_step + shift AS last",
            f"{_number('first_step')} AS first_seq",
            f"{_number('last_step')} AS last_seq",
            "bit_count(bits) = last_step - first_step + 1 AS whole",
        )

    def _step(self) -> tuple[str, str]:
        """A row's step, and the word that it is in."""
        stride = self._of_lane("stride")
        if stride == "1L":
            return "seq", f"shiftright(seq, {STEP_BITS})"
        turn = f"pmod(seq, {stride})"
        step = f"((seq - {turn}) div {stride})"
        return step, f"(shiftright({step}, {STEP_BITS}) * {stride} + {turn})"

    def _of_lane(self, name: str) -> str:
        return of_lanes({lane: int(getattr(stride, name)) for lane, stride in self.known.items()})


def of_lanes(numbers: Mapping[str, int]) -> str:
    """A number by the row's lane as SQL text, or just a number if all lanes share it."""
    groups: dict[int, list[str]] = {}
    for lane, number in numbers.items():
        groups.setdefault(number, []).append(lane)
    # The most frequent value needs no comparison.
    usual = max(groups, key=lambda value: len(groups[value]))
    others = [
        f"WHEN lane IN ({', '.join(map(_quoted, lanes))}) THEN {value}L"
        for value, lanes in groups.items()
        if value != usual
    ]
    return f"(CASE {' '.join(others)} ELSE {usual}L END)" if others else f"{usual}L"


def _quoted(text: str) -> str:
    # As bytes: Spark then finds neither escapes nor variables in the name.
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _number(step: str) -> str:
    """The seq of a step in the row's word."""
    return f"({step} * stride + pmod(word, stride))"


def members(runs: DataFrame) -> DataFrame:
    """Every record of the runs as a row: lane, producer_id, seq, word, partition, offset and the other columns.

    A record that occurs several times in one run is one row.
    """
    wide = runs.selectExpr("*", f"explode(sequence(0L, {(1 << STEP_BITS) - 1}L)) AS bit")
    step = f"({_FIRST_STEP} + bit)"
    named = wide.where("(shiftright(bits, cast(bit AS int)) & 1) = 1").selectExpr(
        "*", f"{_number(step)} AS seq", f"{step} + shift AS offset"
    )
    return named.drop("bit", "bits", "shift", "n", "stride", *_ENDS)


def together(tables: DataFrame) -> DataFrame:
    """The runs of several tables in as many partitions as those of one would be: each step has a task for each."""
    return tables.coalesce(int(str(tables.sparkSession.conf.get("spark.sql.shuffle.partitions"))))


def related(runs: DataFrame) -> DataFrame:
    """What relations ask of produced/, by lane and producer: n, `_COUNTS` (`timed` of acknowledgements), how many
    acknowledgements have no time (`untimed`), and how many that were certainly not written have an offset (`refuted`).
    """
    columns = {
        **{name: f"sum({name})" for name in ("n", "backwards", "in_transactions", "sources")},
        "first_ns": "min(first_ns)",
        "last_ns": "max(last_ns)",
        "timed": f"sum(IF(outcome = {OK}, timed, 0L))",
        "untimed": f"sum(IF(outcome = {OK}, n - timed, 0L))",
        "refuted": f"sum(IF(outcome = {FAIL} AND first IS NOT NULL, n, 0L))",
    }
    sent = runs.where(f"source = {SENT}").groupBy("lane", "producer_id")
    return sent.agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))


def pieces(runs: DataFrame, *, small: bool = False) -> DataFrame:
    """Runs of the log or of reads as pieces without holes: lane, lane_key, partition, producer_id, their ends,
    reader, start and tick.

    A run with holes is split into single records. `small`: see `history.gathered`.
    """
    place, chain = ("lane", "lane_key", "partition", "producer_id"), ("reader", "start", "tick")
    single = members(runs.where("NOT whole"))
    single = single.selectExpr(*place, "offset", "offset", "seq", "seq", *chain)
    return gathered(runs.where("whole").select(*place, *_ENDS[:4], *chain).union(single), small=small)
