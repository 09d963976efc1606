"""Clients of a lane that come and go: they start amid the load, end, and are followed by others (key `lives`)."""

import time
from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Generic, TypeVar

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.experiment.lives import KILL, LifeSpec
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.consumed import Readers
from kafka_chaos.harness.workload.clients.following import Follower
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.worker import Worker

_NEVER = float("inf")
C = TypeVar("C", LaneProducer, Follower)


class ClientSlot(Generic[C]):
    """A slot for one client at a time. `client` lives there now; `life_began`: when its life began.

    After a fault has killed a client that is a process, no other client follows until that fault is over.
    """

    def __init__(self, number: int, life: LifeSpec) -> None:
        self.number = number
        self.client: C | None = None
        self.life_began = 0.0
        self._life = life
        self._next_start = life.at  # In seconds of the load.
        self._end = _NEVER  # In seconds of the monotonic clock.
        self._process: SupervisedProcess | None = None  # Of the last client that lived here, if it was a process.

    @property
    def is_over(self) -> bool:
        """Whether no client lives in this slot, nor ever will."""
        return self.client is None and self._next_start == _NEVER and not self._is_down

    def begin_life(self, client: C, now: float) -> None:
        """Let a client begin its life in this slot."""
        self.client, self.life_began, self._process = client, now, client.process
        self._next_start, self._end = _NEVER, now + (self._life.lasts or _NEVER)

    @property
    def _is_down(self) -> bool:
        return self._process is not None and self._process.is_down

    def step(
        self, load: LoadSettings, *, start: Callable[[int], C], leave: Callable[[C], None], kill: Callable[[C], None]
    ) -> None:
        """End the client if its life is over, and start the next one if it is due, once the clock of the load runs.

        `start` makes a client for the slot of this number. `leave` and `kill` end a client.
        """
        if load.began is None:
            return
        now = time.monotonic()
        elapsed = now - load.began
        killed_by_fault = self._process is not None and self._process.ended_by_fault
        if self.client is not None and (now >= self._end or killed_by_fault):
            ended, self.client = self.client, None
            pause = _NEVER if self._life.returns is None else self._life.returns
            self._next_start, self._end = elapsed + (0.0 if killed_by_fault else pause), _NEVER
            if killed_by_fault or self._life.ends == KILL:
                load.on_notice(f"{ended.lane}: the {self._life.role} in slot {self.number} is killed")
                kill(ended)
            else:
                leave(ended)
        if self.client is None and elapsed >= self._next_start and not self._is_down:
            self.begin_life(start(self.number), now)


def living_clients(slots: Sequence[ClientSlot[C]]) -> list[C]:
    """The clients that live in these slots now."""
    return [client for slot in slots if (client := slot.client) is not None]


def processes_of(clients: Iterable[LaneProducer | Follower]) -> list[SupervisedProcess]:
    """The processes of these clients; a client that runs in the harness's own process has none."""
    return [client.process for client in clients if client.process is not None]


class FurtherConsumers(Readers):
    """The consumers of a lane that come and go beside the one that stays; a thread starts and ends them.

    `connect(number, slot)` makes a consumer; numbers count from 1. Each consumer reads the topic from its start.
    Consumers that live when `stop` is called live on, to read the topic to its end.
    """

    def __init__(
        self, connect: Callable[[int, int], Follower], lane: LaneSpec, load: LoadSettings, lives: Sequence[LifeSpec]
    ) -> None:
        super().__init__(load, lane)
        self.slots: list[ClientSlot[Follower]] = [
            ClientSlot(number, life) for number, life in enumerate(lives, start=1)
        ]
        self._connect = connect
        self._number = 0
        self._worker: Worker = Worker(self._run, name=f"consumers-{lane.lane}")

    def begin_load(self) -> None:
        """Start consumers from now on, as they are due."""
        if self.slots:
            self._worker.start()

    def stop(self) -> None:
        """Start and end no consumer any more."""
        self._worker.ending.set()

    def living_consumers(self) -> list[Follower]:
        """The consumers that live on after `stop`."""
        self._worker.join()
        self.raise_error()
        return living_clients(self.slots)

    def processes(self) -> list[SupervisedProcess]:
        """The consumers that live and are processes."""
        return processes_of(living_clients(self.slots))

    def close(self) -> None:
        """End the thread, and all consumers that live, at once."""
        self._worker.end()
        for consumer in living_clients(self.slots):
            consumer.close()

    def _run(self) -> None:
        while not self._worker.ending.wait(0.05):
            for slot in self.slots:
                slot.step(self.load, start=self._start, leave=methodcaller("leave"), kill=methodcaller("close"))

    def _start(self, slot: int) -> Follower:
        self._number += 1
        return self._connect(self._number, slot)
