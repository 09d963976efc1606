"""The anomalies' names and the statuses a prediction can give them.

One place for the vocabulary that the model predicts in and the verification judges in. What each anomaly
means, and in what it is counted, is said in docs/anomalies.md and in the docstrings of
`kafka_chaos.verification.detection.anomalies`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kafka_chaos.contract.errors import ExitCode


class Anomaly(StrEnum):
    """A named deviation between what was produced, consumed and stored."""

    LOST_WRITE = "lost_write"
    DUPLICATE = "duplicate"
    FALSE_FAILURE = "false_failure"
    PHANTOM = "phantom"
    INCONSISTENT_OFFSET = "inconsistent_offset"
    OFFSET_MISMATCH = "offset_mismatch"
    TRUNCATED_READ = "truncated_read"
    REORDERED = "reordered"
    UNSEEN = "unseen"
    NONMONOTONIC_POLL = "nonmonotonic_poll"
    SKIPPED_POLL = "skipped_poll"
    OFFSET_GAP = "offset_gap"
    REPLICA_DIVERGENCE = "replica_divergence"
    HIGH_WATERMARK_REGRESSION = "high_watermark_regression"


class Status(StrEnum):
    """What a prediction says of one anomaly in one lane.

    `forbidden`: no reachable state of the exhausted scope shows it; `permitted`: some do; `required`: every
    history that the lock-stepped schedule leaves open ends with it.
    """

    FORBIDDEN = "forbidden"
    PERMITTED = "permitted"
    REQUIRED = "required"


class Verdict(StrEnum):
    """Per lane and per run, the graver ones last."""

    CONFORMS = "conforms"
    UNKNOWN = "unknown"
    VIOLATION = "violation"

    @property
    def exit_code(self) -> ExitCode:
        """What a command with this verdict ends with."""
        return ExitCode[self.name]

    @classmethod
    def gravest(cls, verdicts: Iterable[str], *, of_none: str = CONFORMS) -> Verdict:
        """One verdict for several: violation > unknown > conforms."""
        return max(map(cls, verdicts), key=list(cls).index, default=cls(of_none))
