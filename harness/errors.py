"""Errors of running clusters."""

from __future__ import annotations

from kafka_chaos.contract.errors import KafkaChaosError


class ClusterFailure(KafkaChaosError):
    """A container did not do what was asked of it: the message carries its status and its last log lines."""


class WaitTimeout(ClusterFailure):
    """A named condition did not come true in time; the message says which, and what was seen last."""
