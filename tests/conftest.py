"""Fixtures for all tests: the session's clusters, a browser, names for what a test makes, shards of the night."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.clusters import PLAIN, SharedClusters, await_known
from tests.night import SHARDS, shard_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# How long an example takes says more of the machine than of the code: a stall is no failure.
# By day, examples are the same ones each time; at night, new ones are looked for.
for name, is_fixed in (("day", True), ("night", False)):
    settings.register_profile(name, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=is_fixed)
settings.load_profile("day")

CHROMIUM = Path("/usr/bin/chromium")
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_numbers = itertools.count(1)

# What needs the machine's engine, its JVM or its browser: each is one after the other, in one worker, and begins first.
_ONE_BY_ONE = ("cluster", "spark", "browser")
_CLOSES_CLUSTERS: list[Callable[[], None]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", choices=sorted(SHARDS), help="the slow tests of one shard of the night")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose a shard's tests; let the workers of `-n` have whole levels."""
    if shard := config.getoption("shard"):
        slow = [item for item in items if item.get_closest_marker("slow") is not None]
        chosen = [item for item in slow if shard_of(item.nodeid.partition("::")[0]) == shard]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen
    # What a worker knows of `--dist loadgroup`.
    if getattr(config.option, "loadgroup", False):
        items.sort(key=_level)
        for item in items:
            if (level := _level(item)) < len(_ONE_BY_ONE):
                item.add_marker(pytest.mark.xdist_group(_ONE_BY_ONE[level]))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a pytest-xdist whose workers do not keep groups with this pytest: each would have clusters and a JVM.

    The collected tests stay to the end: the garbage collector is not to look through them again and again.
    """
    gc.freeze()
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(f"this pytest-xdist does not group tests with pytest {pytest.__version__}")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Remove the session's clusters after the last test on them: an idle one takes a twentieth of a processor."""
    if _level(item) == 0 and (nextitem is None or _level(nextitem) > 0):
        for close in _CLOSES_CLUSTERS:
            close()


def _level(item: pytest.Item) -> int:
    return next((level for level, name in enumerate(_ONE_BY_ONE) if item.get_closest_marker(name)), len(_ONE_BY_ONE))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright, never a downloaded one; without it the test fails, it is not skipped."""
    from playwright import sync_api

    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing: run docker/set-up tests, or leave these tests out with -m 'not browser'")
    with sync_api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield running
        running.close()


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters that stand, and nodes and devices that are broken, are noted in the test's own folder."""
    monkeypatch.setenv("KAFKA_CHAOS_STATE", str(tmp_path / "state"))


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No Docker engine answers, also where tests before have a client of one."""
    docker_client.cache_clear()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    yield
    docker_client.cache_clear()


@pytest.fixture(scope="session")
def clusters() -> Iterator[SharedClusters]:
    shared = SharedClusters()
    _CLOSES_CLUSTERS.append(shared.close)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def layout() -> ClusterLayout:
    """The layout of the module's cluster; a module that needs another has a fixture of this name."""
    return PLAIN


@pytest.fixture(scope="module")
def cluster(clusters: SharedClusters, layout: ClusterLayout) -> Cluster:
    """A shared cluster; every test leaves it healed."""
    return clusters.of(layout)


@pytest.fixture(scope="session")
def pool() -> Iterator[ClusterPool]:
    """Clusters for scenarios, started on first use."""
    with ClusterPool() as running:
        _CLOSES_CLUSTERS.append(running.__exit__)
        yield running


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> ClusterAdmin:
    return cluster.admin()


@pytest.fixture(scope="module")
def view(cluster: Cluster, admin: ClusterAdmin) -> ClusterView:
    return ClusterView(cluster, admin)


@pytest.fixture
def make_topic(cluster: Cluster, admin: ClusterAdmin) -> Callable[..., str]:
    """Makes a topic with a fresh name, in sync when it is returned, whose leader every broker knows."""

    def make(replicas: tuple[int, ...] = (1, 2, 3), **configs: object) -> str:
        topic = f"topic-{next(_numbers)}"
        admin.create_topic(
            topic,
            replica_assignment=[list(replicas)],
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        admin.await_full_isr([topic])
        await_known(cluster, topic)
        return topic

    return make
