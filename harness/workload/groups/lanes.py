"""The groups of a lane: the one that reads it, and the one that feeds its loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from kafka_chaos.contract.groups import IN_TRANSACTION, group_of, loop_group_of
from kafka_chaos.contract.transactions import READ_COMMITTED, Transactional
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.groups.load import GroupLoad
from kafka_chaos.harness.workload.groups.rows import GroupTables
from kafka_chaos.harness.workload.groups.settings import OutputSettings
from kafka_chaos.harness.workload.groups.work import GroupWork, OnChange, StartMember

_TICK = 0.05
_LEARNS_SOON = {"topic.metadata.refresh.interval.ms": "1000"}
"""A group is given new partitions once a member learns of them: by default, after five minutes at the latest."""


def group_reading(
    lane: LaneSpec,
    *,
    bootstrap_servers: str,
    client_configs: Mapping[str, str],
    workload: WorkloadSpec,
    tables: GroupTables,
    on_notice: Callable[[str], None],
    on_change: OnChange,
    start: StartMember | None = None,
) -> GroupLoad:
    """The members of the lane's group; `start` begins those that are another client's."""
    settings = lane.group
    assert settings is not None
    work = GroupWork(
        group_id=group_of(lane.lane),
        settings=settings,
        lane=lane.lane,
        topic=lane.topic_name,
        partitions=lane.partitions,
        isolation=READ_COMMITTED,
        bootstrap_servers=bootstrap_servers,
        client_configs=_of_members(client_configs, lane),
        duration=workload.duration,
    )
    return GroupLoad(work, tables, on_notice=on_notice, on_change=on_change, start=start)


def _of_members(configs: Mapping[str, str], read: LaneSpec) -> Mapping[str, str]:
    return {**configs, **(_LEARNS_SOON if read.grows else {})}


class LoopProducing:
    """The members of a loop, in the place of the lane's producers. They go on until their source is at its end."""

    def __init__(
        self,
        lane: LaneSpec,
        source: LaneSpec,
        *,
        configs: Mapping[str, object],
        client_configs: Mapping[str, str],
        workload: WorkloadSpec,
        tables: GroupTables,
        on_notice: Callable[[str], None],
        on_change: OnChange,
        run_directory: str,
        seed: int,
        start: StartMember | None = None,
    ) -> None:
        loop = lane.loop
        assert loop is not None
        transactions = lane.transactional or Transactional()
        ids = {"transactional.id": lane.lane} if loop.offsets == IN_TRANSACTION else {}
        output = OutputSettings(
            lane=lane.lane,
            topic=lane.topic_name,
            partitions=lane.partitions,
            record_size=workload.record_size,
            producer_id=0,
            # Members bring the logger that keeps their clients silent.
            configs={**{key: value for key, value in configs.items() if key != "logger"}, **ids},
            offsets=loop.offsets,
            size=transactions.size,
            abort=transactions.abort,
            seed=f"{seed}/{lane.lane}",
            run_directory=run_directory,
        )
        work = GroupWork(
            group_id=loop_group_of(lane.lane),
            settings=loop.group,
            lane=source.lane,
            topic=source.topic_name,
            partitions=source.partitions,
            isolation=READ_COMMITTED,
            bootstrap_servers=str(configs["bootstrap.servers"]),
            client_configs=_of_members(client_configs, source),
            duration=workload.duration,
            output=output,
        )
        self.members = GroupLoad(work, tables, on_notice=on_notice, on_change=on_change, start=start)

    @property
    def sent(self) -> int:
        """Records that the members sent so far."""
        return self.members.progress.sent

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self.members.progress.acknowledged

    @property
    def longest_gap_ns(self) -> int:
        """The longest time between two acknowledgements so far, in nanoseconds."""
        return self.members.progress.longest_gap_ns

    def run(self, sending: threading.Event) -> None:
        """Let the members do what is planned until `sending` is cleared; raises what went wrong with one."""
        self.members.starts()
        while sending.is_set():
            self.members.raise_error()
            time.sleep(_TICK)

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Nothing to wait for yet: members still have to process what their source holds."""
        return 0
