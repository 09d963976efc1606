"""Queues of the kernel in a network namespace of the test's own: what waits, and what a killed process leaves.

They need root. A machine that can't do them skips these tests and says why; `kafka-chaos doctor` says the same.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.namespace import Namespace
from kafka_chaos.faults.network.packets.queues import PacketQueues, try_queue
from kafka_chaos.faults.network.queued import Queued

LACKS = Queued.unavailable()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"queues of packets: {LACKS}")


@pytest.fixture
def pid() -> Iterator[int]:
    """A process with a network namespace of its own."""
    process = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    own = Path("/proc/self/ns/net").readlink()
    wait_until(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own, "a namespace", timeout=5)
    inside(process.pid, "ip", "link", "set", "lo", "up")
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def queues(pid: int) -> Iterator[PacketQueues]:
    made = PacketQueues(lambda: pid)
    yield made
    for name in list(made._served):
        made._served.pop(name).process.close()


def inside(pid: int, *command: str) -> None:
    subprocess.run(["nsenter", f"--target={pid}", "--net", "--", *command], check=True)


def send_to(pid: int, queue: int | None, *which: str) -> None:
    """Let TCP's packets go to the queue."""
    target = ("NFQUEUE", "--queue-num", str(queue), "--queue-bypass")
    inside(pid, "iptables", "-w", "-t", "mangle", "-A", "OUTPUT", "-p", "tcp", *which, "-j", *target)


@contextmanager
def connected(pid: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection inside."""
    namespace = Namespace(pid)
    with namespace.listener() as listener:
        listener.settimeout(10)
        with namespace.connection() as one:
            one.connect_ex(("127.0.0.1", listener.getsockname()[1]))
            other, _ = listener.accept()
            with other:
                for end in (one, other):
                    end.settimeout(20)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                yield one, other
    namespace.close()


def pass_on(one: socket.socket, other: socket.socket, size: int) -> float:
    """Send so many bytes; the seconds until all were there, and none was another."""
    sent, got = os.urandom(size), bytearray()
    begin = time.monotonic()
    sender = threading.Thread(target=one.sendall, args=(sent,))
    sender.start()
    while len(got) < size:
        got += other.recv(1 << 16)
    seconds = time.monotonic() - begin
    sender.join()
    assert bytes(got) == sent
    return seconds


def test_packets_wait_and_what_waits_longer_holds_what_follows(pid: int, queues: PacketQueues) -> None:
    number = queues.serve("slow", seconds=0.1, jitter=0.05)
    assert queues.serve("slow", seconds=0.1, jitter=0.05) == number
    send_to(pid, number)
    with connected(pid) as ends:
        assert pass_on(*ends, 100) >= 0.1
        pass_on(*ends, 300_000)
    tally = queues.tally("slow")
    assert tally is not None
    assert tally["waited"] == tally["packets"] > 4
    assert tally["bytes"] > 300_000
    assert tally["seconds"] / tally["waited"] >= 0.1
    assert tally["overtaken"] == 0


def test_a_rate_is_kept(pid: int, queues: PacketQueues) -> None:
    send_to(pid, queues.serve("narrow", bits_per_second=8_000_000))
    with connected(pid) as ends:
        seconds = pass_on(*ends, 1_000_000)
    # The first large packets do not wait; both ways have the rate for themselves.
    assert seconds >= 0.8


def test_packets_overtake_each_other_and_tcp_mends_it(pid: int, queues: PacketQueues) -> None:
    send_to(pid, queues.serve("mixed", seconds=0.02, percent=30, in_order=False))
    with connected(pid) as ends:
        for _ in range(5):
            pass_on(*ends, 2_000_000)
    tally = queues.tally("mixed")
    assert tally is not None
    assert 0 < tally["overtaken"] <= tally["waited"] < tally["packets"]


def test_what_waits_goes_on_when_the_queue_ends_and_nothing_waits_after_it(pid: int, queues: PacketQueues) -> None:
    with connected(pid) as (one, other):
        send_to(pid, queues.serve("hold", seconds=60.0))
        one.sendall(b"late")
        other.settimeout(0.2)
        with pytest.raises(TimeoutError):
            other.recv(4)
        queues.end("hold")
        queues.end("hold")
        # Whatever still waited would wait for a minute.
        other.settimeout(20)
        assert other.recv(4) == b"late"
        pass_on(one, other, 1000)
    assert queues.tally("hold") is None


def test_a_killed_process_lets_packets_pass_and_is_noticed(pid: int, queues: PacketQueues) -> None:
    with connected(pid) as ends:
        send_to(pid, queues.serve("slow", seconds=0.05))
        pass_on(*ends, 100)
        served = queues._served["slow"].process._process
        os.kill(served.pid, signal.SIGKILL)
        served.wait()
        with pytest.raises(ClusterFailure, match="the process of the packets"):
            queues.tally("slow")
        pass_on(*ends, 100_000)
        with pytest.raises(ClusterFailure, match="had ended with -9: they passed untouched since"):
            queues.end("slow")
        queues.end("slow")


def test_two_queues_do_not_know_each_other(pid: int, queues: PacketQueues) -> None:
    first, second = queues.serve("first", seconds=0.1), queues.serve("second", seconds=0.1)
    assert first != second
    send_to(pid, second)
    with connected(pid) as ends:
        queues.end("first")
        assert pass_on(*ends, 100) >= 0.1


def test_a_container_that_is_down_has_no_queue() -> None:
    assert PacketQueues(lambda: 0).serve("any", seconds=1.0) is None


def test_the_process_ends_with_whoever_started_it(pid: int) -> None:
    script = (
        "import os, signal\n"
        "from kafka_chaos.faults.network.packets.queues import PacketQueues\n"
        f"queues = PacketQueues(lambda: {pid})\n"
        "queues.serve('slow', seconds=1.0)\n"
        "print(queues._served['slow'].process._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    server = Path(f"/proc/{int(told.stdout)}")
    wait_until(lambda: not server.exists(), "the process to end", timeout=10)


def test_doctor_tries_both_ways(pid: int) -> None:
    assert try_queue(pid) is None
