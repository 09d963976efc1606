"""A cluster that several runs use, one after the other: whole before each, and without the topics of the others."""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Sequence

from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.errors import ClusterFailure

_numbers = itertools.count(1)


def restore(cluster: Cluster) -> None:
    """Make sure that every container runs, whatever was done to it."""
    for node in cluster.nodes:
        node.unpause()
        if node.disk is not None:
            node.disk.make_whole()
    down = [node for node in cluster.nodes if not node.is_running()]
    if down:
        cluster.start_again(down)


def topic_name(name: str) -> str:
    """A topic's name that no other run uses."""
    return f"{name}-{secrets.token_hex(2)}-{next(_numbers)}"


def delete_topics(cluster: Cluster, topics: Sequence[str]) -> None:
    """Delete topics as far as the cluster lets it. One that is broken on purpose may refuse; it is removed later."""
    with contextlib.suppress(ClusterFailure):
        cluster.admin().delete_topics(topics)
