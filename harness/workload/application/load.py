"""A user's application under load, instead of the harness's own producer and consumer."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application import handles
from kafka_chaos.harness.workload.application.consumer import ApplicationConsumers
from kafka_chaos.harness.workload.application.producer import ApplicationProducers
from kafka_chaos.harness.workload.clients.producers import NOT_CANCELLED, LaneProducers
from kafka_chaos.harness.workload.groups.group_kinds import reading_group
from kafka_chaos.harness.workload.settings import LoadSettings

_INTERVAL_S = 0.05


class ApplicationMembers(ApplicationConsumers):
    """A function of the application whose consumers read a lane, alone or in groups.

    With a `source`, the function is the loop of the `lane`: its consumers read the source, and `output` has the records
    that it writes, which get their outcomes once the source is read to its end.
    """

    def __init__(
        self, lane: LaneSpec, function: Callable[[Any], object], load: LoadSettings, *, source: LaneSpec | None = None
    ) -> None:
        """Raises `UsageFailure` if the group is to have crashes or the like, which only the harness's members do."""
        self.read_lane = lane if source is None else source
        key, group, group_id = reading_group(lane, self.read_lane)
        for name in ("crashes", "freezes", "joins", "leaves"):
            if group is not None and getattr(group, name):
                raise UsageFailure(
                    f"{key}: the lane {lane.lane} has {name}={getattr(group, name)}, which only the harness's members "
                    "do: leave it out for members of the application"
                )
        super().__init__(self.read_lane, load, group_id=None if group is None else group_id)
        self.output = ApplicationProducers(lane, load, self)
        name = f"the {'consumer' if source is None else 'producer'} function of lane {lane.lane}"
        handle: Any = handles.ConsumerHandle(lane, load, self)
        if source is not None:
            handle = handles.LoopHandle(lane, source, load, self.output)
        self._worker: handles.ApplicationThread = handles.ApplicationThread(function, handle, name=name)

    def begin_load(self) -> None:
        """Call the function."""
        self._worker.start()

    def may_read_more(self) -> bool:
        """Whether the function has not returned yet."""
        return self._worker.is_alive()

    def report_unread(self, problem: str) -> None:
        """Report that the consumers did not reach the end."""
        self._load.on_notice(f"{self._worker.name} {problem}")

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float) -> None:
        """Wait until all is read to the ends, and end the function; then wait until its records have outcomes."""
        super().drain(end_offsets, timeout=timeout)
        self._worker.end()
        self.output.finish(timeout, NOT_CANCELLED)

    def close(self) -> None:
        """End the function."""
        self._worker.end()
        self.output.finish(0.0, NOT_CANCELLED)
        self.leave()


class ProducerFunction(ApplicationProducers, LaneProducers):
    """A lane whose producer is a function of the application."""

    def __init__(
        self, lane: LaneSpec, function: Callable[[handles.ProducerHandle], object], load: LoadSettings
    ) -> None:
        super().__init__(lane, load)
        name = f"the producer function of lane {lane.lane}"
        self._thread = handles.ApplicationThread(function, handles.ProducerHandle(lane, load, self), name=name)

    def run(self, sending: threading.Event) -> None:
        """Call the function and let it work until `sending` is cleared, or the function returns by itself."""
        self._thread.start()
        while sending.is_set() and self._thread.is_alive():
            self._thread.join(_INTERVAL_S)
        self._thread.end()
