"""A group of the harness's own members, processes all of them, against librdkafka's mock of a cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ClientStarted
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.groups.group_kinds import ConsumerGroup, offsets_committed_by
from tests.harness.workload.loads import load_of, mock_cluster
from tests.parquet import rows_in

RECORDS, PARTITIONS = 60, 4


@pytest.fixture
def servers() -> Iterator[str]:
    """The address of a mock whose topic `orders` holds records."""
    codec = IdentityCodec("orders")
    with mock_cluster("copies", "orders") as (servers, owner):
        for seq in range(RECORDS):
            owner.produce("orders", codec.encode(0, seq), partition=seq % PARTITIONS)
        assert owner.flush(20) == 0
        yield servers


ORDERS = LaneSpec(lane="orders", partitions=PARTITIONS, group={"members": 2, "assignor": "range"})  # type: ignore[arg-type]


class Ran:
    """A group that reads `orders` and has read all, with the rows that it left behind; it may be that of a loop."""

    def __init__(self, servers: str, folder: Path, lane: LaneSpec = ORDERS) -> None:
        self._folder = folder
        self.told: list[object] = []
        notes = {"on_notice": self.told.append, "emit": self.told.append}
        settings = load_of(folder, ORDERS, lane, bootstrap_servers=servers, **notes)
        load = ConsumerGroup(lane, ORDERS, settings).begin()
        ends = dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
        wait_until(lambda: not load.unread_partitions(ends), "the group to be at the end", timeout=60)
        load.drain(ends, timeout=20)
        load.raise_error()
        load.leave()
        self.has_committed = offsets_committed_by(load.group_id, ORDERS, settings) == ends
        load.close()
        settings.tables.close()

    def rows(self, name: str) -> list[dict[str, Any]]:
        return rows_in(self._folder / name)


def test_members_read_all_commit_it_and_leave(servers: str, tmp_path: Path) -> None:
    ran = Ran(servers, tmp_path)
    assert ran.has_committed
    assert {row["seq"] for row in ran.rows("consumed")} == set(range(RECORDS))
    assigned = ran.rows("assignments")
    assert {row["partition"] for row in assigned} == set(range(PARTITIONS))
    assert all(row["end_ns"] is not None and row["generation"] is not None for row in assigned)
    assert {row["outcome"] for row in ran.rows("commits")} <= {"ok", "fail", "info"}
    assert {type(event) for event in ran.told} == {ClientStarted}


def test_each_member_of_a_loop_has_a_transactional_id_and_numbers_of_its_own(servers: str, tmp_path: Path) -> None:
    loop = {"source": "orders", "group": {"members": 2, "assignor": "range"}}
    keys: Any = {"idempotence": True, "loop": loop, "transactional": {"size": 10, "abort": 0.0, "timeout_ms": 20_000}}
    ran = Ran(servers, tmp_path, LaneSpec(lane="copies", partitions=2, **keys))
    made = ran.rows("produced")
    assert {row["source_seq"] for row in made} == set(range(RECORDS))
    assert {row["outcome"] for row in made} == {"ok"}
    transactions = ran.rows("transactions")
    assert {row["outcome"] for row in transactions} <= {"committed", "aborted"}
    ids = {(row["producer_id"], row["transactional_id"]) for row in transactions}
    assert ids <= {(0, "copies-0"), (1, "copies-1")}
    assert ids
    reserved = (tmp_path / "reservations.jsonl").read_text()
    assert '"copies"' in reserved


def test_a_group_that_reads_what_a_loop_writes_is_told_apart_from_the_loops_own(servers: str, tmp_path: Path) -> None:
    loop = {"source": "orders", "group": {"members": 2, "assignor": "range"}, "offsets": "after"}
    keys: Any = {"loop": loop, "group": {"members": 1, "commits": "auto"}}
    copies = LaneSpec(lane="copies", **keys)
    settings = load_of(tmp_path, ORDERS, copies, bootstrap_servers=servers)
    feeding = ConsumerGroup(copies, ORDERS, settings)
    reading = ConsumerGroup(copies, copies, settings)
    assert (feeding.group.members, reading.group.members) == (2, 1)
    assert feeding.group_id != reading.group_id
    assert feeding.member_settings(0, 0)["output"] is not None
    member = reading.member_settings(0, 0)
    assert member["output"] is None
    assert (member["topic"], member["configs"]["enable.auto.commit"]) == (copies.topic_name, True)
