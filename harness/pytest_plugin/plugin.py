"""The module that pytest loads: options, the marker and the fixtures, all with the prefix `kafka_chaos`.

Guarantee: until a test uses a fixture, this imports only pytest and the standard library. Under xdist, each worker
would start its own cluster: that is refused without --kafka-chaos-cluster-per-worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kafka_chaos.harness.cluster.cluster import Cluster
    from kafka_chaos.harness.pytest_plugin.clusters import TopicMaker
    from kafka_chaos.harness.pytest_plugin.runs import Runs

CLUSTER = "kafka_chaos_cluster"  # the fixture below, by which tests that need a cluster are known
DEFAULT_OUT = "kafka-chaos-runs"
_DEFAULTS = {
    "brokers": 3,
    "metadata_mode": "zookeeper",
    "zookeepers": 1,
    "controllers": 0,
    "kafka_version": None,
    "broker_versions": None,
    "elr": None,
    "controller": None,
    "broker_configs": None,
    "assume": (),
    "disk_mib": 0,
    "security": "plaintext",
    "advertise": None,
}
"""The marker's keywords with their defaults: keys of an experiment's `cluster`, and `disk_mib`, the MiB of a disk."""
MARKER = (
    f"kafka_chaos(*, {', '.join(f'{key}={default!r}' for key, default in _DEFAULTS.items())}): "
    "the cluster that the test needs as kafka_chaos_cluster"
)
_KEEP_CHOICES = ("runs", "cluster")
ENGINES = ("duckdb", "spark")
ACCEPT_KNOWN = "--kafka-chaos-accept-known"

ClusterSettings = tuple[tuple[str, Any], ...]
"""The settings of a marker that differ from the default, as sorted pairs. Tests with equal settings share a cluster."""


@dataclass
class Session:
    """The state of a session: settings of failed tests' clusters, refusals that were shown, lines for the summary."""

    failed_settings: set[ClusterSettings] = field(default_factory=set)
    refusals: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


SESSION = pytest.StashKey[Session]()
FAILED = pytest.StashKey[bool]()  # whether the test failed, in the stash of the test


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("kafka-chaos", "Kafka clusters that are broken on purpose (kafka-chaos)")
    group.addoption(
        "--kafka-chaos-version", metavar="VERSION", help="Version of Kafka, unless a test's marker names one."
    )
    group.addoption(
        "--kafka-chaos-seed",
        metavar="SEED",
        type=int,
        help="Seed of every run; by default each run draws a seed and prints it.",
    )
    group.addoption(
        "--kafka-chaos-out",
        metavar="DIR",
        help=f"Where to write run directories; by default {DEFAULT_OUT} in pytest's root directory.",
    )
    group.addoption(
        "--kafka-chaos-keep",
        action="append",
        choices=_KEEP_CHOICES,
        default=[],
        help="runs: also keep the run directories of tests that passed. cluster: leave the cluster running if a "
        "test that used it failed. May be given twice.",
    )
    group.addoption(
        ACCEPT_KNOWN,
        action="append",
        metavar="ID",
        default=[],
        help="Let assert_conforms pass for lanes whose violations this known defect explains, if the run shows the "
        "conditions of the defect. May be given several times.",
    )
    engine_help = "What verifies runs: duckdb, which starts no JVM and writes no report, or spark."
    group.addoption("--kafka-chaos-engine", metavar="ENGINE", help=f"{engine_help} Default: the ini file's engine.")
    parser.addini("kafka_chaos_engine", engine_help, default=ENGINES[0])
    group.addoption(
        "--kafka-chaos-cluster-per-worker",
        action="store_true",
        help="Under pytest-xdist: let every worker start its own cluster (about 400 MB per broker).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse options and ini values that make no sense."""
    config.addinivalue_line("markers", MARKER)
    # A failed producer warns when it is closed: `recorded_producer.py` ignores that, but pytest resets its filter.
    config.addinivalue_line("filterwarnings", "ignore:Producer abort_transaction failed during close:RuntimeWarning")
    if accepted := config.getoption(ACCEPT_KNOWN):
        from kafka_chaos.contract.command.errors import UsageFailure
        from kafka_chaos.reference_model.protocol.known_defects import require_known

        try:
            require_known(accepted, ACCEPT_KNOWN)
        except UsageFailure as error:
            raise pytest.UsageError(str(error)) from None
    if (engine := _engine(config)) not in ENGINES:
        raise pytest.UsageError(f"kafka_chaos_engine: {engine!r}: expected {' or '.join(ENGINES)}")
    config.stash[SESSION] = Session()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Assign a test the cluster that its marker asks for; pytest shares it among tests that ask for the same."""
    if CLUSTER not in metafunc.fixturenames:
        return
    settings = _cluster_settings(metafunc.definition)
    if settings:
        name = ",".join(f"{key}={value}" for key, value in settings if key != "broker_configs") or "broker_configs"
        metafunc.parametrize(CLUSTER, [settings], indirect=True, scope="session", ids=[name])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move tests that share a cluster together, so that no cluster starts twice; the others stay in place."""
    indexes = [index for index, item in enumerate(items) if CLUSTER in getattr(item, "fixturenames", ())]
    first_index: dict[ClusterSettings, int] = {}
    for index in indexes:
        first_index.setdefault(_cluster_settings(items[index]), index)
    if len(first_index) > 1:
        ordered = sorted((items[index] for index in indexes), key=lambda item: first_index[_cluster_settings(item)])
        for index, item in zip(indexes, ordered, strict=True):
            items[index] = item


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Remember failures for the fixtures' clean-up. If several tests fail for the same reason, show it only once."""
    report: pytest.TestReport = yield
    if report.failed and report.when == "setup":
        _show_once(report, item.config.stash[SESSION])
    if report.failed and CLUSTER in getattr(item, "fixturenames", ()):
        item.stash[FAILED] = True
        item.config.stash[SESSION].failed_settings.add(_cluster_settings(item))
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the reports of failed tests, which violations were accepted, and how to inspect a cluster that was kept."""
    notes = config.stash[SESSION].notes
    if notes:
        terminalreporter.section("kafka-chaos")
        for note in notes:
            terminalreporter.write_line(note)


@pytest.fixture(scope="session")
def kafka_chaos_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster, shared by all tests whose marker `kafka_chaos` asks for the same settings.

    `bootstrap_servers` is what clients connect to, with `client_configs` (librdkafka's keys) where the marker asks for
    `security`; `brokers` and `zookeepers` are its containers by number.
    """
    _refuse_many_workers(request.config)
    from kafka_chaos.harness.pytest_plugin.clusters import running_cluster

    settings: ClusterSettings = getattr(request, "param", ())
    session = request.config.stash[SESSION]
    version = request.config.getoption("--kafka-chaos-version")
    yield from running_cluster(
        {**({"kafka_version": version} if version else {}), **dict(settings)},
        keep="cluster" in request.config.getoption("--kafka-chaos-keep"),
        failed=lambda: settings in session.failed_settings,
        note=session.notes.append,
    )


@pytest.fixture
def kafka_chaos_topic(kafka_chaos_cluster: Cluster) -> Iterator[TopicMaker]:
    """Makes topics for one test: `kafka_chaos_topic("orders", partitions=3)` returns the topic's real name."""
    from kafka_chaos.harness.pytest_plugin.clusters import TopicMaker

    make_topic = TopicMaker(kafka_chaos_cluster)
    yield make_topic
    make_topic.delete()


@pytest.fixture
def kafka_chaos_run(request: pytest.FixtureRequest, kafka_chaos_cluster: Cluster) -> Iterator[Runs]:
    """Runs lanes under load and faults on the test's cluster, and verifies them; see `Runs.__call__`."""
    from kafka_chaos.harness.pytest_plugin.runs import Runs

    config = request.config
    runs = Runs(
        kafka_chaos_cluster,
        out=Path(config.getoption("--kafka-chaos-out") or config.rootpath / DEFAULT_OUT),
        seed=config.getoption("--kafka-chaos-seed"),
        nodeid=request.node.nodeid,
        accept_known=config.getoption(ACCEPT_KNOWN),
        engine=_engine(config),
    )
    yield runs
    keep = "runs" in config.getoption("--kafka-chaos-keep") or request.node.stash.get(FAILED, False)
    config.stash[SESSION].notes.extend(runs.finish(keep=keep))


def _show_once(report: pytest.TestReport, session: Session) -> None:
    """Shorten the reason for a missing cluster if an earlier test has shown this reason."""
    reason = str(report.longrepr)
    if not reason.startswith("kafka-chaos: "):
        return
    if reason in session.refusals:
        report.longrepr = "kafka-chaos: no cluster, for the reason above"
    session.refusals.add(reason)


def _cluster_settings(node: pytest.Item | Any) -> ClusterSettings:
    """The cluster that the markers of a test ask for; the marker nearest to the test counts."""
    settings: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers("kafka_chaos"))):
        if mark.args:
            raise pytest.UsageError(f"kafka_chaos: {mark.args[0]!r}: expected keywords only: {', '.join(_DEFAULTS)}")
        for key, value in mark.kwargs.items():
            if key not in _DEFAULTS:
                raise pytest.UsageError(f"kafka_chaos: {key}: no such keyword; expected {', '.join(_DEFAULTS)}")
            if isinstance(value, dict):
                value = tuple(sorted(value.items()))
            if isinstance(value, list):
                value = tuple(value)
            settings[key] = value
    return tuple(sorted((key, value) for key, value in settings.items() if value != _DEFAULTS[key]))


def _engine(config: pytest.Config) -> str:
    return str(config.getoption("--kafka-chaos-engine") or config.getini("kafka_chaos_engine"))


def _refuse_many_workers(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is None or worker["workercount"] == 1 or config.getoption("--kafka-chaos-cluster-per-worker"):
        return
    pytest.fail(
        f"pytest-xdist runs {worker['workercount']} workers, and each would start its own Kafka cluster "
        "(about 400 MB per broker, and they slow each other down). Ask for that with "
        "--kafka-chaos-cluster-per-worker, or run these tests with -n 1.",
        pytrace=False,
    )
