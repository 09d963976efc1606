"""Fixtures for all tests: one cluster for the session, a browser, and names for what a test makes."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# How long an example takes says more of the machine than of the code: a stall is no failure.
settings.register_profile("kafka-chaos", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kafka-chaos")

CHROMIUM = Path("/usr/bin/chromium")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright, never a downloaded one; without it the test fails, it is not skipped."""
    from playwright import sync_api

    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing: run docker/set-up browser, or leave these tests out with -m 'not browser'")
    with sync_api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """ZooKeeper and three brokers; every test leaves them healed."""
    with Cluster(ClusterLayout(), run_id=f"test-{secrets.token_hex(4)}") as running:
        yield running


@pytest.fixture(scope="module")
def pool() -> Iterator[ClusterPool]:
    """Clusters for scenarios, started on first use and removed with the module's last test."""
    with ClusterPool() as running:
        yield running


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> ClusterAdmin:
    return ClusterAdmin(cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def view(cluster: Cluster, admin: ClusterAdmin) -> ClusterView:
    return ClusterView(cluster, admin)


@pytest.fixture
def make_topic(cluster: Cluster, admin: ClusterAdmin) -> Callable[..., str]:
    """Makes a topic with a fresh name, in sync when it is returned, whose leader every broker knows."""

    def all_know(topic: str) -> bool:
        for broker in cluster.brokers:
            with cluster.broker_client(broker) as client:
                if client.metadata(topic).leader is None:
                    return False
        return True

    def make(replicas: tuple[int, ...] = (1, 2, 3), **configs: object) -> str:
        topic = f"topic-{next(_numbers)}"
        admin.create_topic(
            topic,
            replica_assignment=[list(replicas)],
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        admin.await_full_isr([topic])
        # A broker that was away until just now may know the topic, and not yet that its leader lives.
        wait_until(lambda: all_know(topic), f"every broker to know who leads {topic}", timeout=15)
        return topic

    return make
