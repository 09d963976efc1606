"""Answers of a broker to single requests (`client.py`), kinds of coordinators, and Kafka's error codes."""

from dataclasses import dataclass
from enum import IntEnum


class CoordinatorKind(IntEnum):
    """The kind of a coordinator's key: a consumer group, or a transactional id."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """A broker's metadata of a partition: `error` is the partition's, `leader` None where it knows none."""

    error: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QuorumAnswer:
    """The controllers' quorum (KRaft): node id of the leader, which is the active controller, or −1, and its epoch."""

    leader: int
    leader_epoch: int


NONE = 0
NOT_LEADER_OR_FOLLOWER = 6

_NAMES = {NONE: "NONE", NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_OR_FOLLOWER"}
"""Where kafka-python has none, or a former one."""


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    from kafka.errors import kafka_errors

    known = kafka_errors.get(code)
    return _NAMES.get(code) or (known.message if known is not None else f"error {code}")
