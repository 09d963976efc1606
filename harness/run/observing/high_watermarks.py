"""Records the high watermarks that the brokers report during a phase, as `high_watermark` events.

Of transactional lanes, it records the last stable offsets, too, as `last_stable_offset` events.

Guarantee: each broker has its own thread, which sends one request per interval. So a frozen or dead broker does not
delay the reports of others. All threads end with the block.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kafka_chaos.contract.events import HighWatermark, LastStableOffset
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.run.observing.monitor import Background

_INTERVAL = 0.25
Kind = type[HighWatermark] | type[LastStableOffset]
_ANSWER_TIMEOUT = 1.0


class HighWatermarkRecorder(Background):
    """Asks every broker for the high watermarks of those partitions of `lanes` that it leads.

    `brokers` maps broker ids to client addresses; `configs` are those of `BrokerClient`. An unchanged answer is not
    reported again. `reports` counts the events.
    """

    def __init__(
        self,
        brokers: Mapping[int, str],
        lanes: Sequence[LaneSpec],
        events: EventBus,
        *,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.reports = 0
        self._configs = configs
        self._lane_of = {lane.topic_name: lane.lane for lane in lanes}
        self._partitions = {lane.topic_name: range(lane.partitions) for lane in lanes}
        self._transactional = {
            lane.topic_name: range(lane.partitions) for lane in lanes if lane.transactional is not None
        }
        self._events = events
        self._lock = threading.Lock()
        super().__init__(
            {f"high-watermarks-{broker}": partial(self._follow, broker, at) for broker, at in brokers.items()}
        )

    def _follow(self, broker: int, address: str) -> None:
        known: dict[tuple[object, ...], Mapping[str, int]] = {}
        while not self.stop.is_set():
            try:
                with BrokerClient(address, timeout=_ANSWER_TIMEOUT, configs=self._configs) as client:
                    while not self.stop.wait(_INTERVAL):
                        for kind, (topic, partition), told in self._answers(client):
                            if known.get((kind, topic, partition)) != told:
                                known[kind, topic, partition] = told
                                lane = self._lane_of[topic]
                                self._events.emit(kind(lane=lane, partition=partition, broker=broker, **told))
                                with self._lock:
                                    self.reports += kind is HighWatermark
            except BrokerUnreachable:
                self.stop.wait(_INTERVAL)

    def _answers(self, client: BrokerClient) -> Iterator[tuple[Kind, tuple[str, int], dict[str, Any]]]:
        """The kind of event, the topic's partition, and what the broker says of it."""
        for place, (epoch, mark) in client.high_watermarks(self._partitions).items():
            yield HighWatermark, place, {"leader_epoch": epoch, "high_watermark": mark}
        if self._transactional:
            for place, (error, offset) in client.latest_offsets(self._transactional, committed=True).items():
                if error == NONE:
                    yield LastStableOffset, place, {"last_stable_offset": offset}
