"""Errors of running clusters."""

from kafka_chaos.contract.command.errors import KafkaChaosError


class ClusterFailure(KafkaChaosError):
    """A container failed; the message has its status and its last log lines."""


class WaitTimeout(ClusterFailure):
    """A condition did not come true in time; the message names it, and what was seen last."""
