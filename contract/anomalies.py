"""The anomalies' names and the statuses a prediction can give them.

The model predicts in these terms, and the verification judges in them. docs/anomalies.md and the docstrings of
`kafka_chaos.verification.detection.anomalies` say what each anomaly means, and what counts as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kafka_chaos.contract.command.errors import ExitCode

WIDEST_LISTED_GAP = 10_000
"""In findings/, a hole of up to this many offsets has a row for each; a wider one has a single row with its width."""


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
    """The status that a prediction gives one anomaly in one lane.

    `forbidden`: the search was exhausted, and no reachable state shows it. `permitted`: some reachable states show it.
    `required`: every history that the lock-step schedule leaves possible ends with it. `not judged`: a configuration
    key that the model does not know is assumed to do no harm.
    """

    FORBIDDEN = "forbidden"
    PERMITTED = "permitted"
    REQUIRED = "required"
    NOT_JUDGED = "not judged"


class Verdict(StrEnum):
    """Per lane and per run, the graver ones last."""

    CONFORMS = "conforms"
    UNKNOWN = "unknown"
    VIOLATION = "violation"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command with this verdict."""
        return ExitCode[self.name]

    @classmethod
    def gravest(cls, verdicts: Iterable[str], *, of_none: str = CONFORMS) -> Verdict:
        """One verdict for several: violation > unknown > conforms."""
        return max(map(cls, verdicts), key=list(cls).index, default=cls(of_none))
