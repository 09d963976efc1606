"""Records the high watermarks that the brokers report during a phase, as `high_watermark` events.

Of transactional lanes, it records the last stable offsets, too, as `last_stable_offset` events.

Guarantee: each broker has its own thread, which sends one request per interval. So a frozen or dead broker does not
delay the reports of others. All threads end with the block.
"""

import threading
from collections.abc import Mapping, Sequence
from functools import partial

from kafka_chaos.contract.events import HighWatermark, LastStableOffset
from kafka_chaos.harness.cluster.broker.answers import NONE
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.run.observing.monitor import Background

_INTERVAL = 0.25
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
        known: dict[tuple[str, int], tuple[int, int]] = {}
        stable: dict[tuple[str, int], int] = {}
        while not self.stop.is_set():
            try:
                with BrokerClient(address, timeout=_ANSWER_TIMEOUT, configs=self._configs) as client:
                    while not self.stop.wait(_INTERVAL):
                        self._ask(broker, client, known)
                        self._ask_for_stable(broker, client, stable)
            except BrokerUnreachable:
                self.stop.wait(_INTERVAL)

    def _ask(self, broker: int, client: BrokerClient, known: dict[tuple[str, int], tuple[int, int]]) -> None:
        for (topic, partition), found in client.high_watermarks(self._partitions).items():
            if known.get((topic, partition)) == found:
                continue
            known[topic, partition] = found
            leader_epoch, high_watermark = found
            self._events.emit(
                HighWatermark(
                    lane=self._lane_of[topic],
                    partition=partition,
                    broker=broker,
                    leader_epoch=leader_epoch,
                    high_watermark=high_watermark,
                )
            )
            with self._lock:
                self.reports += 1

    def _ask_for_stable(self, broker: int, client: BrokerClient, known: dict[tuple[str, int], int]) -> None:
        if not self._transactional:
            return
        for (topic, partition), (error, offset) in client.latest_offsets(self._transactional, committed=True).items():
            if error != NONE or known.get((topic, partition)) == offset:
                continue
            known[topic, partition] = offset
            self._events.emit(
                LastStableOffset(
                    lane=self._lane_of[topic], partition=partition, broker=broker, last_stable_offset=offset
                )
            )
