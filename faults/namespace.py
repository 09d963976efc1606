"""Sockets and commands inside the network namespace of a container, from a process outside of it.

A socket stays in the namespace in which it was made, so one thread can serve sockets in many of them. Needs root.
"""

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_chaos.contract.command.errors import ClusterFailure

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_LIBC = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """The network namespace of a process. Its sockets work until they are closed, even if the process ends."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self._inside = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ClusterFailure(f"the network namespace of process {pid} can't be used: {error}") from error

    def listener(self) -> socket.socket:
        """A listening socket inside the namespace, on a free port of all its addresses."""
        with self._entered():
            listener = socket.socket()
        listener.bind(("0.0.0.0", 0))
        listener.listen(1024)
        listener.setblocking(False)
        return listener

    def connection(self, *, mark: int = 0) -> socket.socket:
        """A non-blocking TCP socket inside the namespace, not yet connected; its packets carry `mark` (SO_MARK)."""
        with self._entered():
            connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        return connection

    def run(self, *command: str, text: str = "") -> None:
        """Run a program from the container's file system in its namespace, with `text` as input.

        Raises `ClusterFailure` if the program fails.
        """
        entered = ["nsenter", f"--target={self._pid}", "--mount", "--net", "--", *command]
        finished = subprocess.run(entered, input=text, capture_output=True, text=True, timeout=10.0, check=False)
        if finished.returncode != 0:
            raise ClusterFailure(f"`{' '.join(command)}` ended with {finished.returncode}: {finished.stderr.strip()}")

    def close(self) -> None:
        """Close the namespace for new sockets; sockets made before keep working."""
        os.close(self._inside)
        os.close(self._own)

    def exists(self) -> bool:
        """Whether the process, and with it the namespace, still exists."""
        return Path(f"/proc/{self._pid}/ns/net").exists()

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Move this thread into the namespace, and back when the block ends."""
        _enter(self._inside)
        try:
            yield
        finally:
            _enter(self._own)


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
