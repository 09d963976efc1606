"""What a command prints inside a container arrives whole, however late this machine gets to read it."""

from __future__ import annotations

import http.client
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_chaos.harness.cleanup import remove_run
from kafka_chaos.harness.engine import docker_client, execute_inside
from kafka_chaos.harness.image import ensure_image
from kafka_chaos.harness.labels import run_labels

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def container() -> Iterator[Any]:
    client, run_id = docker_client(), f"test-{secrets.token_hex(4)}"
    try:
        yield client.containers.run(
            ensure_image(),
            ["sleep", "300"],
            detach=True,
            entrypoint=[],
            network_mode="none",
            name=f"kafka-chaos-{run_id}",
            labels=run_labels(run_id, keep=False),
        )
    finally:
        remove_run(client, run_id)


@pytest.fixture(params=["at once", "late"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late: the command has printed before the answer's headers are looked at, as on a busy machine."""
    if request.param == "late":
        original = http.client.HTTPConnection.getresponse
        never = threading.Event()

        def late(self: Any, *arguments: Any, **options: Any) -> Any:
            never.wait(0.4)
            return original(self, *arguments, **options)

        monkeypatch.setattr(http.client.HTTPConnection, "getresponse", late)


@pytest.mark.usefixtures("reading")
def test_a_short_output_is_whole(container: Any) -> None:
    assert execute_inside(container.id, ["echo", "hello"]) == (0, b"hello\n")
    assert execute_inside(container.id, ["sh", "-c", "echo no; exit 3"]) == (3, b"no\n")


@pytest.mark.usefixtures("reading")
def test_a_long_output_is_whole(container: Any) -> None:
    expected = b"".join(b"%d\n" % number for number in range(1, 20_001))
    assert execute_inside(container.id, ["seq", "1", "20000"]) == (0, expected)


@pytest.mark.usefixtures("reading")
def test_a_streamed_output_is_whole(container: Any) -> None:
    api = docker_client().api
    execution = api.exec_create(container.id, ["seq", "1", "20000"])["Id"]
    pieces = [output or b"" for output, _ in api.exec_start(execution, stream=True, demux=True)]
    assert b"".join(pieces) == b"".join(b"%d\n" % number for number in range(1, 20_001))
