"""Where a cluster keeps its metadata, and how its version and metadata mode change its elections.

`metadata_mode` in lanes.json names a mode. The sources are Kafka's upgrade notes, KIP-833 and the section "Eligible
Leader Replicas" of its documentation.
"""

import re

ZOOKEEPER = "zookeeper"
KRAFT = "kraft"
METADATA_MODES = (ZOOKEEPER, KRAFT)

USUAL_VERSION = "3.9.1"  # the version that is assumed for a lane that names none

SERVER = re.compile(r"(?P<role>broker|zookeeper|controller)-(?P<number>\d+)")
"""The name of a server of a cluster in events, such as broker-2."""

Release = tuple[int, int]
"""A feature release: 3.9.1 is (3, 9), and 0.10.2.2 is (0, 10)."""

KRAFT_SINCE: Release = (2, 8)  # early access; for production since 3.3 (KIP-833)
NO_ZOOKEEPER_SINCE: Release = (4, 0)
UNCLEAN_IN_KRAFT_SINCE: Release = (3, 9)
"""Before, controllers in KRaft mode take no notice of `unclean.leader.election.enable` (KAFKA-12670)."""
ELR_SINCE: Release = (4, 0)
"""Eligible leader replicas (KIP-966): the feature `eligible.leader.replicas.version`, in KRaft mode."""
ELR_BY_DEFAULT_SINCE: Release = (4, 1)
"""Clusters created in this release or later use eligible leader replicas; an upgrade alone does not switch them on."""

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})([.-][\w.-]{1,40})?")


def release(version: str) -> Release:
    """The feature release of a version; raises `ValueError` for any other text."""
    numbers = _VERSION.fullmatch(version)
    if not numbers:
        raise ValueError(f"{version!r} is not a version of Kafka: expected one such as {USUAL_VERSION}")
    return int(numbers[1]), int(numbers[2])


def usual_mode(version: str) -> str:
    """The mode of a cluster of this version where none is named: ZooKeeper, if the version has it."""
    return KRAFT if release(version) >= NO_ZOOKEEPER_SINCE else ZOOKEEPER


def has_mode(version: str, mode: str) -> bool:
    """Whether a cluster of this version can run in this mode."""
    return release(version) < NO_ZOOKEEPER_SINCE if mode == ZOOKEEPER else release(version) >= KRAFT_SINCE


def may_elect_uncleanly(version: str, mode: str) -> bool:
    """Whether a cluster elects a replica outside of the ISR where the topic allows it."""
    return mode == ZOOKEEPER or release(version) >= UNCLEAN_IN_KRAFT_SINCE


def may_elect_from_elr(version: str, mode: str) -> bool:
    """Whether a cluster can elect leaders from the eligible leader replicas."""
    return mode == KRAFT and release(version) >= ELR_SINCE


def elects_from_elr(version: str, mode: str, elr: bool | None) -> bool:
    """Whether a cluster elects leaders from the eligible leader replicas.

    `elr`: whether this feature is switched on; None: whether it is in a new cluster of this version.
    """
    usual = release(version) >= ELR_BY_DEFAULT_SINCE
    return may_elect_from_elr(version, mode) and (usual if elr is None else elr)
