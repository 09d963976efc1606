"""Load beside a scenario, and what Spark finds in it: other topics of the same cluster, verified record by record.

The steps of a scenario wait for conditions, not for times, so the load lasts as long as they do. It needs no proof that
a fault took effect: each step of the scenario is one. The lanes are judged as those of an experiment are, by what the
model predicts for them under `faults`.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kafka_chaos.conformance.scenario.clusters import ClusterLease
from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.harness.cluster.storage.collect import StoredLane, collect_stored
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.experiment.specs import PhaseSpec
from kafka_chaos.harness.run.directory import RunDirectoryWriter
from kafka_chaos.harness.run.observing.collection import leader_ends
from kafka_chaos.harness.run.phase import PhaseRun, create_topic
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS

if TYPE_CHECKING:
    from kafka_chaos.verification import RunVerdict


@dataclass
class LoadBeside:
    """Lanes under load from entering the block until `verify`, or until it ends.

    `faults`: what the lanes live through meanwhile, as in lanes.json. `rate`: records per second and lane.
    """

    lease: ClusterLease
    lanes: Sequence[LaneSpec]
    faults: tuple[str, ...]
    rate: int = 200

    def __enter__(self) -> LoadBeside:
        mark = secrets.token_hex(3)
        lanes = tuple(lane.model_copy(update={"topic": f"{lane.lane}-{mark}"}) for lane in self.lanes)
        cluster = self.lease.cluster
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-chaos-load-")))
            self._admin = cluster.admin(topics={lane.lane: lane.topic_name for lane in lanes})
            self._directory = RunDirectoryWriter(folder, "load")
            self._run = PhaseRun(
                PhaseSpec(phase="load", lanes=lanes, workload=WorkloadSpec(rate=self.rate)),
                self._admin,
                cluster.bootstrap_servers,
                self._directory.path,
                EventBus(),
                threading.Event(),
            )
            for lane in lanes:
                create_topic(self._admin, lane, brokers=cluster.spec.brokers)
            self._admin.await_full_isr(self._run.lanes)
            self._loading = ExitStack()
            self._loading.enter_context(self._run.loaded())
            self._folder = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._folder:
            self._loading.__exit__(kind, error, traceback)

    def topic(self, lane: str) -> str:
        """The name of a lane's topic."""
        return next(one.topic_name for one in self._run.phase.lanes if one.lane == lane)

    def verify(self) -> RunVerdict:
        """End the load, let it settle, and let Spark judge every record."""
        from kafka_chaos.verification import verify

        self._loading.close()
        lanes = self._run.phase.lanes
        path = self._directory.path
        (path / RESERVATIONS).unlink()
        self._directory.write_lanes(lane.as_lane(self.faults, self.lease.cluster.spec) for lane in lanes)
        stored = [StoredLane(lane.lane, lane.topic_name, lane.partitions) for lane in lanes]
        collect_stored(self.lease.cluster.brokers.values(), stored, leader_ends(self._admin, stored), path)
        return verify(path)

    def table(self, verdict: RunVerdict) -> list[dict[str, Any]]:
        """A row per lane: what was acknowledged, what was found, and the longest time without an acknowledgement."""
        return [
            {
                "lane": lane.lane,
                "verdict": str(lane.verdict),
                "acknowledged": lane.acknowledged,
                "lost": count(verdict, lane.lane, Anomaly.LOST_WRITE),
                "duplicates": count(verdict, lane.lane, Anomaly.DUPLICATE),
                "out of order": count(verdict, lane.lane, Anomaly.REORDERED),
                "longest gap, seconds": round(self._run.gaps[lane.lane], 1),
            }
            for lane in verdict.lanes
        ]


def count(verdict: RunVerdict, lane: str, anomaly: Anomaly) -> int:
    """How many cases of an anomaly a lane shows."""
    found = verdict.lane(lane).observed.get(anomaly)
    return 0 if found is None else found.count
