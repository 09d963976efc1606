"""The supported versions of Kafka as data: their metadata modes, and what else differs between them."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_chaos.contract.errors import UsageFailure, quoted
from kafka_chaos.contract.metadata import KRAFT, ZOOKEEPER


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """A release on Maven Central that has been fetched and started, in each of its `modes`.

    All run on Java 17. `log4j`: the version of Log4j 2 that it was built with, None for Log4j 1. `elr`: whether a new
    cluster elects from the eligible leader replicas (KIP-966) by default; None where it can't.
    """

    number: str
    modes: tuple[str, ...] = (ZOOKEEPER,)
    log4j: str | None = None
    elr: bool | None = None


_VERSIONS = (
    KafkaVersion("4.3.1", (KRAFT,), "2.25.4", elr=True),
    KafkaVersion("3.9.2"),
    KafkaVersion("3.9.1", (ZOOKEEPER, KRAFT)),
    KafkaVersion("3.8.1"),
    KafkaVersion("3.6.2"),
    KafkaVersion("3.6.0"),
    KafkaVersion("2.8.2"),
    KafkaVersion("2.4.1"),
)
VERSIONS = {version.number: version for version in _VERSIONS}


def known_version(number: str) -> KafkaVersion:
    """What is known of a version; raises `UsageFailure` with the versions that can be run here."""
    if number not in VERSIONS:
        raise UsageFailure(f"version {quoted(number)} of Kafka is not known: expected one of {', '.join(VERSIONS)}")
    return VERSIONS[number]


def versions_of(mode: str) -> tuple[str, ...]:
    """The versions that can be run in a metadata mode, the newest first."""
    return tuple(version.number for version in _VERSIONS if mode in version.modes)


def check_version(number: str, mode: str) -> KafkaVersion:
    """The version, if it can be run in this metadata mode; raises `UsageFailure` with the reason and those that can."""
    version = known_version(number)
    if mode in version.modes:
        return version
    if mode == ZOOKEEPER:
        refused = f"has no ZooKeeper: set metadata_mode to {KRAFT}, or choose"
    else:
        refused = "can't be run in KRaft mode here: expected"
    raise UsageFailure(f"version {quoted(number)} of Kafka {refused} one of {', '.join(versions_of(mode))}")
