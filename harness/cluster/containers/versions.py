"""The supported versions of Kafka: those with ZooKeeper mode and a release on Maven Central."""

from __future__ import annotations

from kafka_chaos.contract.errors import UsageFailure, quoted

KNOWN_VERSIONS = ("3.9.2", "3.9.1", "3.8.1", "3.6.2", "3.6.0", "2.8.2", "2.4.1")
"""Each has been fetched and started as a broker."""


def check_version(version: str) -> str:
    """The version, if it is supported; raises `UsageFailure` with the reason and the supported versions."""
    if version in KNOWN_VERSIONS:
        return version
    known = f"expected one of {', '.join(KNOWN_VERSIONS)}"
    if version.startswith("4."):
        raise UsageFailure(
            f"version {quoted(version)} of Kafka has no ZooKeeper mode, which kafka-chaos needs: {known}"
        )
    raise UsageFailure(f"version {quoted(version)} of Kafka is not known: {known}")
