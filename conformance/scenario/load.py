"""Load on other topics of the cluster while an act of a scenario is played; Spark verifies every record of the load.

The steps of a scenario wait for conditions, not for times, so the load lasts as long as the steps. A fault is a step
here. Unlike a fault of an experiment it needs no proof, since a step ends only when its effect was observed. The lanes
are judged like the lanes of an experiment, by what the model predicts for them under `faults`.
"""

import secrets
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from kafka_chaos.verification import RunVerdict, verify

LANES = (
    LaneSpec(lane="idempotent", partitions=3, min_insync_replicas=2, acks="all", idempotence=True),
    LaneSpec(lane="not-idempotent", partitions=3, min_insync_replicas=2, acks="all"),
)
_RECORDS_PER_SECOND = 200


@dataclass
class Load:
    """Lanes under load until `verify` closes `load_stack`. `faults`: the act's faults, as in lanes.json."""

    lease: ClusterLease
    faults: tuple[str, ...]
    run: PhaseRun
    directory: RunDirectoryWriter
    load_stack: ExitStack

    def verify(self) -> RunVerdict:
        """End the load, wait until replicas and consumers have caught up, and let Spark judge every record."""
        self.load_stack.close()
        lanes, path = self.run.phase.lanes, self.directory.path
        # All rows are written, so the journal of records to be sent goes: it would tell `verify` that the harness died.
        (path / RESERVATIONS).unlink()
        self.directory.write_lanes(lane.as_lane(self.faults, self.lease.cluster.spec) for lane in lanes)
        stored = [StoredLane(lane.lane, lane.topic_name, lane.partitions) for lane in lanes]
        collect_stored(self.lease.cluster.brokers.values(), stored, leader_ends(self.run.admin, stored), path)
        return verify(path)

    def table(self, verdict: RunVerdict) -> list[dict[str, Any]]:
        """By lane: verdict, acknowledged records, anomalies, and the longest time without an acknowledgement."""
        return [
            {
                "lane": lane.lane,
                "verdict": str(lane.verdict),
                "acknowledged": lane.acknowledged,
                "lost": lane.count(Anomaly.LOST_WRITE),
                "duplicates": lane.count(Anomaly.DUPLICATE),
                "out of order": lane.count(Anomaly.REORDERED),
                "longest gap, seconds": round(self.run.gaps[lane.lane], 1),
            }
            for lane in verdict.lanes
        ]


@contextmanager
def load_beside(lease: ClusterLease, faults: Sequence[str], lanes: Sequence[LaneSpec] = LANES) -> Iterator[Load]:
    """Put lanes with topics of their own under load, until `Load.verify` or the end of the `with` block."""
    suffix, cluster = secrets.token_hex(3), lease.cluster
    own_lanes = tuple(lane.model_copy(update={"topic": f"{lane.lane}-{suffix}"}) for lane in lanes)
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-load-") as folder, ExitStack() as load_stack:
        admin = cluster.admin(topics={lane.lane: lane.topic_name for lane in own_lanes})
        directory = RunDirectoryWriter(Path(folder), "load")
        run = PhaseRun(
            PhaseSpec(phase="load", lanes=own_lanes, workload=WorkloadSpec(rate=_RECORDS_PER_SECOND)),
            admin,
            cluster.bootstrap_servers,
            directory.path,
            EventBus(),
            threading.Event(),
            seed=0,
        )
        for lane in own_lanes:
            create_topic(admin, lane, brokers=cluster.spec.brokers)
        admin.await_full_isr(run.lanes)
        load_stack.enter_context(run.under_load())
        yield Load(lease, tuple(faults), run, directory, load_stack)
