"""One container of a cluster: a broker, a controller or a ZooKeeper server, with what faults and others do to it.

Its data is in the container's own layer, or on a disk of its own: it survives kill and start, and goes with the run. A
disk that is frozen is thawed before its processes are ended or frozen, which would wait for it. It is made whole before
they are started. Where connections pass links, a node that starts gets one in its new network namespace.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.clock.process_clock import Clock, with_engine_time
from kafka_chaos.harness.cluster.containers.cleanup import already_gone
from kafka_chaos.harness.cluster.containers.engine import (
    archived_file,
    execute_in_network,
    execute_inside,
    freeze,
    size_inside,
    thaw,
)

if TYPE_CHECKING:
    from docker.models.containers import Container
    from testcontainers.core.container import DockerContainer

    from kafka_chaos.faults.links.relay.links import NodeLink
    from kafka_chaos.faults.storage.devices.disk import Disk

LOG_LINES_IN_ERRORS = 25
_PIECE = 1 << 20


@dataclass(eq=False)
class Node:
    """A container and its place in the cluster; `started_text` is the log line that says that the server serves."""

    name: str
    role: str
    number: int
    address: str
    host_port: int | None
    started_text: str
    disk: Disk | None = None
    testcontainer: DockerContainer = field(init=False)
    link: NodeLink | None = None
    clock: Clock | None = None
    former: list[Container] = field(default_factory=list)
    """Containers of other versions of Kafka that ran before; they are down, and kept for their logs."""
    _following: tuple[DockerContainer, Sequence[str]] | None = field(default=None, init=False)

    @property
    def inside(self) -> Node:
        """Its container: commands run in it, and its files can be read."""
        return self

    def add_clock(self) -> None:
        """Have a wall clock that can be moved, for which its process was started."""
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
        """Create the container and start its process, without waiting for the server."""
        self.testcontainer.start()
        self._attach_link()

    def await_ready(self, timeout: float = 60.0) -> None:
        """Wait until the server of the latest start serves; raises `ClusterFailure` with status and last log lines."""
        try:
            wait_until(self._is_ready, f"{self.name} to log '{self.started_text}'", timeout=timeout)
        except ClusterFailure as failure:
            state, lines = self.state(), self.log(tail=LOG_LINES_IN_ERRORS).rstrip()
            status = f"{self.name}: status {state['Status']}, exit code {state['ExitCode']}"
            raise ClusterFailure(f"{failure}\n{status}; last lines of its log:\n{lines}") from failure

    def _is_ready(self) -> bool:
        state = self.state()
        if state["Status"] in ("exited", "dead"):
            raise ClusterFailure(f"{self.name} ended while it was waited for")
        return self.started_text in self._log_of_start(state)

    def ended_with(self, text: str) -> bool:
        """Whether the process of the latest start is gone and has logged this text."""
        state = self.state()
        return not state["Running"] and text in self._log_of_start(state)

    def _log_of_start(self, state: dict[str, Any]) -> str:
        return self.log(since=datetime.fromisoformat(state["StartedAt"]).timestamp())

    def state(self) -> dict[str, Any]:
        """The container's state (`State` of docker inspect)."""
        self.container.reload()
        return dict(self.container.attrs["State"])

    def is_running(self) -> bool:
        """Whether the process exists, paused or not."""
        return bool(self.state()["Running"])

    def kill(self) -> None:
        """SIGKILL; nothing where the process is gone already."""
        if self.is_running():
            self._thaw_disk()
            # The engine thaws a frozen process once the signal is on its way: it does nothing more.
            with already_gone():
                self.container.kill(signal="SIGKILL")
            self._await_exit("SIGKILL", timeout=20)

    def stop(self, timeout: float = 60.0) -> None:
        """SIGTERM, which a frozen process meets once it is thawed; then wait for the controlled shutdown to end."""
        if self.is_running():
            self._thaw_disk()
            with already_gone():
                self.container.kill(signal="SIGTERM")
            self.unpause()
            self._await_exit("SIGTERM", timeout=timeout)

    def _await_exit(self, signal: str, *, timeout: float) -> None:
        wait_until(lambda: not self.is_running(), f"{self.name} to end after {signal}", timeout=timeout)

    def start(self) -> None:
        """Start the container again, on the same address, host port and data; nothing where it runs."""
        if not self.is_running():
            if self.disk is not None:
                self.disk.make_whole()
            if self._following is None:
                self.container.start()
            else:
                self._start_following(*self._following)
            self._attach_link()

    def exchange(self, testcontainer: DockerContainer, folders: Sequence[str]) -> None:
        """Let another container take the place of this one, which is down, at the next start, with its `folders`."""
        if self.is_running():
            raise ClusterFailure(f"{self.name} runs: only a container that is down can be exchanged")
        self._following = (testcontainer, folders)

    def _start_following(self, testcontainer: DockerContainer, folders: Sequence[str]) -> None:
        former, name = self.container, self.container_name
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-node-") as place:
            for number, folder in enumerate(folders):
                parent, _, last = folder.rpartition("/")
                pieces, _ = former.get_archive(folder)
                with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
                    archive.extractall(Path(place, str(number)), filter="data")
                testcontainer.with_copy_into_container(Path(place, str(number), last), parent)
            former.rename(f"{name}-{len(self.former) + 1}")
            self.former.append(former)
            self.testcontainer, self._following = testcontainer, None
            testcontainer.start()

    def write_file(self, path: str, data: str | bytes) -> None:
        """A file of the container, running or not; its folder is there already."""
        folder, _, name = path.rpartition("/")
        content, written = io.BytesIO(), data.encode() if isinstance(data, str) else data
        with tarfile.open(fileobj=content, mode="w") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(written)
            archive.addfile(member, io.BytesIO(written))
        self.container.put_archive(folder, content.getvalue())

    def _attach_link(self) -> None:
        """Before the server listens: a Java process takes longer to begin."""
        if self.link is not None and (pid := self._pid()):
            self.link.attach(pid)

    def pause(self) -> None:
        """Freeze all processes (cgroup freezer); nothing where they are frozen already."""
        if not self.state()["Paused"]:
            self._thaw_disk()
            freeze(self.container)

    def unpause(self) -> None:
        """Thaw what `pause` froze."""
        if self.state()["Paused"]:
            thaw(self.container)

    def suspend(self) -> None:
        """SIGSTOP, which a frozen process meets once it is thawed; commands still run inside."""
        self._thaw_disk()
        self.container.kill(signal="SIGSTOP")
        self.unpause()
        wait_until(
            lambda: "State:\tT" in self.must_execute("cat", "/proc/1/status"),
            f"{self.name} to be suspended",
            timeout=10,
            interval=0.01,
        )

    def file_size(self, path: str) -> int | None:
        """A file's size; None where there is no such file."""
        return size_inside(str(self.container.id), path)

    def _thaw_disk(self) -> None:
        if self.disk is not None:
            self.disk.thaw()

    def execute(self, *command: str, in_network: bool = False) -> tuple[int, str]:
        """Run a command inside the container: its exit code, not 0 where it is frozen or down, and its output.

        `in_network`: the command needs no more than the network, and runs where the container is frozen, too.
        """
        if in_network:
            code, output = execute_in_network(self.container, command)
        else:
            code, output = execute_inside(str(self.container.id), command)
        return code, output.decode(errors="replace")

    def must_execute(self, *command: str, in_network: bool = False) -> str:
        """Run a command that has to succeed: its output, or `ClusterFailure` with it."""
        code, output = self.execute(*command, in_network=in_network)
        if code != 0:
            raise ClusterFailure(f"{self.name}: `{' '.join(command)}` ended with {code}: {output.strip()}")
        return output

    def log(self, *, tail: int | str = "all", since: float | None = None) -> str:
        """Standard output and error of all starts so far, or from `since` on, in seconds since the epoch."""
        return b"".join(bytes(one.logs(tail=tail, since=since)) for one in self._containers).decode(errors="replace")

    def log_stream(self, *, since: float | None = None) -> Iterator[bytes]:
        """The whole log, or from `since` on (seconds since the epoch), in pieces: it may be too large to hold.

        Where the server's own clock can be moved, its lines have the engine's time in place of it.
        """
        for one in self._containers:
            for piece in one.logs(stream=True, follow=False, since=since, timestamps=self.clock is not None):
                yield piece if self.clock is None else with_engine_time(piece)

    @property
    def _containers(self) -> list[Container]:
        return [*self.former, self.container]

    def read_file(self, path: str) -> bytes:
        """A file of the container, running or not."""
        with archived_file(self.container.get_archive(path)[0], f"{self.name}: {path}") as content:
            return content.read()

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file of the container, running or not, which the engine sends whole; fewer at its end."""
        with archived_file(self.container.get_archive(path)[0], f"{self.name}: {path}") as content:
            while offset and (before := content.read(min(offset, _PIECE))):
                offset -= len(before)
            return content.read(length)
