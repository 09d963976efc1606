"""What the anomalies are judged on: the whole tables, or what a prefilter could not prove clean.

Guarantee: all ways lead to the same cases. A history without a final log is looked at row by row. In any other a
prefilter comes first, and only its candidates are looked at row by row: by runs (`run_length/`) where producers
write in batches, by blocks (`blocks/`) where records lie about too much for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql import DataFrame

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import LaneFacts

MOST_BROADCAST = 300_000
"""What is picked out by more keys than this is joined by an exchange."""


class Method(StrEnum):
    """How a history is gone through; the cases are the same."""

    ROWS = "rows"
    BLOCKS = "blocks"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables that the anomalies' functions take; see there. None: proven to hold no case of those anomalies.

    `proven`: anomalies of which there is no case, whatever tables are there.
    `records`: for all that is counted in identities. `seen`: for phantoms. `stored` and `ascending`: for the order of
    the log. `polls`, `consumed` and `held`: for consumers' reads. `runs`: for holes; None without a final log, too.
    """

    proven: frozenset[Anomaly] = frozenset()
    seen: DataFrame | None = None
    records: DataFrame | None = None
    shown: DataFrame | None = None
    stored: DataFrame | None = None
    ascending: DataFrame | None = None
    held: DataFrame | None = None
    polls: DataFrame | None = None
    consumed: DataFrame | None = None
    runs: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """A run's tables, the facts about it by lane, and the scope of what is to be judged."""

    frames: Frames
    facts: Mapping[str, LaneFacts]
    scope: Scope


def keep(frame: DataFrame, *, small: bool = False) -> DataFrame:
    """`frame`, computed now. Unlike persist(), what builds on it is planned without the plan that led to it.

    In a `small` run it is computed by the first job that needs it: a job of its own would take longer than the rows do.
    """
    return frame.localCheckpoint(eager=not small)
