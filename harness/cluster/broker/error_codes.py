"""Kafka's error codes that are looked at here (org.apache.kafka.common.protocol.Errors), and the names of all."""

from __future__ import annotations

NONE = 0
NOT_LEADER_OR_FOLLOWER = 6
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75

_NAMES = {NONE: "NONE", NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_OR_FOLLOWER"}
"""Where kafka-python has none, or a former one."""


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    from kafka.errors import kafka_errors

    known = kafka_errors.get(code)
    return _NAMES.get(code) or (known.message if known is not None else f"error {code}")
