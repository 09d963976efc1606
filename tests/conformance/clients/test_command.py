"""`kafka-chaos client check` without a cluster: what it refuses, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.conformance.clients import checks
from kafka_chaos.conformance.clients.command import check_command
from kafka_chaos.conformance.clients.kit import Kit
from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.harness.cluster import cluster as cluster_module
from kafka_chaos.harness.cluster.containers import image


def test_what_is_no_process_is_refused() -> None:
    result = CliRunner().invoke(check_command, ["librdkafka"])
    assert isinstance(result.exception, UsageFailure)
    assert "name a version, as in librdkafka:2.3.0" in str(result.exception)


def test_a_program_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(check_command, ["./no-such-service", "-v"])
    assert isinstance(result.exception, EnvironmentFailure)
    assert "./no-such-service is missing" in str(result.exception)


class FakeCluster(SimpleNamespace):
    def __init__(self, layout: Any, *, run_id: str) -> None:
        super().__init__(layout=layout, bootstrap_servers="127.0.0.1:1", brokers={1: None}, admin=lambda: None)

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("problems", "code", "last"),
    [
        ({"flush": "", "leave": ""}, 0, "the client speaks the protocol"),
        ({"flush": "it did not", "leave": ""}, 1, "1 check failed"),
    ],
)
def test_each_check_is_a_line(problems: dict[str, str], code: int, last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(kit: Kit) -> Iterator[tuple[str, str]]:
        assert kit.command == ("true", "--quiet")
        (kit.folder / "client.log").write_text("a line of its log\n")
        yield from problems.items()

    monkeypatch.setattr(checks, "checked", run)
    monkeypatch.setattr(cluster_module, "Cluster", FakeCluster)
    monkeypatch.setattr(image, "ensure_image", lambda version, *, say: None)
    result = CliRunner().invoke(check_command, ["true", "--quiet"])
    assert result.exit_code == code, result.output
    lines = result.output.splitlines()
    assert lines[0] == ("✗ flush: it did not" if code else "✓ flush")
    assert lines[1] == "✓ leave"
    assert lines[-1] == last
    assert ("    a line of its log" in lines) == bool(code)
