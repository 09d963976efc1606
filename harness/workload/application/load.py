"""A user's application under load, instead of the harness's own producer and consumer."""

import threading
from collections.abc import Callable, Mapping

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.groups import group_of, loop_group_of
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application.consumer import ApplicationConsumers
from kafka_chaos.harness.workload.application.handles import (
    ApplicationThread,
    ConsumerHandle,
    LoopHandle,
    ProducerHandle,
)
from kafka_chaos.harness.workload.application.producer import ApplicationProducers
from kafka_chaos.harness.workload.clients.producers import Producing
from kafka_chaos.harness.workload.groups.group_kinds import committed_by
from kafka_chaos.harness.workload.settings import LoadSettings

_INTERVAL = 0.05


class ApplicationMembers(ApplicationConsumers):
    """The consumers that a function of the application runs to read the lane `read`, alone or in groups."""

    _thread: ApplicationThread

    def __init__(self, lane: LaneSpec, read: LaneSpec, load: LoadSettings, *, what: str, has_groups: bool) -> None:
        """`lane`: the lane `read` itself, or that of the loop that reads it. `what` names the function.

        `has_groups`: see `ApplicationConsumers`. Raises `UsageFailure` for what only the harness's own members can do,
        such as to crash as planned.
        """
        loop = lane.loop if read.lane != lane.lane else None
        key, group, group_of_lane = (
            ("group", lane.group, group_of) if loop is None else ("loop", loop.group, loop_group_of)
        )
        for name in ("crashes", "freezes", "joins", "leaves"):
            if group is not None and getattr(group, name):
                raise UsageFailure(
                    f"{key}: the lane {lane.lane} has {name}={getattr(group, name)}, which the harness does to its own "
                    "members only: leave it out where the application brings its own"
                )
        super().__init__(read, load, has_groups=has_groups)
        self.reads = read.lane
        """The name of the lane that the consumers read."""
        self._read = read
        self._what = what
        self._group_id = None if group is None else group_of_lane(lane.lane)

    def starts(self) -> None:
        """Do nothing: the harness plans no joins, leaves or crashes for an application."""

    def raise_error(self) -> None:
        """Raise what the function raised."""
        self._thread.raise_error()

    def goes_on(self) -> bool:
        """Whether the function has not returned."""
        return self._thread.is_alive()

    def falls_short(self, problem: str) -> None:
        """Report the problem."""
        self._load.on_notice(f"{self._what} {problem}")

    def drain(self, ends: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait for the end as other readers do; then end the function."""
        super().drain(ends, timeout=timeout, cancelled=cancelled)
        self._thread.end()

    def committed(self) -> dict[str, dict[int, int]]:
        """The committed offsets of its clients' groups, by group and partition; raises `ClusterFailure`."""
        if self._group_id is None:
            return {}
        groups = self.group_ids or {self._group_id}
        return {group: committed_by(group, self._read, self._load) for group in groups}

    def close(self) -> None:
        """End the function."""
        self._thread.end()
        self.leave()


class ApplicationConsuming(ApplicationMembers):
    """A lane whose consumer is a function of the application."""

    def __init__(
        self,
        lane: LaneSpec,
        function: Callable[[ConsumerHandle], object],
        load: LoadSettings,
        *,
        has_groups: bool = False,
    ) -> None:
        what = f"the consumer function of lane {lane.lane}"
        super().__init__(lane, lane, load, what=what, has_groups=has_groups)
        self._thread = ApplicationThread(function, ConsumerHandle(lane, load, self), what=what)
        self._thread.start()


class ApplicationProducing(ApplicationProducers, Producing):
    """A lane whose producer is a function of the application."""

    def __init__(self, lane: LaneSpec, function: Callable[[ProducerHandle], object], load: LoadSettings) -> None:
        super().__init__(lane, load)
        what = f"the producer function of lane {lane.lane}"
        self._thread = ApplicationThread(function, ProducerHandle(lane, load, self), what=what)

    def run(self, sending: threading.Event) -> None:
        """Call the function and let it work until `sending` is cleared, or it returns by itself."""
        self._thread.start()
        while sending.is_set() and not self._thread.join(_INTERVAL):
            pass
        self._thread.end()


class ApplicationLooping(ApplicationMembers):
    """A lane whose loop is a function of the application, which reads its source to the end; `output`: what it writes.

    Records get their outcomes once the source is read to its end.
    """

    def __init__(
        self, lane: LaneSpec, source: LaneSpec, function: Callable[[LoopHandle], object], load: LoadSettings
    ) -> None:
        what = f"the producer function of lane {lane.lane}"
        super().__init__(lane, source, load, what=what, has_groups=True)
        self.output = ApplicationProducers(lane, load, self)
        self._thread = ApplicationThread(function, LoopHandle(lane, source, load, self.output), what=what)

    def starts(self) -> None:
        """Call the function."""
        self._thread.start()

    def drain(self, ends: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait for the end of the source and end the function; then wait until every record has an outcome."""
        super().drain(ends, timeout=timeout, cancelled=cancelled)
        self.output.finish(timeout, cancelled)

    def close(self) -> None:
        """End the function."""
        self._thread.end()
        self.output.finish(0.0, threading.Event())
        self.leave()
