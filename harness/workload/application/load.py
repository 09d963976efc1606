"""A user's application under load, instead of the harness's own producer and consumer."""

import threading
from collections.abc import Callable, Mapping
from typing import cast

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.groups import Group, group_of, loop_group_of
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application.consumer import ConsumerRecorder
from kafka_chaos.harness.workload.application.handles import (
    ApplicationThread,
    ConsumerHandle,
    LoopHandle,
    ProducerHandle,
)
from kafka_chaos.harness.workload.application.producer import ProducerRecorder
from kafka_chaos.harness.workload.clients.producers import Producing
from kafka_chaos.harness.workload.groups.work import committed_by
from kafka_chaos.harness.workload.settings import LoadSettings

_INTERVAL = 0.05


class ApplicationMembers:
    """The consumers that a function of the application runs on the lane `read`, with their group if they have one."""

    _thread: ApplicationThread

    def __init__(self, read: LaneSpec, load: LoadSettings, *, what: str, group_id: str, has_groups: bool):
        """`what` names the function; `has_groups`: whether assignments and commits are recorded, too."""
        self.reads = read.lane
        """The name of the lane that they read."""
        self._read = read
        self._load = load
        self._what = what
        self._group_id = group_id
        self._inputs = ConsumerRecorder(read, load.tables, has_groups=has_groups, calls=load.calls)

    def starts(self) -> None:
        """The load has begun. The harness plans no joins, leaves or crashes for an application."""

    def raise_error(self) -> None:
        """Raise what the function raised."""
        self._thread.raise_error()

    def drain(self, ends: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until the function has read to these ends, at most `timeout` seconds; then it is over."""
        goes_on = self._thread.is_alive
        if problem := self._inputs.short_of(ends, timeout=timeout, cancelled=cancelled, goes_on=goes_on):
            self._load.on_notice(f"{self._what} {problem}")
        self._thread.end()

    def leave(self) -> None:
        """The function has returned: its clients have left their groups by now, or never will."""
        self._inputs.finish()

    def committed(self) -> dict[str, dict[int, int]]:
        """The committed offsets of its clients' groups, by group and partition; raises `ClusterFailure`."""
        groups = self._inputs.group_ids or {self._group_id}
        return {group: committed_by(group, self._read, self._load) for group in groups}

    def close(self) -> None:
        """End the function."""
        self._thread.end()
        self._inputs.finish()


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
        if lane.group is not None:
            _refuse_planned_changes(lane.lane, "group", lane.group)
        what = f"the consumer function of lane {lane.lane}"
        super().__init__(lane, load, what=what, group_id=group_of(lane.lane), has_groups=has_groups)
        handle = ConsumerHandle(lane, load, self._inputs)
        self._thread = ApplicationThread(lambda: function(handle), what=what, over=handle.over)
        self._thread.start()

    @property
    def consumed(self) -> int:
        """Records that the function's consumers received so far."""
        return self._inputs.consumed

    def committed(self) -> dict[str, dict[int, int]]:
        """The committed offsets by group and partition, if the lane has a group."""
        return {} if self._read.group is None else super().committed()


class ApplicationProducing(ProducerRecorder, Producing):
    """A lane whose producer is a function of the application."""

    def __init__(
        self,
        lane: LaneSpec,
        function: Callable[[ProducerHandle], object],
        load: LoadSettings,
        *,
        inputs: ConsumerRecorder | None = None,
    ) -> None:
        """`inputs`: see `ProducerRecorder`."""
        super().__init__(lane, load, inputs)
        handle = self._handle(lane, load)
        what = f"the producer function of lane {lane.lane}"
        self._thread = ApplicationThread(lambda: function(handle), what=what, over=handle.over)

    def _handle(self, lane: LaneSpec, load: LoadSettings) -> ProducerHandle:
        return ProducerHandle(lane, load, self)

    def run(self, sending: threading.Event) -> None:
        """Call the function and let it work until `sending` is cleared, or it returns by itself."""
        self._thread.start()
        while sending.is_set() and not self._thread.join(_INTERVAL):
            pass
        self._thread.end()


class ApplicationLooping(ApplicationMembers, ApplicationProducing):
    """A lane whose loop is a function of the application. The function reads its source to the end."""

    def __init__(
        self, lane: LaneSpec, source: LaneSpec, function: Callable[[LoopHandle], object], load: LoadSettings
    ) -> None:
        loop = lane.loop
        assert loop is not None
        _refuse_planned_changes(lane.lane, "loop", loop.group)
        what, group_id = f"the producer function of lane {lane.lane}", loop_group_of(lane.lane)
        ApplicationMembers.__init__(self, source, load, what=what, group_id=group_id, has_groups=True)
        any_function = cast("Callable[[ProducerHandle], object]", function)  # `_handle` gives it a LoopHandle.
        ApplicationProducing.__init__(self, lane, any_function, load, inputs=self._inputs)

    def _handle(self, lane: LaneSpec, load: LoadSettings) -> ProducerHandle:
        return LoopHandle(lane, self._read, load, self)

    def run(self, sending: threading.Event) -> None:
        """Call the function, and wait until `sending` is cleared."""
        self._thread.start()
        while sending.is_set() and not self._thread.join(_INTERVAL):
            pass

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Nothing to wait for yet: the function still has to process what its source holds."""
        return 0

    def drain(self, ends: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until the function has read its source to these ends, then until every record has an outcome."""
        super().drain(ends, timeout=timeout, cancelled=cancelled)
        super().finish(timeout, cancelled)

    def close(self) -> None:
        """End the function."""
        self._thread.end()
        super().finish(0.0, threading.Event())
        self._inputs.finish()


def _refuse_planned_changes(lane: str, key: str, group: Group) -> None:
    for name in ("crashes", "freezes", "joins", "leaves"):
        if getattr(group, name):
            raise UsageFailure(
                f"{key}: the lane {lane} has {name}={getattr(group, name)}, which the harness does to its own members "
                "only: leave it out where the application brings its own"
            )
