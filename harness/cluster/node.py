"""One container of a cluster: a broker, a controller or a ZooKeeper server.

The node's data is in the container's own layer, or on a disk of its own, which faults can freeze or cut off. In both
places data survives a kill and a start, and is removed with the run. A frozen disk is thawed before processes are ended
or frozen, since they would wait for the disk. A disk that was cut off is repaired before processes start. If
connections pass links, each start attaches a link, since the container has a new network namespace.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.clock.process_clock import Clock, with_engine_time
from kafka_chaos.harness.cluster.containers import engine
from kafka_chaos.harness.cluster.containers.cleanup import refusals_ignored
from kafka_chaos.harness.cluster.containers.network import LOOPBACK

if TYPE_CHECKING:
    from docker.models.containers import Container
    from testcontainers.core.container import DockerContainer

    from kafka_chaos.faults.links.relay.links import NodeLink
    from kafka_chaos.faults.storage.devices.disk import Disk

LOG_LINES_IN_ERRORS = 25
_PIECE = 1 << 20  # bytes


@dataclass(eq=False)
class Node:
    """A container and the server in it. The server logs `started_text` once it serves.

    `address`: its IPv4 address on the cluster's network. `host_port`: the port for clients, None if clients use none.
    """

    name: str
    role: str
    number: int
    address: str
    host_port: int | None
    started_text: str
    disk: Disk | None = None
    host: str = LOOPBACK
    """The host at which this process and clients reach `host_port`."""
    testcontainer: DockerContainer = field(init=False)
    link: NodeLink | None = None
    clock: Clock | None = None
    former_containers: list[Container] = field(default_factory=list)
    """Containers that ran other versions of Kafka before; they are down, and kept for their logs."""
    _successor: tuple[DockerContainer, Sequence[str]] | None = field(default=None, init=False)
    """The container that takes this one's place at the next start, with the folders that are copied into it."""

    @property
    def client_address(self) -> str:
        """The address (`host:port`) for clients outside of the cluster's network; it stays the same across restarts."""
        return f"{self.host}:{self.host_port}"

    @property
    def shell(self) -> Node:
        """The node itself, which runs commands in its container. None for an attached node."""
        return self

    def add_clock(self) -> None:
        """Add a wall clock that can be moved, if the container's command starts the server with libfaketime."""
        self.clock = Clock(self._pid, self.write_file)

    def _pid(self) -> int:
        return int(self.state()["Pid"])

    @property
    def container(self) -> Container:
        """The Docker container behind this node."""
        return self.testcontainer.get_wrapped_container()

    @property
    def container_name(self) -> str:
        """The container's name on the Docker engine."""
        return str(self.container.name)

    def exists(self) -> bool:
        """Whether the container was created."""
        return self.testcontainer._container is not None

    def create_and_start(self) -> None:
        """Create the container and start its process; does not wait until the server serves."""
        self.testcontainer.start()
        self._attach_link()

    def await_ready(self, timeout: float = 60.0) -> None:
        """Wait until the server serves after its latest start; raises `ClusterFailure` with its status and log."""
        try:
            wait_until(self._is_ready, f"{self.name} to log '{self.started_text}'", timeout=timeout)
        except ClusterFailure as failure:
            state, lines = self.state(), self.log(tail=LOG_LINES_IN_ERRORS).rstrip()
            status = f"{self.name}: status {state['Status']}, exit code {state['ExitCode']}"
            raise ClusterFailure(f"{failure}\n{status}; last lines of its log:\n{lines}") from failure

    def _is_ready(self) -> bool:
        state = self.state()
        if state["Status"] in ("exited", "dead"):
            raise ClusterFailure(f"{self.name} ended before it served")
        return self.started_text in self._log_of_start(state)

    def ended_with(self, text: str) -> bool:
        """Whether the process has ended and has logged this text since its latest start."""
        state = self.state()
        return not state["Running"] and text in self._log_of_start(state)

    def _log_of_start(self, state: dict[str, Any]) -> str:
        return self.log(since=datetime.fromisoformat(state["StartedAt"]).timestamp())

    def state(self) -> dict[str, Any]:
        """The container's `State`, as in docker inspect."""
        self.container.reload()
        return dict(self.container.attrs["State"])

    def is_running(self) -> bool:
        """Whether the process exists, paused or not."""
        return bool(self.state()["Running"])

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone; do nothing if it does not run."""
        if self.is_running():
            self._thaw_disk()
            # The engine thaws a paused process only after the signal is sent, so that the process does nothing more.
            with refusals_ignored():
                self.container.kill(signal="SIGKILL")
            self._await_exit("SIGKILL", timeout=60)

    def stop(self, timeout: float = 60.0) -> None:
        """Send SIGTERM, unpause a paused process, and wait until the controlled shutdown has ended."""
        if self.is_running():
            self._thaw_disk()
            with refusals_ignored():
                self.container.kill(signal="SIGTERM")
            self.unpause()
            self._await_exit("SIGTERM", timeout=timeout)

    def _await_exit(self, signal: str, *, timeout: float) -> None:
        wait_until(lambda: not self.is_running(), f"{self.name} to end after {signal}", timeout=timeout)

    def start(self) -> None:
        """Start the container again, on the same address, host port and data; do nothing if it runs."""
        if not self.is_running():
            if self.disk is not None:
                self.disk.repair()
            if self._successor is None:
                self.container.start()
            else:
                self._start_successor(*self._successor)
            self._attach_link()

    def replace_at_next_start(self, testcontainer: DockerContainer, folders: Sequence[str]) -> None:
        """At the next start, use another container with a copy of these `folders`; this one must be down by now."""
        if self.is_running():
            raise ClusterFailure(f"{self.name} runs: only a container that is down can be replaced")
        self._successor = (testcontainer, folders)

    def _start_successor(self, testcontainer: DockerContainer, folders: Sequence[str]) -> None:
        former, name = self.container, self.container_name
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-node-") as copies:
            for number, folder in enumerate(folders):
                parent, _, folder_name = folder.rpartition("/")
                pieces, _ = former.get_archive(folder)
                with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
                    archive.extractall(Path(copies, str(number)), filter="data")
                testcontainer.with_copy_into_container(Path(copies, str(number), folder_name), parent)
            former.rename(f"{name}-{len(self.former_containers) + 1}")
            self.former_containers.append(former)
            self.testcontainer, self._successor = testcontainer, None
            testcontainer.start()

    def write_file(self, path: str, data: str | bytes) -> None:
        """Write a file of the container, running or not; its folder must exist."""
        folder, _, name = path.rpartition("/")
        archived, content = io.BytesIO(), data.encode() if isinstance(data, str) else data
        with tarfile.open(fileobj=archived, mode="w") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        self.container.put_archive(folder, archived.getvalue())

    def _attach_link(self) -> None:
        """Attach the node's link, if it has one, before any connection: the starting server does not listen yet."""
        if self.link is not None and (pid := self._pid()):
            self.link.attach(pid)

    def pause(self) -> None:
        """Freeze all processes with the cgroup freezer; do nothing if they are paused already."""
        if not self.state()["Paused"]:
            self._thaw_disk()
            engine.freeze(self.container)

    def unpause(self) -> None:
        """Thaw what `pause` froze."""
        if self.state()["Paused"]:
            engine.thaw(self.container)

    def suspend(self) -> None:
        """Send SIGSTOP, unpause a paused process, and wait until it has stopped; other commands still run inside."""
        self._thaw_disk()
        self.container.kill(signal="SIGSTOP")
        self.unpause()
        read_status, awaited = partial(self.must_execute, "cat", "/proc/1/status"), f"{self.name} to be suspended"
        wait_until(lambda: "State:\tT" in read_status(), awaited, timeout=10, interval=0.01)  # T: stopped

    def file_size(self, path: str) -> int | None:
        """The size of a file in bytes; None if there is no such file."""
        return engine.size_inside(self.container, path)

    def _thaw_disk(self) -> None:
        if self.disk is not None:
            self.disk.thaw()

    def execute(self, *command: str, in_network: bool = False) -> tuple[int, str]:
        """Run a command inside the container; returns its exit code and output.

        `in_network`: the command needs only the node's network, so that it can run even if the container is frozen.
        """
        code, output = (engine.execute_in_network if in_network else engine.execute_inside)(self.container, command)
        return code, output.decode(errors="replace")

    def must_execute(self, *command: str, in_network: bool = False) -> str:
        """Run a command like `execute`, and return its output; raises `ClusterFailure` if it fails."""
        code, output = self.execute(*command, in_network=in_network)
        if code != 0:
            raise ClusterFailure(f"{self.name}: `{' '.join(command)}` ended with {code}: {output.strip()}")
        return output

    def log(self, *, tail: int | str = "all", since: float | None = None) -> str:
        """Standard output and error of all starts; with `since`, in seconds since the epoch, only from then on."""
        logs = [bytes(container.logs(tail=tail, since=since)) for container in self._containers]
        return b"".join(logs).decode(errors="replace")

    def log_stream(self, *, since: float | None = None) -> Iterator[bytes]:
        """The log like `log`, but in pieces, since it may be too large for the memory.

        If the server's clock can be moved, the lines have the engine's time instead of the server's.
        """
        for container in self._containers:
            for piece in container.logs(stream=True, follow=False, since=since, timestamps=self.clock is not None):
                yield piece if self.clock is None else with_engine_time(piece)

    @property
    def _containers(self) -> list[Container]:
        return [*self.former_containers, self.container]

    def read_file(self, path: str) -> bytes:
        """The content of a file of the container, running or not."""
        with engine.archived_file(self.container.get_archive(path)[0], f"{self.name}: {path}") as content:
            return content.read()

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        """`length` bytes of a file from `offset` on, or fewer at its end; slow, as the engine sends the whole file."""
        with engine.archived_file(self.container.get_archive(path)[0], f"{self.name}: {path}") as content:
            while offset and (before := content.read(min(offset, _PIECE))):
                offset -= len(before)
            return content.read(length)
