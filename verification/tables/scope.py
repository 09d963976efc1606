"""The tables that anomalies are judged on: whole tables, or the part that a prefilter could not prove clean.

Guarantee: all ways lead to the same cases. Where the history has a final log, a prefilter comes first, and only its
candidates are examined row by row: `run_length/` if it forms runs, else `agreement/`. A history without a final log is
examined row by row as a whole.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import LaneFacts

MOST_BROADCAST = 300_000
"""Rows are selected by a broadcast of up to this many keys, else by an exchange."""


class Method(StrEnum):
    """How a history is examined; the cases are the same."""

    ROWS = "rows"
    RUNS = "runs"
    BLOCKS = "blocks"


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables for the functions in `anomalies.py`. None: these anomalies are proven to have no case.

    `absent`: problems that no record has (`anomalies.Finder`).
    `records`: for all anomalies that are counted in identities. `seen`: for phantoms. `stored` and `ascending`: for the
    order of the log. `polls`, `consumed` and `held`: for consumers' reads; `doubtful`: the only blocks in which one may
    have stepped over something (`anomalies.stepped_over`), None: all. `runs`: for holes; also None without a final log.
    `sums`: what blocks of the log hold for consumers (`held_blocks`), None: not known.
    """

    absent: frozenset[str] = frozenset()
    seen: DataFrame | None = None
    records: DataFrame | None = None
    shown: DataFrame | None = None
    stored: DataFrame | None = None
    ascending: DataFrame | None = None
    held: DataFrame | None = None
    polls: DataFrame | None = None
    consumed: DataFrame | None = None
    doubtful: DataFrame | None = None
    runs: DataFrame | None = None
    sums: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """The answers of produced/ and consumed/ to the relations (`closure/`).

    `sent`: the rows of `encoding.related`, without nulls. `early`: by lane and producer, the first seq of words that
    were read before they were sent, and how many they are.
    """

    sent: Collection[Mapping[str, Any]]
    early: Collection[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Survey:
    """A run's tables, its facts by lane, and the scope for the anomalies. `related`: if it was found on the way."""

    frames: Frames
    facts: Mapping[str, LaneFacts]
    scope: Scope
    related: Related | None = None


def keep(frame: DataFrame, *, small: bool = False, large: bool = False) -> DataFrame:
    """`frame`, computed now. Unlike with persist(), later plans do not contain the plan of `frame`.

    In a `small` run, the first job that needs it computes it: a separate job would take longer than the rows do. A
    `large` table is kept on disk, where Spark lets choose: in memory, it would leave too little for everything else.

    The columns get new identities. A checkpoint leaves them those of the table that it came from, and Spark refuses to
    join the two where no step between them, such as a union, made new ones: with one anomaly to examine, none does.
    """
    if large and int(frame.sparkSession.version.partition(".")[0]) >= 4:
        kept = frame.localCheckpoint(eager=not small, storageLevel=StorageLevel.DISK_ONLY)
    else:
        kept = frame.localCheckpoint(eager=not small)
    return kept.toDF(*kept.columns)


def keys(frame: DataFrame, *, few: bool, small: bool = False) -> DataFrame:
    """`frame` as the selecting side of a join: broadcast if its rows are `few` (`MOST_BROADCAST`).

    In a `small` run, all is in one partition: the join needs neither an exchange nor a job for the broadcast.
    """
    if small:
        return frame.hint("shuffle_hash")
    return F.broadcast(frame) if few else frame


def asked(**tables: DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The rows of several small tables in one job, by the tables' names, without nulls."""
    answers = (table.selectExpr(f"'{name}' AS name", "to_json(struct(*)) AS row") for name, table in tables.items())
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
    for name, row in reduce(DataFrame.union, answers).collect():
        found[name].append(json.loads(row))
    return found
