"""All families of anomalies, side by side: those of every lane, of transactions, of groups and loops, of recovery; the
meaning of each anomaly and the evidence that its judgement rests on, stated once: in anomalies.toml; and the names
of the causes of lost and duplicated records, of which docs/ledger.md says on what evidence each is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly

AnyAnomaly = Anomaly | TransactionAnomaly | GroupAnomaly | RecoveryAnomaly
ALL_ANOMALIES: tuple[AnyAnomaly, ...] = (*Anomaly, *TransactionAnomaly, *GroupAnomaly, *RecoveryAnomaly)


def anomaly_named(name: str) -> AnyAnomaly:
    """The anomaly of that name; `ValueError` if there is none."""
    found = next((anomaly for anomaly in ALL_ANOMALIES if anomaly == name), None)
    return Anomaly(name) if found is None else found


A = TypeVar("A", bound=AnyAnomaly)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """`meaning`: in a few words.

    `by_log`: only the final log shows it. `by_reads`: without a final log, only reads show it; of transactions, only
    those of a read_committed consumer. `by_commits`: it can't occur without an acknowledged commit of an offset.
    `not_after_cleanup`: misfires where compaction or retention remove records, even first occurrences, without any
    fault. `certain`: a lane is unknown where this is forbidden or required, and its evidence is incomplete.
    `certain_in_transactions`: a transactional lane is unknown where this was not judged.
    """

    meaning: str
    by_log: bool = False
    by_reads: bool = False
    by_commits: bool = False
    not_after_cleanup: bool = False
    certain: bool = False
    certain_in_transactions: bool = False


_GIVEN = toml_of(__package__, "anomalies.toml")
TRAITS: Mapping[AnyAnomaly, Traits] = {anomaly: Traits(**_GIVEN[anomaly]) for anomaly in ALL_ANOMALIES}


def those(anomalies: Iterable[A], trait: str) -> tuple[A, ...]:
    """The anomalies that have a trait."""
    return tuple(anomaly for anomaly in anomalies if getattr(TRAITS[anomaly], trait))


class Cause(StrEnum):
    """Why a record was lost or stored twice. In findings/, details follow the name after a colon."""

    TRUNCATION = "truncation"
    ELECTION = "election"
    UNCLEAN_ELECTION = "unclean_election"
    FAULT = "fault"
    RETRY = "retry"
    PRODUCER_EPOCH = "producer_epoch"
    UNEXPLAINED = "unexplained"
    IMPOSSIBLE = "impossible"


LOST = (Anomaly.LOST_WRITE, Anomaly.TRUNCATED_READ)
CAUSED = (*LOST, Anomaly.DUPLICATE)
"""The anomalies whose every case has a cause."""
