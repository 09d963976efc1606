"""The anomalies that every lane may have, the evidence they are judged by, and the statuses a prediction can give them.

The model predicts in these terms, and the verification judges in them. The anomalies of transactions, groups, share
groups and recovery are in `lane/`. docs/anomalies.md, which is made from the statements in `verification/statements/`,
says what each anomaly means, and what counts as a case of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Flag, StrEnum, auto
from typing import Self, TypeVar

from kafka_chaos.contract.command.errors import ExitCode

WIDEST_LISTED_GAP = 10_000
"""In findings/, a hole of up to this many offsets has a row per offset; a wider hole has one row, with its width."""


class Trait(Flag):
    """A condition for judging an anomaly, or what follows if it is not judged.

    `BY_LOG`: only the final log shows the anomaly. `BY_READS`: the final log shows it, or without a log, reads do (for
    an anomaly of transactions, the reads of a read_committed consumer). `BY_COMMITS`: a commit of the group has to be
    acknowledged. `NOT_AFTER_CLEANUP`: it is not judged where compaction and retention remove records, and of one
    alone only as far as keys of records, or where the log begins, tell what it did. `DECISIVE`: if the anomaly is
    forbidden and its evidence is incomplete, the lane's verdict is `unknown`. `DECISIVE_IN_TRANSACTIONS`: if it was not
    judged, the verdict on a transactional lane is `unknown`. Whatever the traits, the verdict is also `unknown` if a
    required anomaly, or an anomaly of transactions, groups or share groups, was not judged.
    """

    BY_LOG = auto()
    BY_READS = auto()
    BY_COMMITS = auto()
    NOT_AFTER_CLEANUP = auto()
    DECISIVE = auto()
    DECISIVE_IN_TRANSACTIONS = auto()


NO_TRAIT = Trait(0)


class AnomalyName(StrEnum):
    """The name of an anomaly, with its `meaning` in a few words and its `traits`."""

    _value_: str
    meaning: str
    traits: Trait

    def __new__(cls, name: str, meaning: str = "", traits: Trait = NO_TRAIT) -> Self:
        """Enum calls this with the values of a member's definition."""
        self = str.__new__(cls, name)
        self._value_, self.meaning, self.traits = name, meaning, traits
        return self


A = TypeVar("A", bound=AnomalyName)


def with_trait(anomalies: Iterable[A], trait: Trait) -> tuple[A, ...]:
    """The anomalies that have a trait, in the same order."""
    return tuple(anomaly for anomaly in anomalies if trait in anomaly.traits)


class Anomaly(AnomalyName):
    """A named deviation between what was produced, consumed and stored."""

    LOST_WRITE = (
        "lost_write",
        "acknowledged, but not in the final log",
        Trait.BY_READS | Trait.NOT_AFTER_CLEANUP | Trait.DECISIVE | Trait.DECISIVE_IN_TRANSACTIONS,
    )
    DUPLICATE = "duplicate", "one record at two or more offsets", Trait.BY_READS | Trait.DECISIVE
    FALSE_FAILURE = "false_failure", "reported as failed, yet in the log or read", Trait.BY_READS | Trait.DECISIVE
    PHANTOM = "phantom", "in the log or read, but never produced", Trait.BY_READS | Trait.DECISIVE
    INCONSISTENT_OFFSET = "inconsistent_offset", "two different records seen at one offset"
    OFFSET_MISMATCH = (
        "offset_mismatch",
        "acknowledged at one offset, in the log only at others",
        Trait.BY_LOG | Trait.NOT_AFTER_CLEANUP,
    )
    TRUNCATED_READ = (
        "truncated_read",
        "read by a consumer, but not in the final log",
        Trait.BY_LOG | Trait.NOT_AFTER_CLEANUP,
    )
    REORDERED = (
        "reordered",
        "a producer's records out of order within a partition",
        Trait.BY_READS | Trait.NOT_AFTER_CLEANUP | Trait.DECISIVE,
    )
    UNSEEN = (
        "unseen",
        "in the log, yet delivered to no consumer that read to the end",
        Trait.BY_READS | Trait.DECISIVE | Trait.DECISIVE_IN_TRANSACTIONS,
    )
    NONMONOTONIC_POLL = "nonmonotonic_poll", "a consumer's offsets went backwards"
    SKIPPED_POLL = (
        "skipped_poll",
        "a consumer stepped over an offset that the log holds",
        Trait.DECISIVE_IN_TRANSACTIONS,
    )
    OFFSET_GAP = "offset_gap", "a hole in the final log", Trait.BY_LOG | Trait.NOT_AFTER_CLEANUP
    REPLICA_DIVERGENCE = "replica_divergence", "two replicas differ below the high watermark"
    HIGH_WATERMARK_REGRESSION = "high_watermark_regression", "a high watermark went down within one leader epoch"


class Status(StrEnum):
    """The status that a prediction gives one anomaly in one lane.

    `forbidden`: the model searched every reachable state, and none shows the anomaly. `permitted`: some reachable
    states show it. `required`: the lane's phase has steps instead of times, and every history that the steps leave
    possible ends with it. `not judged`: the lane's `assume` names a configuration key that the model does not know.
    """

    FORBIDDEN = "forbidden"
    PERMITTED = "permitted"
    REQUIRED = "required"
    NOT_JUDGED = "not judged"


class Verdict(StrEnum):
    """The verdict on a lane or a run. The members are in order of gravity, the gravest last."""

    CONFORMS = "conforms"
    UNKNOWN = "unknown"
    VIOLATION = "violation"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command with this verdict."""
        return ExitCode[self.name]

    @classmethod
    def gravest(cls, verdicts: Iterable[str], *, default: str = CONFORMS) -> Verdict:
        """The gravest of several verdicts, or `default` if there are none: violation > unknown > conforms."""
        return max(map(cls, verdicts), key=list(cls).index, default=cls(default))
