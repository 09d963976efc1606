"""The Docker engine: how it is reached, what to do if it can't be, and operations that its SDK lacks."""

from __future__ import annotations

import base64
import io
import json
import os
import secrets
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.containers.labels import LABEL_PREFIX, ROLE

if TYPE_CHECKING:
    from docker.errors import APIError
    from docker.models.containers import Container

    import docker

_FREEZE_AGAIN = ("unable to freeze", "is already paused")
"""The refusals after which `freeze` tries again."""
_ALREADY_THAWED = "not paused"  # in the refusal of a thaw
_NOT_FOUND = 404

ANSWER_TIMEOUT_S = 10
"""For an engine's first answers, since an engine may accept connections and never answer."""
MEMORY_PER_BROKER = 400 * 2**20
"""Bytes: a broker with -Xmx300m was measured at 320 MB resident, with class-data sharing."""
MEMORY_OF_THE_HARNESS = 1_500 * 2**20
"""Bytes for the harness, ZooKeeper and Spark's local session."""
CANNOT_EXECUTE = 126
"""The exit code with which shells report that a command can't be executed."""
_NOT_RUNNING = ("is not running", "is paused", "non running container")  # in the refusal of a command


@cache
def docker_client() -> docker.DockerClient:
    """A client of the Docker engine that answers; raises `EnvironmentFailure`, which says what to do, if none does."""
    from docker.constants import DEFAULT_TIMEOUT_SECONDS
    from docker.errors import DockerException

    import docker

    try:
        client = docker.from_env(timeout=ANSWER_TIMEOUT_S)
        client.ping()
    except (DockerException, OSError) as error:  # The library `requests` raises OSErrors.
        raise EnvironmentFailure(_advice(error)) from error
    client.api.timeout = DEFAULT_TIMEOUT_SECONDS
    _read_whole_answers(client)
    return client


def freeze(container: Container, *, timeout: float = 10.0) -> None:
    """Freeze all processes of a container with the cgroup freezer.

    Repeats the request while the engine answers that it can't freeze the container. With cgroup version 1, runc gives
    up after some ten milliseconds, but a process that waits for its disk freezes only when the disk has answered. And
    for a moment after a thaw, the engine may still report the container as frozen. Raises `WaitTimeout`.
    """
    from docker.errors import APIError

    refusal = ""

    def frozen() -> bool:
        nonlocal refusal
        try:
            container.pause()
        except APIError as error:
            refusal = str(error.explanation)
            if not any(reason in refusal for reason in _FREEZE_AGAIN):
                raise
            return False
        return True

    wait_until(frozen, f"{container.name} to be frozen", timeout=timeout, interval=0.01, seen=lambda: refusal)


def thaw(container: Container) -> None:
    """Thaw all processes of a container; do nothing if they run.

    Processes may run although the engine reports a pause: to end a frozen process, the engine thaws the container, and
    is late to report the thaw.
    """
    from docker.errors import APIError

    try:
        container.unpause()
    except APIError as error:
        if _ALREADY_THAWED not in str(error.explanation):
            raise


def execute_inside(container: Container, command: Sequence[str]) -> tuple[int, bytes]:
    """Run a command inside a container, and return its exit code and all of its output.

    The code is `CANNOT_EXECUTE` if the container does not run, or is frozen.
    """
    from docker.errors import APIError

    api = docker_client().api
    try:
        execution = api.exec_create(container.id, list(command))["Id"]
        output = bytes(api.exec_start(execution))
    except APIError as error:
        return _cannot_execute(error)
    return int(api.exec_inspect(execution)["ExitCode"]), output


def execute_in_network(container: Container, command: Sequence[str]) -> tuple[int, bytes]:
    """Run a command that only needs a container's network, and return its exit code and all of its output.

    If the container is frozen, a helper container of the same image runs the command in that network, and
    is removed. The code is `CANNOT_EXECUTE` if the container does not run.
    """
    from docker.errors import APIError

    code, output = execute_inside(container, command)
    if code == CANNOT_EXECUTE:
        container.reload()
    if code != CANNOT_EXECUTE or not container.attrs["State"]["Paused"]:
        return code, output
    labels = {key: value for key, value in container.labels.items() if key.startswith(LABEL_PREFIX)}
    helper = docker_client().containers.create(
        container.attrs["Image"],
        list(command[1:]),
        entrypoint=command[0],
        network_mode=f"container:{container.id}",
        cap_add=container.attrs["HostConfig"]["CapAdd"],
        labels={**labels, ROLE: "network"},
        name=f"{container.name}-network-{secrets.token_hex(4)}",
    )
    try:
        helper.start()
        return int(helper.wait()["StatusCode"]), helper.logs()
    except APIError as error:
        return _cannot_execute(error)
    finally:
        helper.remove(force=True)


def _cannot_execute(error: APIError) -> tuple[int, bytes]:
    """The result for a container that does not run, or is frozen; any other error is raised."""
    if not any(reason in str(error.explanation) for reason in _NOT_RUNNING):
        raise error
    return CANNOT_EXECUTE, str(error.explanation).encode()


def size_inside(container: Container, path: str) -> int | None:
    """The size of a file of a container, running or not; None if there is no such file. The file is not read."""
    api = docker_client().api
    answer = api.head(api._url("/containers/{0}/archive", container.id), params={"path": path})
    if answer.status_code == _NOT_FOUND:
        return None
    api._raise_for_status(answer)
    return int(json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))["size"])


class _BufferedSocket:
    """Stands for a response's raw socket, but reads through the buffer of the headers (see `_read_whole_answers`)."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._reader = response.raw._fp.fp

    def fileno(self) -> int:
        return int(self._reader.fileno())

    def recv(self, size: int) -> bytes:
        return bytes(self._reader.read1(size))

    def sendall(self, data: bytes) -> None:
        self._reader.raw._sock.sendall(data)

    def shutdown(self, how: int) -> None:
        self._reader.raw._sock.shutdown(how)

    def close(self) -> None:
        self._response.close()


def _read_whole_answers(client: Any) -> None:
    """Make this client read a command's output from its first byte on.

    The SDK reads the headers through a buffer, but the output from the socket. On a busy machine, output that arrives
    together with the headers is then lost (`tests/harness/cluster/test_engine.py` shows it).
    """
    api = client.api
    original = api._get_raw_response_socket

    def buffered_socket(response: Any) -> Any:
        reader = getattr(getattr(response.raw, "_fp", None), "fp", None)
        if not hasattr(reader, "read1"):
            return original(response)
        api._raise_for_status(response)
        return _BufferedSocket(response)

    api._get_raw_response_socket = buffered_socket


def check_memory(brokers: int) -> None:
    """Raise `EnvironmentFailure` if this number of brokers and the harness would not fit into the free memory."""
    needed = brokers * MEMORY_PER_BROKER + MEMORY_OF_THE_HARNESS
    available = available_memory()
    if available is not None and available < needed:
        raise EnvironmentFailure(
            f"{brokers} brokers need about {needed / 2**30:.1f} GiB of memory, {available / 2**30:.1f} GiB are free: "
            "end other programs or use a machine with more memory"
        )


def available_memory() -> int | None:
    """The bytes of memory that can be used without swapping; None if the kernel does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else None


def _advice(error: Exception) -> str:
    text = str(error)
    if "Permission denied" in text:
        return "the Docker engine refuses this user: add it to the group docker and log in again"
    if "paramiko" in text:
        return "DOCKER_HOST=ssh://… is not possible: run kafka-chaos on that machine, where the brokers' ports are"
    if host := os.environ.get("DOCKER_HOST"):
        waited = f" within {ANSWER_TIMEOUT_S} s" if "timed out" in text else ""
        return f"no Docker engine answers{waited} at DOCKER_HOST={host}: start it or unset DOCKER_HOST"
    return f"no Docker engine answers: start or install one (in a clone, as root on Debian: `make setup`): {text}"


@contextmanager
def archived_file(pieces: Iterator[bytes], name: str) -> Iterator[IO[bytes]]:
    """Open the only file of an archive that the engine sends; it can only be read in order. `name`: for errors."""
    try:
        with tarfile.open(fileobj=Pipe(pieces), mode="r|") as archive:
            member = archive.next()
            content = archive.extractfile(member) if member else None
            if content is None:
                raise ClusterFailure(f"{name} is not a file")
            yield content
    finally:
        # The engine can't remove a container before the whole archive has been read.
        for _ in pieces:
            pass


class Pipe(io.RawIOBase):
    """Pieces of bytes as a file that can only be read in order."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Always True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer with as much of the current piece as fits, and return the number of bytes."""
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def main() -> int:
    """Return 0 if an engine answers; else print the reason and return 3. docker/set-up calls it."""
    try:
        docker_client()
    except EnvironmentFailure as failure:
        print(failure, file=sys.stderr)
        return failure.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
