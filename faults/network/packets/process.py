"""The process that serves one queue of a container, told what to do on its standard input.

When that ends, every packet that waits goes on, and the process ends.
"""

import select
import time
from dataclasses import asdict
from itertools import islice
from typing import Any

from kafka_chaos.faults.helper import STDIN, Commands
from kafka_chaos.faults.namespace import Namespace
from kafka_chaos.faults.network.packets.kernel_queue import KernelQueue
from kafka_chaos.faults.network.packets.treatment import Treatment, Waiting

_AT_ONCE = 1_000
"""So many packets are taken at most before those go on whose time has come."""


class Server:
    """Serves a queue."""

    def __init__(self) -> None:
        self._queue: KernelQueue | None = None
        self._waiting = Waiting(Treatment())
        self._commands = Commands(self._do)

    def serve(self) -> None:
        """Until standard input ends."""
        is_over = False
        while not is_over:
            left = self._waiting.seconds_left(time.monotonic())
            sources: list[Any] = [STDIN, *([self._queue] if self._queue else [])]
            ready, _, _ = select.select(sources, [], [], left)
            if self._queue is not None:
                self._take(self._queue)
            if STDIN in ready:
                is_over = self._commands.read()
        if self._queue is not None:
            self._queue.let_go(self._waiting.all())

    def _take(self, queue: KernelQueue) -> None:
        now = time.monotonic()
        for packet in islice(queue.read(), _AT_ONCE):
            self._waiting.add(packet, now)
        queue.let_go(self._waiting.due(time.monotonic()))

    def _do(self, what: str, values: dict[str, Any]) -> Any:
        match what:
            case "serve":
                self._waiting = Waiting(Treatment(**values["treatment"]))
                inside = Namespace(values["pid"]).netfilter()
                # Large packets in one piece are fewer; those that are to overtake each other must be as on the wire.
                undivided = self._waiting.treatment.in_order and self._waiting.treatment.bits_per_second is None
                self._queue = KernelQueue(inside, values["queue"], undivided=undivided)
            case "tally":
                return asdict(self._waiting.tally)
            case _:
                raise ValueError(f"{what!r} is no command")
        return None


if __name__ == "__main__":
    Server().serve()
