"""On a busy machine, too, the output of a command in a container arrives whole, and a container freezes."""

import http.client
import secrets
import threading
from collections.abc import Iterator
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from docker.errors import APIError

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.harness.cluster.containers import engine
from kafka_chaos.harness.cluster.containers.cleanup import remove_run
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.containers.labels import RUN, run_labels

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def container() -> Iterator[Any]:
    client, run_id = engine.docker_client(), f"test-{secrets.token_hex(4)}"
    try:
        yield client.containers.run(
            ensure_image(), ["sleep", "300"], detach=True, entrypoint=[], network_mode="none",
            name=f"kafka-chaos-{run_id}", labels=run_labels(run_id, keep=False),
        )  # fmt: skip
    finally:
        remove_run(client, run_id)


@pytest.fixture(params=["at once", "late"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late: the command has printed before the answer's headers are read, as on a busy machine."""
    if request.param == "late":
        original = http.client.HTTPConnection.getresponse
        never = threading.Event()

        def late(self: Any, *arguments: Any, **options: Any) -> Any:
            never.wait(0.4)
            return original(self, *arguments, **options)

        monkeypatch.setattr(http.client.HTTPConnection, "getresponse", late)


@pytest.mark.usefixtures("reading")
def test_an_output_is_whole(container: Any) -> None:
    assert engine.execute_inside(container, ["echo", "hello"]) == (0, b"hello\n")
    assert engine.execute_inside(container, ["sh", "-c", "echo no; exit 3"]) == (3, b"no\n")
    expected = b"".join(b"%d\n" % number for number in range(1, 20_001))
    assert engine.execute_inside(container, ["seq", "1", "20000"]) == (0, expected)


def test_a_command_in_a_container_that_has_ended_fails_with_an_exit_code() -> None:
    client, run_id = engine.docker_client(), f"test-{secrets.token_hex(4)}"
    try:
        labels = run_labels(run_id, keep=False)
        ended = client.containers.run(ensure_image(), ["true"], entrypoint=[], detach=True, labels=labels)
        ended.wait(timeout=60)
        code, output = engine.execute_inside(ended, ["true"])
        assert code == engine.CANNOT_EXECUTE
        assert b"is not running" in output
    finally:
        remove_run(client, run_id)
    with pytest.raises(APIError, match="No such container"):
        engine.execute_inside(ended, ["true"])


def in_any_order(code: int, output: bytes) -> tuple[int, list[bytes]]:
    """An exit code and lines of two streams, of whose order the engine says nothing."""
    return code, sorted(output.splitlines())


def test_a_command_of_the_network_runs_beside_a_frozen_container(container: Any) -> None:
    read = ["sh", "-c", "readlink /proc/self/ns/net; echo wrong >&2; exit 2"]
    inside = in_any_order(*engine.execute_inside(container, read))
    assert in_any_order(*engine.execute_in_network(container, read)) == inside
    engine.freeze(container)
    try:
        assert engine.execute_inside(container, read)[0] == engine.CANNOT_EXECUTE
        assert in_any_order(*engine.execute_in_network(container, read)) == inside
        assert engine.execute_in_network(container, ["true"]) == (0, b"")
    finally:
        container.unpause()
    run = f"{RUN}={container.labels[RUN]}"
    assert len(engine.docker_client().containers.list(all=True, filters={"label": run})) == 1


def stubborn(refusals: int, explanation: str = "OCI runtime pause failed: unable to freeze: unknown") -> Any:
    """A container whose freezing the engine refuses a given number of times."""
    refused = APIError("500 Server Error", explanation=explanation)
    return SimpleNamespace(name="stubborn", pause=Mock(side_effect=chain(repeat(refused, refusals), repeat(None))))


@pytest.mark.parametrize("explanation", ["OCI runtime pause failed: unable to freeze", "Container 1 is already paused"])
def test_a_freeze_that_came_too_early_is_asked_for_again(explanation: str) -> None:
    container = stubborn(refusals=3, explanation=explanation)
    engine.freeze(container)
    assert container.pause.call_count == 4


def test_a_freeze_that_never_comes_is_told() -> None:
    with pytest.raises(WaitTimeout, match=r"for stubborn to be frozen after .* s; seen last: .*unable to freeze"):
        engine.freeze(stubborn(refusals=10**6), timeout=0.1)


def test_another_refusal_is_not_asked_again() -> None:
    container = stubborn(refusals=1, explanation="no such container")
    with pytest.raises(APIError, match="no such container"):
        engine.freeze(container)
    assert container.pause.call_count == 1
