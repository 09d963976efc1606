"""Reads the groups of a run: builds the tables of `tables.py`, and counts what they show.

Guarantee: rows stay in Spark. The driver gets a row per group and partition. Stray values are refused, with the file
that holds them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.agreement.pieces import Agreement
from kafka_chaos.verification.groups import tables
from kafka_chaos.verification.groups.tables import GROUP, Tables, Visible
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables import evidence
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import GroupFacts, GroupPartitionFacts, LaneFacts
from kafka_chaos.verification.tables.history import gathered, local_frame
from kafka_chaos.verification.tables.refusals import refuse_stray_groups
from kafka_chaos.verification.tables.scope import keep
from kafka_chaos.verification.transactions.survey import Transactions

_GROUPS = schema("judged string, lane string, group string")
_LOOPS = schema("judged string, lane string")
_ENDS = schema("judged string, lane string, group string, partition int32, first int64, past int64, final int64")


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a run: their tables, and what was counted in them.

    `ends`: GROUP, the first offset of the group, the one that it has committed, and the last one of groups.json.
    `loops`: judged, and the lane that its loop reads. `lanes`: those that groups read; `sources`: those that loops
    read. `visible`: the final log as members are given it; None without one. `facts`: by the lane that is judged.
    `rows`: of assignments/ and commits/, as read.
    """

    tables: Tables
    ends: DataFrame
    loops: DataFrame
    lanes: Sequence[str]
    sources: Sequence[str]
    visible: Visible | None
    facts: Mapping[str, LaneFacts] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)


def groups_of(
    spark: SparkSession,
    run: RunDirectory,
    frames: Frames,
    transactions: Transactions | None,
    agreement: Agreement | None,
) -> Groups | None:
    """The run's groups; None if no lane has one. Raises `RunDirectoryError` for stray values.

    `agreement`: what is known of consumed/ by blocks.
    """
    known = [(lane.lane, reads, group) for lane in run.lanes for group, reads in groups_of_lane(lane).items()]
    if not known or frames.assignments is None or frames.commits is None:
        return None
    counted = refuse_stray_groups(run, frames)
    small = evidence.is_small(run)
    named = local_frame(spark, _GROUPS, known)
    assigned = keep(tables.assigned(frames.assignments, named), small=small)
    ended = frames.transactions if counted.in_transactions else None
    commits = keep(tables.effective(frames.commits, named, ended), small=small)
    reads = tables.reads(frames.consumed, assigned)
    by_blocks = None if agreement is None else tables.reads_of_blocks(agreement.reads, assigned)
    spans = keep(gathered(tables.spans(reads if by_blocks is None else by_blocks), small=small), small=small)
    visible = None
    if frames.log is not None:
        transactional = tuple(lane.lane for lane in run.lanes if lane.transactional is not None)
        visible = Visible(frames.log, transactional, transactions)
    loops = [(lane.lane, lane.loop.source) for lane in run.lanes if lane.loop is not None]
    outputs = None
    if loops and visible is not None:
        produced = frames.produced.where(F.col("lane").isin([lane for lane, _ in loops]))
        outputs = keep(tables.outputs(produced, visible.of([lane for lane, _ in loops])), small=small)
    built = Tables(assigned, commits, reads, by_blocks, spans, outputs)
    facts = _facts(run, known, _by_partition(built), _without_input(frames, [lane for lane, _ in loops]))
    ends = [
        (judged, lane, group, partition, at.first, at.past, at.final)
        for judged, lane, group in known
        for one in facts[judged].groups
        if one.group == group
        for partition, at in one.partitions.items()
    ]
    return Groups(
        tables=built,
        ends=local_frame(spark, _ENDS, ends),
        loops=local_frame(spark, _LOOPS, loops),
        lanes=[lane for _, lane, _ in known],
        sources=[source for _, source in loops],
        visible=visible,
        facts=facts,
        rows=counted.rows,
    )


def with_groups(facts: Mapping[str, LaneFacts], groups: Groups | None) -> dict[str, LaneFacts]:
    """The facts of all lanes, with those of their groups."""
    if groups is None:
        return dict(facts)
    return {
        lane: replace(facts.get(lane, LaneFacts()), groups=of.groups, without_input=of.without_input)
        if (of := groups.facts.get(lane)) is not None
        else facts[lane]
        for lane in {**facts, **groups.facts}
    }


def _by_partition(built: Tables) -> DataFrame:
    """The counts by group and partition, each number under its name, in one job."""

    def by_group(table: DataFrame, **columns: str) -> DataFrame:
        grouped = table.groupBy(*GROUP).agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))
        pairs = ", ".join(f"'{name}', cast({name} AS bigint)" for name in columns)
        return grouped.selectExpr(*GROUP, f"stack({len(columns)}, {pairs}) AS (name, number)")

    members = built.assigned.select("judged", "lane", "group", "member").distinct()
    parts = [
        by_group(
            built.assigned,
            assignments="count(1)",
            without_generation="count_if(generation IS NULL)",
            doubled="count(1) - count(DISTINCT consumer, start_ns)",
        ),
        by_group(members.selectExpr("*", "-1 AS partition"), members="count(1)"),
        by_group(built.spans, processed="sum(records)", processed_from="min(lowest)", processed_to="max(highest)"),
        by_group(
            built.commits,
            ok="count_if(outcome = 'ok')",
            refused="count_if(outcome = 'fail')",
            in_doubt="count_if(outcome = 'info')",
            committed_from="min(IF(outcome = 'fail', NULL, offset))",
            acknowledged="max(IF(outcome = 'ok', offset, NULL))",
            doubled="count(1) - count(DISTINCT consumer, offset, invoke_ns)",
        ),
    ]
    return reduce(DataFrame.union, parts)


def _without_input(frames: Frames, loops: list[str]) -> dict[str, int]:
    """The records of loops that do not name what they were made of, by lane."""
    if not loops:
        return {}
    unnamed = "count_if(source_seq IS NULL OR source_producer_id IS NULL) AS number"
    rows = frames.produced.where(F.col("lane").isin(loops)).groupBy("lane").agg(F.expr(unnamed)).collect()
    return {row.lane: row.number for row in rows}


def _facts(
    run: RunDirectory, known: list[tuple[str, str, str]], counts: DataFrame, without_input: Mapping[str, int]
) -> dict[str, LaneFacts]:
    numbers: dict[tuple[str, str], dict[int, dict[str, int]]] = {(judged, group): {} for judged, _, group in known}
    for row in counts.collect():
        at = numbers[row.judged, row.group].setdefault(row.partition, {})
        if row.number is not None:
            at[row.name] = at.get(row.name, 0) + row.number
    found: dict[str, LaneFacts] = {}
    for judged, reads, group in known:
        before = found.get(judged, LaneFacts(without_input=without_input.get(judged, 0)))
        one = _group(group, reads, numbers[judged, group], run.groups.get(group, {}))
        found[judged] = replace(before, groups=(*before.groups, one))
    return found


def _group(group: str, reads: str, numbers: Mapping[int, Mapping[str, int]], final: Mapping[int, int]) -> GroupFacts:
    def total(name: str) -> int:
        return sum(of.get(name, 0) for of in numbers.values())

    places = ("processed_from", "processed_to", "committed_from", "acknowledged")
    partitions: dict[int, GroupPartitionFacts] = {}
    for partition in sorted({*numbers, *final} - {-1}):
        of: Mapping[str, Any] = numbers.get(partition, {})
        at = {name: of.get(name) for name in places}
        partitions[partition] = GroupPartitionFacts(**at, final=final.get(partition))
    names = ("assignments", "members", "without_generation", "doubled", "processed", "refused", "in_doubt")
    counts = {name: total(name) for name in names}
    return GroupFacts(group, reads, **counts, acknowledged=total("ok"), partitions=partitions)
