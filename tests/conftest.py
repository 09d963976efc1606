"""Fixtures for all tests: one cluster for the session, and a name for everything that a test makes on it."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator

import pytest

from kafka_chaos.harness.admin import ClusterAdmin
from kafka_chaos.harness.cluster import Cluster, ClusterSpec
from kafka_chaos.harness.cluster_view import ClusterView

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """ZooKeeper and three brokers; every test leaves them healed."""
    with Cluster(ClusterSpec(), run_id=f"test-{secrets.token_hex(4)}") as running:
        yield running


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> ClusterAdmin:
    return ClusterAdmin(cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def view(cluster: Cluster, admin: ClusterAdmin) -> ClusterView:
    return ClusterView(cluster, admin)


@pytest.fixture
def make_topic(admin: ClusterAdmin) -> Callable[..., str]:
    """Makes a topic with a fresh name, in sync when it is returned."""

    def make(replicas: tuple[int, ...] = (1, 2, 3), **configs: object) -> str:
        topic = f"topic-{next(_numbers)}"
        admin.create_topic(
            topic,
            replica_assignment=[list(replicas)],
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        admin.await_full_isr([topic])
        return topic

    return make
