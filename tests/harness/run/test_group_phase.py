"""A group and loops under load on a real cluster whose group coordinator is killed: their tables, row by row."""

import json
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ClientNotice, Event, MemberChanged
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.experiment.specs import PhaseSpec
from kafka_chaos.harness.run.phase import PhaseRun, create_topic
from tests.parquet import rows_in

pytestmark = pytest.mark.cluster

SECONDS, PARTITIONS = 24, 6
PATIENCE = 120.0
"""Seconds for what has its time on a machine that is quiet: the load goes on until it has happened."""
CRASHES, FREEZES = "crashes amid a batch", "freezes"
Row = dict[str, Any]


class Tables:
    """The tables of a run."""

    def __init__(self, folder: Path) -> None:
        self.produced, self.consumed, self.assignments, self.commits, self.transactions = (
            rows_in(folder / name) for name in ("produced", "consumed", "assignments", "commits", "transactions")
        )
        self.groups = json.loads((folder / "groups.json").read_text())["groups"]

    def read_by(self, group: str) -> Counter[tuple[int, int]]:
        """The records that a group's members processed: partition and offset, and how often."""
        names = {row["consumer"] for row in self.assignments if row["group"] == group}
        return Counter((row["partition"], row["offset"]) for row in self.consumed if row["consumer"] in names)

    def made_of(self, lane: str, committed: bool) -> Counter[tuple[int, int]]:
        """The inputs that acknowledged outputs were made of, and how often; only of `committed` transactions."""
        ended = {(row["lane"], row["producer_id"], row["transaction"]): row["outcome"] for row in self.transactions}
        return Counter(
            (row["source_producer_id"], row["source_seq"])
            for row in self.produced
            if row["lane"] == lane
            and row["outcome"] == "ok"
            and (not committed or ended[lane, row["producer_id"], row["transaction"]] == "committed")
        )


def run_phase(
    lanes: tuple[LaneSpec, ...],
    cluster: Cluster,
    admin: ClusterAdmin,
    folder: Path,
    *,
    happens: Collection[tuple[str, str]],
) -> tuple[Tables, list[str]]:
    """Load the lanes and kill their coordinator; go on until `happens`: a group, and what a member of it notes."""
    notices: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, ClientNotice):
            notices.append(event.text)
        elif isinstance(event, MemberChanged):
            notices.append(f"{event.member} {event.change}")

    events = EventBus(note)
    workload = WorkloadSpec(rate=200, duration=SECONDS, settle_timeout=120)
    phase = PhaseSpec(phase="main", lanes=lanes, workload=workload)
    run = PhaseRun(phase, admin, cluster.bootstrap_servers, folder, events, threading.Event(), seed=3)
    for lane in lanes:
        create_topic(admin, lane, brokers=3)
    admin.await_full_isr([lane.lane for lane in lanes])
    with run.loaded():
        over = time.monotonic() + SECONDS
        time.sleep(2)
        view = ClusterView(cluster, admin, groups={lane.lane: lane.group_id for lane in lanes})
        ask = partial(view.group_coordinator, lanes[-1].lane)
        coordinator = wait_until(ask, "a coordinator", timeout=PATIENCE)
        assert coordinator == admin.await_leader("__consumer_offsets", 0)
        if lanes[1:]:
            found = view.transaction_coordinator(lanes[1].lane)
            assert found == admin.await_leader("__transaction_state", 0)
        down = cluster.brokers[coordinator]
        down.kill()
        admin.await_leader("__consumer_offsets", 0, other_than=coordinator)
        time.sleep(2)
        cluster.start_again([down])
        time.sleep(max(0.0, over - time.monotonic()))
        for group, text in happens:
            wait_until(
                lambda: any(one.startswith(group) and text in one for one in list(notices)),  # noqa: B023
                f"a member of {group} that {text}",
                timeout=PATIENCE,
                seen=lambda: str(notices),
            )
    return Tables(folder), notices


def lane(name: str, **settings: Any) -> LaneSpec:
    return LaneSpec(lane=f"{name}-{time.monotonic_ns()}", partitions=PARTITIONS, min_insync_replicas=2, **settings)


def check_group(tables: Tables, group: str, ends: Mapping[int, int]) -> None:
    """Every group's rows are so, whenever it commits."""
    assigned = [row for row in tables.assignments if row["group"] == group]
    assert {row["partition"] for row in assigned} == set(ends)
    assert len({row["member"] for row in assigned}) >= 3
    assert all(row["generation"] is not None and row["generation"] > 0 for row in assigned)
    consumers = {row["consumer"] for row in assigned}
    commits = [row for row in tables.commits if row["group"] == group]
    assert {row["consumer"] for row in commits} <= consumers
    assert all(row["complete_ns"] is not None for row in commits if row["outcome"] == "ok")
    last = dict.fromkeys(ends, 0)
    for row in commits:
        if row["outcome"] == "ok":
            last[row["partition"]] = max(last[row["partition"]], row["offset"])
    assert {int(place.rpartition("/")[2]): offset for place, offset in tables.groups[group].items()} == last


def check_committed(tables: Tables, group: str, ends: Mapping[int, int]) -> None:
    """All is committed. Only where the last commit of a partition was refused, nobody had a record left to commit."""
    refused = {
        (row["partition"], row["offset"])
        for row in tables.commits
        if row["group"] == group and row["outcome"] == "fail" and row["transaction"] is None
    }
    committed = {int(place.rpartition("/")[2]): offset for place, offset in tables.groups[group].items()}
    for partition, end in ends.items():
        assert committed[partition] == end or (committed[partition] < end and (partition, end) in refused)


@pytest.mark.slow
def test_a_group_whose_members_crash_and_freeze_while_its_coordinator_dies(
    cluster: Cluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    read = lane("read", idempotence=True, group={"crashes": 1, "freezes": 1, "joins": 1, "leaves": 1})
    group = f"{read.lane}-group"
    happens = {(group, CRASHES), (group, FREEZES)}
    tables, notices = run_phase((read,), cluster, admin, tmp_path, happens=happens)
    assert not [notice for notice in notices if "did not reach the end" in notice], notices
    ends = admin.end_offsets(read.lane, range(PARTITIONS))
    check_group(tables, group, ends)
    seen = tables.read_by(group)
    assert set(seen) == {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    check_committed(tables, group, ends)
    assert max(seen.values()) > 1, "nothing was processed again after the crash"
    refused = {row["error"] for row in tables.commits if row["outcome"] == "fail"}
    assert refused & {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"}, "the frozen member's commit was not refused"
    unended = [row for row in tables.assignments if row["group"] == group and row["end_ns"] is None]
    assert len({row["consumer"] for row in unended}) == 1


@pytest.mark.slow
def test_loops_process_once_or_not_as_they_commit(cluster: Cluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    crash = {"crashes": 2, "freezes": 1}
    source = lane("source", idempotence=True)
    loops = {
        offsets: lane(offsets, loop={"source": source.lane, "offsets": offsets, "group": crash}, **settings)
        for offsets, settings in {
            "transaction": {"transactional": {"size": 40, "abort": 0.1, "timeout_ms": 10_000}},
            "after": {},
            "before": {},
        }.items()
    }
    happens = {(f"{loop.lane}-loop", CRASHES) for loop in loops.values()}
    tables, notices = run_phase((source, *loops.values()), cluster, admin, tmp_path, happens=happens)
    assert not [notice for notice in notices if "did not reach the end" in notice], notices
    inputs = {(row["producer_id"], row["seq"]) for row in tables.produced if row["lane"] == source.lane}
    ends = admin.end_offsets(source.lane, range(PARTITIONS))
    made = {name: tables.made_of(loop.lane, name == "transaction") for name, loop in loops.items()}
    for loop in loops.values():
        if loop.transactional is None:
            check_group(tables, f"{loop.lane}-loop", ends)
        check_committed(tables, f"{loop.lane}-loop", ends)
    assert set(made["transaction"]) == inputs
    assert set(made["transaction"].values()) == {1}
    assert set(made["after"]) == inputs
    assert max(made["after"].values()) > 1
    assert inputs - set(made["before"])
