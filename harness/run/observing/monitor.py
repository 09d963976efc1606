"""Watches a run during its load. Each class here runs threads of its own for a `with` block, and emits what they see.

- `Monitor`: leaders, ISRs and the controller as clients see them, and the load's counts.
- `HighWatermarkRecorder`: the high watermarks that brokers report, and the last stable offsets of transactional lanes.
  A thread per broker sends one request per interval, so that a frozen broker does not delay the reports of others.
- `PauseWatch`: the pauses of the harness while the machine did other work. The pause reported for a second is the
  longest wait of a harness thread for a processor (`/proc/self/task/*/schedstat`, Linux) or, if that is longer, the
  delay of the watch. No client's recovery was delayed by more than this: a recovery runs in one thread at a time.
  (A ratio, waiting / (waiting + running), would exaggerate: it is 0.9 for a wait of 0.25 s and a run of 0.03 s.)
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from kafka_chaos.contract import events as event_types
from kafka_chaos.harness.cluster.admin import ClusterAdmin, PartitionState
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, BrokerUnreachable
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec

_INTERVAL, _PAUSE_INTERVAL = 0.25, 1.0  # Seconds between two looks, and between two measurements of pauses.
_SHORTEST_PAUSE = 0.1  # Seconds; shorter pauses are not reported.
_ANSWER_TIMEOUT = 1.0  # Seconds that a broker has for an answer.
_TASKS = Path("/proc/self/task")
_EventKind = type[event_types.HighWatermark] | type[event_types.LastStableOffset]


class Background:
    """Runs functions in threads while a block lasts. `work`: the functions by the name of their thread; they return
    soon after `stop` is set, at the block's end."""

    def __init__(self, work: Mapping[str, Callable[[], None]]) -> None:
        self.stop = threading.Event()
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for name, run in work.items()]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()


class Monitor(Background):
    """Emits the changes of leaders, ISRs and the controller, and the load's counts.

    `counts` returns by lane how many records were sent, acknowledged and consumed; `controller` returns the
    controller's id, or None if nobody knows it.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        lanes: Sequence[str],
        events: EventBus,
        counts: Callable[[], Mapping[str, tuple[int, int, int]]],
        *,
        controller: Callable[[], int | None],
    ) -> None:
        self._admin = admin
        self._lanes = lanes
        self._events = events
        self._counts = counts
        self._states: dict[tuple[str, int], PartitionState] = {}
        self._last_controller: int | None = None
        self._find_controller = controller
        # A thread of its own asks for the controller: in KRaft mode, a frozen controller delays the answer by seconds.
        looks = {"monitor": self._look, "monitor-controller": self._look_at_controller}
        super().__init__({name: partial(self._repeat, look) for name, look in looks.items()})

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        # The threads have ended, and something may have changed after their last look.
        self._look()
        self._look_at_controller()

    def _repeat(self, look: Callable[[], None]) -> None:
        while not self.stop.wait(_INTERVAL):
            look()

    def _look(self) -> None:
        self._events.emit(event_types.Progress(counts=dict(self._counts())))
        for lane in self._lanes:
            for partition, state in self._admin.partitions(lane).items():
                self._compare(lane, partition, state)

    def _look_at_controller(self) -> None:
        controller = self._find_controller()
        if controller is not None and controller != self._last_controller:
            self._events.emit(event_types.ControllerChanged(before=self._last_controller, controller=controller))
            self._last_controller = controller

    def _compare(self, lane: str, partition: int, state: PartitionState) -> None:
        before = self._states.get((lane, partition), PartitionState(None, (), ()))
        self._states[lane, partition] = state
        if state.leader != before.leader:
            self._events.emit(
                event_types.LeaderChanged(lane=lane, partition=partition, before=before.leader, leader=state.leader)
            )
        if set(state.isr) != set(before.isr):
            self._events.emit(event_types.IsrChanged(lane=lane, partition=partition, before=before.isr, isr=state.isr))


class PauseWatch(Background):
    """Emits, second by second, how long the harness waited for a processor."""

    def __init__(self, events: EventBus) -> None:
        self._events = events
        super().__init__({"pauses": self._watch})

    def _watch(self) -> None:
        before, waited_before = time.monotonic(), seconds_waited()
        while not self.stop.wait(_PAUSE_INTERVAL):
            now, waited_now = time.monotonic(), seconds_waited()
            threads = waited_now.keys() & waited_before.keys()
            longest = max((waited_now[thread] - waited_before[thread] for thread in threads), default=0.0)
            lost = max(now - before - _PAUSE_INTERVAL, longest)
            if lost >= _SHORTEST_PAUSE:
                self._events.emit(event_types.HarnessPaused(seconds=round(min(lost, now - before), 3)))
            before, waited_before = now, waited_now


def seconds_waited() -> dict[str, float]:
    """The seconds for which each thread of this process had work and waited for a processor, by thread id."""
    seconds = {}
    for task in _TASKS.glob("*/schedstat"):
        # A thread may end meanwhile; a kernel may not have the file.
        with suppress(OSError, ValueError):
            seconds[task.parent.name] = int(task.read_text().split()[1]) / 1e9
    return seconds


class HighWatermarkRecorder(Background):
    """Asks every broker for the high watermarks of the partitions of `lanes` that the broker leads.

    For transactional lanes, it asks for the last stable offsets, too. An unchanged answer is not reported again.
    `addresses`: the brokers' client addresses by id. `configs`: librdkafka's keys for TLS and SASL. `reports`: the
    number of `high_watermark` events so far.
    """

    def __init__(
        self,
        addresses: Mapping[int, str],
        lanes: Sequence[LaneSpec],
        events: EventBus,
        *,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.reports = 0
        self._configs = configs
        self._lane_of = {lane.topic_name: lane.lane for lane in lanes}
        self._partitions = {lane.topic_name: range(lane.partitions) for lane in lanes}
        self._transactional = {lane.topic_name: range(lane.partitions) for lane in lanes if lane.transactional}
        self._events = events
        self._lock = threading.Lock()
        super().__init__(
            {f"high-watermarks-{id}": partial(self._follow, id, address) for id, address in addresses.items()}
        )

    def _follow(self, broker: int, address: str) -> None:
        reported: dict[tuple[object, ...], Mapping[str, int]] = {}
        while not self.stop.is_set():
            try:
                with BrokerClient(address, timeout=_ANSWER_TIMEOUT, configs=self._configs) as client:
                    while not self.stop.wait(_INTERVAL):
                        for kind, (topic, partition), answer in self._answers(client):
                            if reported.get((kind, topic, partition)) != answer:
                                reported[kind, topic, partition] = answer
                                lane = self._lane_of[topic]
                                self._events.emit(kind(lane=lane, partition=partition, broker=broker, **answer))
                                if kind is event_types.HighWatermark:
                                    with self._lock:  # All brokers' threads add to it.
                                        self.reports += 1
            except BrokerUnreachable:
                self.stop.wait(_INTERVAL)

    def _answers(self, client: BrokerClient) -> Iterator[tuple[_EventKind, tuple[str, int], dict[str, Any]]]:
        """The broker's answers: the kind of event, topic and partition, and the event's fields that the answer has."""
        for place, (epoch, offset) in client.high_watermarks(self._partitions).items():
            yield event_types.HighWatermark, place, {"leader_epoch": epoch, "high_watermark": offset}
        if self._transactional:
            for place, (error, offset) in client.latest_offsets(self._transactional, committed=True).items():
                if error == NONE:  # Other errors: another broker leads the partition.
                    yield event_types.LastStableOffset, place, {"last_stable_offset": offset}
