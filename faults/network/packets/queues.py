"""The queues of one container's packets: a process for each that is served.

Guarantee: a process ends with its queue, and with the harness however it ends; what waits goes on then, and from then
on packets pass untouched. A process that was killed is noticed by whoever asks for its tally, or ends its queue.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.helper import Helper
from kafka_chaos.faults.namespace import Namespace
from kafka_chaos.faults.parts import PacketControl

_PROCESS = "kafka_chaos.faults.network.packets.process"


@dataclass(frozen=True, slots=True)
class _Served:
    pid: int
    queue: int
    process: Helper


class PacketQueues(PacketControl):
    """The queues of a container. `pid` is that of the container's process now, 0: none."""

    def __init__(self, pid: Callable[[], int]) -> None:
        self._pid = pid
        self._served: dict[str, _Served] = {}
        self._lock = threading.Lock()

    def serve(self, name: str, **treatment: Any) -> int | None:
        with self._lock:
            found, pid = self._served.get(name), self._pid()
            if not pid:
                return None
            if found is not None and found.pid == pid:
                return found.queue
            if found is not None:
                found.process.close()
            number = 1 + max((one.queue for one in self._served.values()), default=0)
            process = Helper(_PROCESS, "packets", {})
            try:
                process.ask("serve", pid=pid, queue=number, treatment=treatment)
            except BaseException:
                process.close()
                raise
            self._served[name] = _Served(pid, number, process)
            return number

    def tally(self, name: str) -> Mapping[str, Any] | None:
        with self._lock:
            found = self._served.get(name)
            tally: Mapping[str, Any] | None = None if found is None else found.process.ask("tally")
            return tally

    def end(self, name: str) -> None:
        with self._lock:
            found = self._served.pop(name, None)
            if found is not None and (code := found.process.close()) != 0:
                raise ClusterFailure(f"the process of the packets had ended with {code}: they passed untouched since")


def try_queue(pid: int) -> str | None:
    """Let a packet wait, and send one twice, in a process's network namespace: why that failed, and what to do; None
    where it works. The rules stay."""
    queues, inside = PacketQueues(lambda: pid), Namespace(pid)
    try:
        number = str(queues.serve("trial", seconds=0.01))
        for target in (("NFQUEUE", "--queue-num", number, "--queue-bypass"), ("TEE", "--gateway", "127.0.0.1")):
            inside.run("iptables", "-w", "-t", "mangle", "-I", "OUTPUT", "-p", "tcp", "-j", *target)
        with inside.connection() as made:
            made.connect_ex(("127.0.0.1", 9))
            wait_until(lambda: (queues.tally("trial") or {})["waited"], "a packet to wait in a queue", timeout=5)
    except ClusterFailure as failure:
        told = str(failure).replace(": ", ", ").splitlines()[0]
        return f"{told}: load the kernel's modules iptable_mangle, nfnetlink_queue, xt_NFQUEUE and xt_TEE"
    finally:
        queues.end("trial")
        inside.close()
    return None
