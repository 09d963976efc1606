"""The work of a share group: what its members are told when they begin. They are processes of the lane's client."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos.contract.events import BEGINS
from kafka_chaos.contract.lane.lanes import has_limit_of_groups
from kafka_chaos.contract.lane.share import Share
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.consumed import Readers
from kafka_chaos.harness.workload.groups.share_rows import SharerRows
from kafka_chaos.harness.workload.groups.work import Planned, planned
from kafka_chaos.harness.workload.settings import LoadSettings

SHARER = "sharer"
"""The role of members of share groups, in the client protocol."""
_FROZEN_FACTOR = 1.5


@dataclass(frozen=True, kw_only=True)
class ShareWork:
    """The share group of a lane."""

    awaits_join: ClassVar[bool] = False
    lane: LaneSpec
    load: LoadSettings

    @property
    def group(self) -> Share:
        """The settings of the group."""
        assert self.lane.share is not None
        return self.lane.share

    @property
    def group_id(self) -> str:
        """The id of the group."""
        return self.lane.group_id

    @property
    def reads(self) -> str:
        """The lane that it reads."""
        return self.lane.lane

    def planned(self) -> list[Planned]:
        """What its members are told amid the load, and when."""
        return planned(self.group, self.load.workload.duration - (self.lane.created_at or 0.0))

    def begin(
        self, place: int, number: int, readers: Readers, on_change: Callable[[str, str], None]
    ) -> tuple[SupervisedProcess, None]:
        """Start the member of this number, which writes nothing."""
        share, name = self.group, f"{self.group_id}-{number}"
        on_change(name, BEGINS)
        settings = {
            "group": self.group_id,
            "acknowledgement": share.acknowledgement,
            "release": share.release,
            "reject": share.reject,
            "freeze_seconds": share.lock_ms * _FROZEN_FACTOR / 1000,
            "seed": f"{self.load.seed}/{name}",
            "group_configs": self.group_configs(),
        }
        rows = SharerRows(
            group=self.group_id,
            lane=self.lane.lane,
            member=name,
            tables=self.load.tables,
            readers=readers,
            on_change=lambda change: on_change(name, change),
        )
        configs = dict(self.lane.consumer_configs)
        return self.load.start(self.lane, SHARER, name, settings, configs, may_end=True)(rows), None

    def committed(self) -> dict[str, dict[int, int]]:
        """Nothing: share groups commit no offsets."""
        return {}

    def group_configs(self) -> dict[str, object]:
        """The configs of the group; before Kafka 4.4, the brokers' configs say how often a record is delivered."""
        share = self.group
        limit = {"share.delivery.count.limit": share.delivery_limit}
        return {
            "share.record.lock.duration.ms": share.lock_ms,
            "share.auto.offset.reset": share.start,
            "share.isolation.level": share.isolation,
            **(limit if has_limit_of_groups(self.lane.as_lane(())) else {}),
        }
