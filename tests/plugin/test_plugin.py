"""The plugin as pytest sees it: options, marker, sharing, xdist, and what it imports, without a cluster."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kafka_chaos.harness.pytest_plugin import clusters

pytest_plugins = ["pytester"]

CONFTEST = """
    import pytest
    from kafka_chaos.harness.pytest_plugin import clusters

    @pytest.fixture(scope="session")
    def log():
        yield clusters.running_cluster.started
"""
A_WORKER = """
    def pytest_configure(config):
        config.workerinput = {"workercount": %d}
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose clusters are what was wanted of them. Its tests run in this process."""
    started: list[Mapping[str, Any]] = []

    def running_cluster(
        wanted: Mapping[str, Any], *, keep: bool, failed: Callable[[], bool], note: Callable[[str], None]
    ) -> Iterator[Mapping[str, Any]]:
        started.append(dict(wanted))
        yield started[-1]
        note(f"ended {wanted} keep {keep} failed {failed()}")

    running_cluster.started = started  # type: ignore[attr-defined]
    monkeypatch.setattr(clusters, "running_cluster", running_cluster)
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider")
    return pytester


def test_tests_that_want_the_same_cluster_share_one_and_follow_each_other(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.kafka_chaos(brokers=5)
        def test_a(kafka_chaos_cluster): assert kafka_chaos_cluster["brokers"] == 5
        def test_b(kafka_chaos_cluster): assert kafka_chaos_cluster == {}
        def test_c(): pass
        @pytest.mark.kafka_chaos(brokers=5)
        def test_d(kafka_chaos_cluster): pass
        @pytest.mark.kafka_chaos(brokers=3)
        def test_e(kafka_chaos_cluster, log):
            assert log == [{"brokers": 5}, {}]
    """)
    result = project.runpytest("-v")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*test_a?brokers=5?*", "*test_d?brokers=5?*", "*test_b *", "*test_e *"])


def test_the_version_comes_from_the_command_line_or_the_marker(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        def test_a(kafka_chaos_cluster): assert kafka_chaos_cluster == {"kafka_version": "3.8.1"}
        @pytest.mark.kafka_chaos(kafka_version="3.6.2", broker_configs={"log.roll.ms": 1})
        def test_b(kafka_chaos_cluster):
            assert kafka_chaos_cluster == {"kafka_version": "3.6.2", "broker_configs": (("log.roll.ms", 1),)}
    """)
    project.runpytest("--kafka-chaos-version=3.8.1").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        ("kafka_chaos(broker=3)", "kafka_chaos: broker: no such keyword; expected brokers, metadata_mode, zookeepers"),
        ("kafka_chaos(3)", "kafka_chaos: 3: expected keywords only: brokers"),
    ],
)
def test_a_wrong_marker_is_refused_with_what_is_expected(project: pytest.Pytester, marker: str, expected: str) -> None:
    project.makepyfile(f"""
        import pytest

        @pytest.mark.{marker}
        def test_it(kafka_chaos_cluster): pass
    """)
    result = project.runpytest()
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*{expected}*"])


TWO_TESTS = """
    def test_a(kafka_chaos_cluster): pass
    def test_b(): pass
"""
REFUSED = "*each would start its own Kafka cluster*--kafka-chaos-cluster-per-worker*"


def test_one_of_several_workers_is_refused_with_the_reason_unless_asked_for(project: pytest.Pytester) -> None:
    project.makepyfile(TWO_TESTS)
    project.makeconftest(CONFTEST + A_WORKER % 2)
    result = project.runpytest("-p", "no:xdist")
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines([REFUSED])
    project.runpytest("-p", "no:xdist", "--kafka-chaos-cluster-per-worker").assert_outcomes(passed=2)


@pytest.mark.slow
def test_xdist_tells_its_workers_how_many_they_are(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TWO_TESTS)
    result = pytester.runpytest_subprocess("-n2")
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines([REFUSED])


def test_a_spec_that_no_cluster_can_have_is_an_error_of_the_test_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kafka_chaos(brokers=10)
        def test_it(kafka_chaos_cluster): pass
    """)
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["kafka-chaos: brokers: 10 is not valid: expected 1 to 9"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_the_test_says_what_to_do(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_one(kafka_chaos_run): pass
        def test_two(kafka_chaos_run): pass
    """)
    result = pytester.runpytest("--tb=short", "-rN")
    result.assert_outcomes(errors=2)
    lines = result.stdout.lines
    (said,) = [number for number, line in enumerate(lines) if "no Docker engine" in line]
    assert "ERROR at setup of test_one" in lines[said - 1]
    engine = "DOCKER_HOST=unix:///nowhere/docker.sock"
    assert lines[said] == f"kafka-chaos: no Docker engine answers at {engine}: start it or unset DOCKER_HOST"
    assert "ERROR at setup of test_two" in lines[said + 1]
    assert lines[said + 2] == "kafka-chaos: no cluster, for the reason above"


def test_an_unknown_engine_is_refused_wherever_it_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest("--kafka-chaos-engine=spark").assert_outcomes(passed=1)
    refused = pytester.runpytest("--kafka-chaos-engine=plain")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    pytester.makeini("[pytest]\nkafka_chaos_engine = plain")
    refused = pytester.runpytest()
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "kafka_chaos_engine: 'plain': expected duckdb or spark" in refused.stderr.str()


def test_an_unknown_defect_to_accept_is_refused_before_any_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    options = ["--kafka-chaos-accept-known=librdkafka-4953", "--kafka-chaos-accept-known=x"]
    refused = pytester.runpytest(*options)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    expected = "--kafka-chaos-accept-known: 'x': expected known defects out of librdkafka-4953, KAFKA-15591"
    assert expected in refused.stderr.str()
    pytester.runpytest(*options[:1]).assert_outcomes(passed=1)
