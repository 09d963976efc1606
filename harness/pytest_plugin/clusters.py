"""Clusters and topics for tests.

A topic is deleted after its test. A cluster is removed after the session, unless a test failed and its cluster is kept.
"""

import contextlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.lane.metadata import ZOOKEEPER
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout, Keep, kept_event
from kafka_chaos.harness.cluster.containers.versions import known_version, usual_version
from kafka_chaos.harness.report.listeners.terminal import advice_on_kept_cluster
from kafka_chaos.harness.run.shared_cluster import delete_topics, new_topic_name


class _TestsFailed(Exception):
    """Raised in the `with` block of a cluster whose tests failed, so that it is kept."""


def running_cluster(
    settings: Mapping[str, Any], *, keep: bool, failed: Callable[[], bool], note: Callable[[str], None]
) -> Iterator[Cluster]:
    """Yield a running cluster, and remove it afterwards, unless both `keep` and `failed()` are true.

    `settings`: how it differs from the default cluster. `note` takes lines that say how to inspect a kept cluster.
    """
    cluster = refusal = None
    try:
        options = {"kafka_version": usual_version(settings.get("metadata_mode", ZOOKEEPER)), **settings}
        options.setdefault("metadata_mode", known_version(options["kafka_version"]).modes[0])
        for key in ("broker_configs", "broker_versions"):  # A marker has dicts as tuples of items: these can be hashed.
            if key in options:
                options[key] = dict(options[key])
        spec = ClusterLayout(**options)
        cluster = Cluster(spec, run_id=f"pytest-{secrets.token_hex(4)}", keep=Keep.FAILED if keep else Keep.NEVER)
        with contextlib.suppress(_TestsFailed), cluster:
            yield cluster
            if keep and failed():
                raise _TestsFailed
    except KafkaChaosError as error:
        refusal = f"kafka-chaos: {error}"
    if refusal is not None:
        # Not within `except`, since pytest would print the caught error, too.
        pytest.fail(refusal, pytrace=False)
    if cluster is not None and cluster.kept:
        note(f"cluster {cluster.run_id} was left running, since a test failed")
        for line in advice_on_kept_cluster(kept_event(cluster)):
            note(f"  {line}")


class TopicMaker:
    """Makes topics whose names no other test uses, and deletes them when the test is over."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._admin = cluster.admin()
        self._topics: list[str] = []

    def __call__(
        self,
        name: str = "topic",
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> str:
        """Make a topic and return its name once all replicas are in sync; `configs` are Kafka's own keys."""
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,200}", name):
            raise ValueError(f"name: {name!r} is not valid: expected letters, digits, '.', '_' and '-'")
        brokers = self._cluster.spec.brokers
        replicas = min(3, brokers) if replication_factor is None else replication_factor
        if not 1 <= replicas <= brokers:
            raise ValueError(
                f"replication_factor: {replicas} is not valid: expected 1 to the number of brokers, {brokers}"
            )
        if partitions < 1:
            raise ValueError(f"partitions: {partitions} is not valid: expected at least 1")
        topic = new_topic_name(name)
        assignment = [[(first + step) % brokers + 1 for step in range(replicas)] for first in range(partitions)]
        self._admin.create_topic(topic, replica_assignment=assignment, configs=configs or {})
        self._topics.append(topic)
        self._admin.await_full_isr([topic])
        return topic

    def delete(self) -> None:
        """Delete the topics."""
        delete_topics(self._cluster, self._topics)
