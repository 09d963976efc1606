"""Clients of a real cluster that lose their connections, and members of a group that are killed and frozen."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_chaos.contract.events import Event, FaultNotProven, FaultProven, MemberChanged
from kafka_chaos.faults.clients.members import ClientKill, ClientPause, ConnectionReset
from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.experiment.specs import PhaseSpec
from kafka_chaos.harness.run.observing.fault_events import FaultEvents
from kafka_chaos.harness.run.phase import PhaseRun, create_topic
from tests.parquet import rows_in

pytestmark = pytest.mark.cluster

PARTITIONS = 3


def test_a_client_s_connection_is_reset_and_the_broker_goes_on(
    cluster: Cluster, view: ClusterView, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    before = cluster.brokers[1].state()["Pid"]
    for turn in range(10):
        fault = ConnectionReset(target=Target.parse("broker:1"), at=float(turn))
        nodes = fault.target.resolve(view, 0)
        with BrokerClient(cluster.client_address(1)) as connected:
            assert connected.latest_offset(topic)[0] == 0
            assert not fault.proof(view, nodes).took_effect
            fault.inject(view, nodes)
            proof = fault.proof(view, nodes)
            assert proof.took_effect, proof.reason
            assert proof.evidence["broker-1"]["connections"] >= 1
            with pytest.raises(BrokerUnreachable, match=r"closed the connection|reset"):
                connected.latest_offset(topic)
        with BrokerClient(cluster.client_address(1)) as again:
            fault.inject(view, nodes)
            assert again.latest_offset(topic)[0] == 0, "a second injection reset a new connection"
        fault.heal(view, nodes)
    assert cluster.brokers[1].state()["Pid"] == before


@contextmanager
def loaded(cluster: Cluster, admin: ClusterAdmin, folder: Path, events: list[Event]) -> Iterator[tuple[str, Injector]]:
    """A lane that a group reads under load, and what breaks its members."""
    lane = LaneSpec(
        lane=f"read-{time.monotonic_ns()}", partitions=PARTITIONS, idempotence=True, group={"session_timeout_ms": 6000}
    )
    bus = EventBus(events.append)
    phase = PhaseSpec(phase="main", lanes=(lane,), workload=WorkloadSpec(rate=100, duration=60, settle_timeout=120))
    run = PhaseRun(phase, admin, cluster.bootstrap_servers, folder, bus, threading.Event(), seed=3)
    create_topic(admin, lane, brokers=3)
    admin.await_full_isr([lane.lane])
    with run.loaded() as load:
        view = ClusterView(cluster, admin, clients=load)
        with Injector(view, FaultEvents(bus, phase="main", lanes=run.lanes), seed=3) as injector:
            yield lane.lane, injector


@pytest.mark.slow
def test_members_that_are_killed_and_frozen_are_replaced_and_fenced(
    cluster: Cluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    events: list[Event] = []
    with loaded(cluster, admin, tmp_path, events) as (lane, injector):
        faults: list[Fault] = [
            ClientKill(target=Target.parse(f"member({lane})"), duration=1.0),
            ClientPause(target=Target.parse(f"member({lane})"), duration=8.0),
            ClientPause(target=Target.parse(f"members({lane})"), duration=0.5),
            ClientKill(target=Target.parse(f"members({lane})"), duration=0.2),
        ]
        for fault in faults:
            occurrence = injector.inject(fault)
            time.sleep(fault.duration)
            injector.heal(occurrence)
            time.sleep(4)
    assert not [event for event in events if isinstance(event, FaultNotProven)]
    assert len([event for event in events if isinstance(event, FaultProven)]) == len(faults)
    killed = [event for event in events if isinstance(event, MemberChanged) and event.change == "is killed"]
    assert len(killed) == 1 + 3
    rows = rows_in(tmp_path / "assignments")
    ends = admin.end_offsets(lane, range(PARTITIONS))
    read = {
        (row["partition"], row["offset"])
        for row in rows_in(tmp_path / "consumed")
        if row["consumer"].startswith(f"{lane}-group")
    }
    assert read == {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    never_given_back = {row["consumer"].rpartition("-")[0] for row in rows if row["end_ns"] is None}
    assert never_given_back <= {event.member for event in killed}
    members = {row["consumer"].rpartition("-")[0] for row in rows if row["group"] is not None}
    assert members >= {f"{lane}-group-{number}" for number in (4, 5, 6)}, "those that replaced all had nothing"
