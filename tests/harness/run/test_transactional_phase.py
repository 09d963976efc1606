"""A transactional lane under load on a real cluster whose transaction coordinator is killed: its tables, row by row."""

import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ClientNotice
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.storage.collect import StoredLane, collect_stored
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.experiment.specs import PhaseSpec
from kafka_chaos.harness.run.observing.collection import leader_ends
from kafka_chaos.harness.run.phase import PhaseRun, create_topic

pytestmark = pytest.mark.cluster

SECONDS, PARTITIONS, SIZE = 14, 3, 10
Row = dict[str, Any]
Transaction = tuple[int, int]
"""Producer and number."""


class Tables:
    """The tables of a run with one lane."""

    def __init__(self, folder: Path) -> None:
        self.produced, self.transactions, self.consumed, self.assignments, self.log, self.replicas = (
            pq.read_table(folder / name).to_pylist()
            for name in ("produced", "transactions", "consumed", "assignments", "log", "replicas")
        )
        self.outcomes: dict[Transaction, str] = {}
        for row in self.transactions:
            key = (row["producer_id"], row["transaction"])
            assert key not in self.outcomes, f"{key} has two rows"
            self.outcomes[key] = row["outcome"]

    def records(self) -> dict[Transaction, list[Row]]:
        """The records of each transaction."""
        found = defaultdict(list)
        for row in self.produced:
            found[row["producer_id"], row["transaction"]].append(row)
        return found

    def ends(self, broker: int) -> dict[tuple[int, int], str]:
        """By partition and offset of a broker's records, the marker behind them that ends their transaction."""
        ends: dict[tuple[int, int], str] = {}
        waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
        for row in sorted(self.replicas, key=lambda row: (row["partition"], row["offset"])):
            place = (row["partition"], row["producer_id"])
            if row["broker"] != broker:
                continue
            if row["kind"] == "data":
                waiting[place].append(row["offset"])
            else:
                assert row["seq"] == -1
                ends.update(
                    dict.fromkeys(((row["partition"], offset) for offset in waiting.pop(place, ())), row["kind"])
                )
        assert not any(waiting.values()), f"records behind which no marker stands: {dict(waiting)}"
        return ends

    def given_to(self, isolation: str) -> Counter[tuple[int, int, int, int]]:
        """The records that the consumers with this isolation level read: partition, offset, identity."""
        names = {row["consumer"] for row in self.assignments if row["isolation"] == isolation}
        return Counter(placed(row) for row in self.consumed if row["consumer"] in names)


def placed(row: Row) -> tuple[int, int, int, int]:
    return row["partition"], row["offset"], row["producer_id"], row["seq"]


def test_what_is_written_of_transactions_is_what_the_brokers_did(
    cluster: Cluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    settings = {"size": SIZE, "abort": 0.2, "producers": 3, "timeout_ms": 60_000, "restarts": 2}
    lane = LaneSpec(
        lane=f"pay-{time.monotonic_ns()}",
        partitions=PARTITIONS,
        min_insync_replicas=2,
        transactional=settings,  # type: ignore[arg-type]
    )
    notices: list[str] = []
    events = EventBus(lambda event: notices.append(event.text) if isinstance(event, ClientNotice) else None)
    workload = WorkloadSpec(rate=300, duration=SECONDS, settle_timeout=30)
    phase = PhaseSpec(phase="main", lanes=(lane,), workload=workload)
    run = PhaseRun(phase, admin, cluster.bootstrap_servers, tmp_path, events, threading.Event(), seed=3)
    create_topic(admin, lane, brokers=3)
    admin.await_full_isr([lane.lane])
    with run.loaded() as load:
        over = time.monotonic() + SECONDS
        coordinator = admin.await_leader("__transaction_state", 0)
        down = cluster.brokers[coordinator]
        down.kill()
        admin.await_leader("__transaction_state", 0, other_than=coordinator)
        acknowledged = load.counts[lane.lane][1]
        wait_until(lambda: load.counts[lane.lane][1] > acknowledged + 100, "transactions to go on", timeout=120)
        cluster.start_again([down])
        time.sleep(max(0.0, over - time.monotonic()))
    stored = [StoredLane(lane.lane, lane.topic_name, PARTITIONS, transactional=True)]
    collect_stored(cluster.brokers.values(), stored, leader_ends(admin, stored), tmp_path)
    assert not [notice for notice in notices if "did not reach the end" in notice or "stands still" in notice], notices
    tables = Tables(tmp_path)
    check_history(tables, f"{lane.lane}-")
    check_brokers(tables)
    check_consumers(tables)


def check_history(tables: Tables, prefix: str) -> None:
    records = tables.records()
    assert records.keys() <= tables.outcomes.keys(), "every record belongs to a transaction that has a row"
    # A producer that is behind the load's rate writes a multiple of the size.
    assert all(rows and len(rows) % SIZE == 0 for rows in records.values())
    outcomes = Counter(tables.outcomes.values())
    assert outcomes["committed"] > 20
    assert outcomes["aborted"] > 2
    ids = {row["producer_id"]: row["transactional_id"] for row in tables.transactions}
    assert set(ids.values()) == {f"{prefix}{number}" for number in range(3)}
    fenced = [row for row in tables.transactions if row["error"] == "_FENCED"]
    # The killed ones asked for their commit when the next incarnation had begun.
    assert [row["outcome"] for row in fenced] == ["info", "info"]
    assert len(ids) >= 5
    for row in tables.transactions:
        assert row["initialised_ns"] < row["begin_ns"]
        if row["outcome"] == "committed":
            of_it = records[row["producer_id"], row["transaction"]]
            assert {record["outcome"] for record in of_it} == {"ok"}
            assert all(row["begin_ns"] <= record["invoke_ns"] <= row["end_ns"] for record in of_it)


def check_brokers(tables: Tables) -> None:
    ends = tables.ends(1)
    assert tables.ends(2) == tables.ends(3) == ends
    places = {(row["producer_id"], row["seq"]): (row["partition"], row["offset"]) for row in tables.log}
    assert len(places) == len(tables.log), "no duplicates"
    assert {place: ends[place] for place in places.values()} == ends, "log/ has all records, and no markers"
    for key, rows in tables.records().items():
        found = [places.get((row["producer_id"], row["seq"])) for row in rows]
        kinds = {ends[place] for place in found if place is not None}
        outcome = tables.outcomes[key]
        if outcome == "committed":
            assert kinds == {"commit"}, key
            assert None not in found, key
            assert found == [(row["partition"], row["offset"]) for row in rows]
        elif outcome == "aborted":
            assert kinds <= {"abort"}, key
        else:
            assert len(kinds) <= 1, key
    check_zombies(tables, places, ends)


def check_zombies(
    tables: Tables, places: dict[tuple[int, int], tuple[int, int]], ends: dict[tuple[int, int], str]
) -> None:
    """The killed producers' last transactions: aborted, and nothing was written once the next incarnation had begun."""
    written = 0
    for row in tables.transactions:
        if row["error"] == "_FENCED":
            records = tables.records()[row["producer_id"], row["transaction"]]
            found = [places.get((record["producer_id"], record["seq"])) for record in records]
            assert found[SIZE // 2 :] == [None] * (SIZE // 2)
            assert {ends[place] for place in found if place is not None} <= {"abort"}
            written += len(found) - found.count(None)
    assert written > 0, "no killed producer had written anything"


def check_consumers(tables: Tables) -> None:
    ends = tables.ends(1)
    everything = Counter(placed(row) for row in tables.log)
    assert tables.given_to("read_uncommitted") == everything
    committed = Counter({row: count for row, count in everything.items() if ends[row[0], row[1]] == "commit"})
    assert tables.given_to("read_committed") == committed
    assert 0 < committed.total() < everything.total()
    assert Counter((row["isolation"], row["partition"]) for row in tables.assignments) == {
        (isolation, number): 1 for isolation in ("read_committed", "read_uncommitted") for number in range(PARTITIONS)
    }
    spans = {row["consumer"]: (row["start_ns"], row["end_ns"]) for row in tables.assignments}
    assert all(spans[row["consumer"]][0] <= row["poll_ns"] <= spans[row["consumer"]][1] for row in tables.consumed)
