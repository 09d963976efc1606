"""Watches leaders, ISRs and the controller as clients see them, and the load's counts, and emits events."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

from kafka_chaos.contract.events import ControllerChanged, IsrChanged, LeaderChanged, Progress
from kafka_chaos.harness.cluster.admin import ClusterAdmin, PartitionState
from kafka_chaos.harness.event_bus import EventBus

_INTERVAL = 0.25


class Background:
    """Threads that work while a block lasts: each by its name, until `stop` is set at the block's end."""

    def __init__(self, work: Mapping[str, Callable[[], None]]) -> None:
        self.stop = threading.Event()
        self._threads = [threading.Thread(target=one, name=name, daemon=True) for name, one in work.items()]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()


class Monitor(Background):
    """The monitor's threads; `controller` returns the controller's id, None if nobody knows it."""

    def __init__(
        self,
        admin: ClusterAdmin,
        topics: Sequence[str],
        events: EventBus,
        counts: Callable[[], Mapping[str, tuple[int, int, int]]],
        *,
        controller: Callable[[], int | None],
    ) -> None:
        self._admin = admin
        self._topics = topics
        self._events = events
        self._counts = counts
        self._known: dict[tuple[str, int], PartitionState] = {}
        self._controller: int | None = None
        self._ask_controller = controller
        # The controller has a thread of its own: in KRaft mode a frozen one delays the answer by seconds.
        looks = {"monitor": self._look, "monitor-controller": self._look_at_controller}
        super().__init__({name: partial(self._repeat, look) for name, look in looks.items()})

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._look()
        self._look_at_controller()

    def _repeat(self, look: Callable[[], None]) -> None:
        while not self.stop.wait(_INTERVAL):
            look()

    def _look(self) -> None:
        self._events.emit(Progress(counts=dict(self._counts())))
        for topic in self._topics:
            for partition, state in self._admin.partitions(topic).items():
                self._compare(topic, partition, state)

    def _look_at_controller(self) -> None:
        controller = self._ask_controller()
        if controller is not None and controller != self._controller:
            self._events.emit(ControllerChanged(before=self._controller, controller=controller))
            self._controller = controller

    def _compare(self, topic: str, partition: int, state: PartitionState) -> None:
        before = self._known.get((topic, partition), PartitionState(None, (), ()))
        self._known[topic, partition] = state
        if state.leader != before.leader:
            self._events.emit(LeaderChanged(lane=topic, partition=partition, before=before.leader, leader=state.leader))
        if set(state.isr) != set(before.isr):
            self._events.emit(IsrChanged(lane=topic, partition=partition, before=before.isr, isr=state.isr))
