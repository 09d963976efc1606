"""Kafka's error codes that are looked at or shown here (org.apache.kafka.common.protocol.Errors)."""

from __future__ import annotations

NONE = 0
NOT_LEADER_OR_FOLLOWER = 6
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75

_NAMES = {
    NONE: "NONE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    11: "STALE_CONTROLLER_EPOCH",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    56: "KAFKA_STORAGE_ERROR",
    FENCED_LEADER_EPOCH: "FENCED_LEADER_EPOCH",
    UNKNOWN_LEADER_EPOCH: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    87: "INVALID_RECORD",
}


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    return _NAMES.get(code, f"error {code}")
