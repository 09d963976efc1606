"""The load of a phase: all its lanes, each with clients of its own."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from kafka_chaos.contract.command.errors import ClusterFailure, WaitTimeout
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import Event
from kafka_chaos.contract.run_directory import GROUPS_FILE
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application.handles import Application
from kafka_chaos.harness.workload.calls import Calls
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.groups.group_kinds import ShareGroup, offsets_committed_by
from kafka_chaos.harness.workload.lane_load import Counts, LaneClients, LaneLoad, Members
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.worker import Worker

_FIRST_READ_TIMEOUT_S = 15.0


class PhaseLoad:
    """All lanes of a phase under load, as a context manager that leaves no thread behind.

    `applications`: by lane, the functions that replace its clients. `create` asks for the topic of a lane that has
    `created_at` (seconds of load), and returns whether the topic exists; then the lane joins `lanes`.
    """

    def __init__(
        self,
        lanes: Sequence[LaneSpec],
        *,
        run_directory: Path,
        applications: Mapping[str, Application] | None = None,
        create: Callable[[LaneSpec], bool] = lambda _: True,
        emit: Callable[[Event], None] = lambda event: None,
        **settings: Any,
    ) -> None:
        """`settings`: further fields of `LoadSettings`."""
        self._groups_file = run_directory / GROUPS_FILE
        tables = LoadTables(run_directory, lanes)
        self._settings = LoadSettings(tables=tables, calls=Calls(emit), emit=emit, **settings)
        by_name = {lane.lane: lane for lane in lanes}

        def new_load(lane: LaneSpec) -> LaneLoad:
            application = (applications or {}).get(lane.lane, Application())
            source = None if lane.loop is None else by_name[lane.loop.source]
            return LaneLoad(LaneClients(lane, self._settings, application=application, source=source))

        self.lanes: Mapping[str, LaneLoad] = {lane.lane: new_load(lane) for lane in lanes if lane.created_at is None}
        self._create, self._new_load = create, new_load
        self._late_lanes = sorted((lane.created_at, lane.lane, lane) for lane in lanes if lane.created_at is not None)
        self.span_ns: tuple[int, int] | None = None
        """Begin and end of the load, in ns of the monotonic clock; None until the load has ended."""
        self._creation = Worker(self._create_late_lanes, name="creation-of-topics")

    def __enter__(self) -> Self:
        self._settings.calls.start()
        try:
            # Loops last: they read the topics of the other lanes.
            for lane in sorted(self.lanes.values(), key=lambda lane: lane.loop is not None):
                self._start(lane)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, lane: LaneLoad) -> None:
        """Start a lane, and wait up to three seconds for its first acknowledgement.

        If many lanes started at once, their clients would take the processors from the brokers that are to answer: the
        threads of an idempotent librdkafka never rest while brokers answer slowly.
        """
        lane.start()
        with suppress(WaitTimeout):
            condition = f"lane {lane.lane.lane} to have a record acknowledged"
            wait_until(lambda: lane.counts.acknowledged or lane.has_failed, condition, timeout=3.0)

    def _create_late_lanes(self) -> None:
        """Create the topics of late lanes, asking again until they exist, and start the load of each lane."""
        for at, name, lane in self._late_lanes:
            began = self._settings.began or time.monotonic()
            if self._creation.ending.wait(max(0.0, began + at - time.monotonic())):
                raise WaitTimeout(f"the load ended before the topic of lane {name} was to be created")
            create, condition = partial(self._create, lane), f"the topic of lane {name} to be created"
            wait_until(create, condition, timeout=float("inf"), interval=1.0, cancelled=self._creation.ending)
            load = self._new_load(lane)
            self.lanes = {**self.lanes, name: load}
            load.start()

    def __exit__(self, *_: object) -> None:
        self._creation.ending.set()
        for lane in self.lanes.values():
            lane.cancel()
        self._creation.join()
        # An error of an application's function must not keep the rest from being closed.
        with ExitStack() as stack:
            stack.callback(self._settings.tables.close)
            stack.callback(self._settings.calls.close)
            for lane in self.lanes.values():
                stack.callback(lane.close)

    def clients(self, lane: str, role: str) -> Sequence[SupervisedProcess]:
        """The lane's clients in `role` that are processes, for faults to hit; none before the lane has begun."""
        return self.lanes[lane].processes(role) if lane in self.lanes else ()

    def start_again(self, clients: Sequence[Any]) -> None:
        """Start a new process for each of these clients that a fault has killed."""
        for client in clients:
            client.start()

    @property
    def counts(self) -> Mapping[str, Counts]:
        """The counts of each lane by its name."""
        return {name: lane.counts for name, lane in self.lanes.items()}

    def await_first_acknowledgements(self, *, timeout: float) -> None:
        """Wait until every lane has an acknowledged record and a consumed record; then the phase's clock begins.

        Raises `WaitTimeout` if a lane has no acknowledgement after `timeout` seconds, unless its producers are
        processes: then they count as failed, and the run goes on. A consumer that reads nothing is only reported, after
        15 s: the verdict on its lane will be `unknown`.
        """
        find_silent = partial(self._lanes_without, "acknowledged")
        condition, seen = "every lane to have a record acknowledged", lambda: f"none yet in {', '.join(find_silent())}"
        try:
            wait_until(lambda: not find_silent(), condition, timeout=timeout, seen=seen)
        except WaitTimeout:
            have_processes = [self.lanes[name].report_silence(timeout) for name in find_silent()]
            if not all(have_processes):
                raise
        find_unread = partial(self._lanes_without, "consumed")
        try:
            wait_until(lambda: not find_unread(), "every lane to have a record consumed", timeout=_FIRST_READ_TIMEOUT_S)
        except WaitTimeout:
            for name in find_unread():
                self._settings.on_notice(
                    f"the consumer of lane {name} read nothing within {_FIRST_READ_TIMEOUT_S:g} s "
                    "of the first acknowledgements"
                )
        self._settings.began = time.monotonic()
        self._creation.start()

    def _lanes_without(self, count: str) -> list[str]:
        """The lanes whose `count` is 0, without failed ones. Raises what the thread of any lane raised."""
        for lane in self.lanes.values():
            lane.raise_error()
        return [name for name, lane in self.lanes.items() if not getattr(lane.counts, count) and not lane.has_failed]

    def stop(self) -> None:
        """Stop sending, and wait until every record has an outcome."""
        if self._settings.began is not None:
            self.span_ns = (round(self._settings.began * 1e9), time.monotonic_ns())
        # A topic that is due may have to wait until the last fault has ended.
        self._creation.join(self._settings.workload.settle_timeout)
        self._creation.end()
        self._creation.raise_error()
        for lane in self.lanes.values():
            lane.stop_sending()
        for lane in self.lanes.values():
            lane.await_outcomes()

    def end_loops(self, end_offsets: Mapping[str, Mapping[int, int]], *, timeout: float) -> None:
        """Let every loop read its source to the end offsets, at most `timeout` seconds in all; then end the loops."""
        deadline = time.monotonic() + timeout
        loops = [lane.loop for lane in self.lanes.values() if lane.loop is not None]
        for members in loops:
            remaining = max(0.0, deadline - time.monotonic())
            members.drain(end_offsets[members.read_lane.lane], timeout=remaining)
        self._end_groups(loops)

    def drain(
        self,
        end_offsets: Mapping[str, Mapping[int, int]],
        *,
        timeout: float,
        patience: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Let every consumer read up to its lane's end offsets, at most `timeout` seconds in all; then end the groups.

        `patience`: by lane, a longer time-out in seconds for its consumers.
        """
        began = time.monotonic()
        for name, lane in self.lanes.items():
            deadline = began + max(timeout, patience.get(name, 0.0))
            for reader in (*lane.readers(), lane.group):
                if reader is not None:
                    remaining = max(0.0, deadline - time.monotonic())
                    reader.drain(end_offsets[name], timeout=remaining)
        self._end_groups([lane.group for lane in self.lanes.values() if lane.group is not None])

    def _end_groups(self, groups: Sequence[Members]) -> None:
        """Let the members of these groups leave, and add the groups' committed offsets to the run directory."""
        for members in groups:
            members.leave()
        document = json.loads(self._groups_file.read_text()) if self._groups_file.exists() else {"groups": {}}
        for members in groups:
            if members.group_id is None or isinstance(members, ShareGroup):
                continue  # Consumers without a group, or a share group, which commits no offsets.
            try:
                committed = offsets_committed_by(members.group_id, members.read_lane, self._settings)
            except ClusterFailure as failure:
                self._settings.on_notice(str(failure))
            else:
                by_partition, lane = sorted(committed.items()), members.read_lane.lane
                document["groups"][members.group_id] = {f"{lane}/{number}": offset for number, offset in by_partition}
        if groups:
            write_whole(self._groups_file, json.dumps(document, indent=1) + "\n")
