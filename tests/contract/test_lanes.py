"""What a lane may be: transactions, groups, versions and clients; read, written back, and refused by its key."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.groups import Group, Loop
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import Share
from kafka_chaos.contract.lane.transactions import Transactional, TransactionAnomaly
from kafka_chaos.contract.run_directory import lanes_document

ENTRY = {"lane": "transfers", "idempotence": True, "transactional": {"size": 5, "abort": 0.25, "producers": 2}}


def test_transactions_of_a_lane_are_read_and_written_back_and_their_anomalies_looked_for() -> None:
    lane = Lane.from_json(ENTRY)
    assert lane.transactional == Transactional(size=5, abort=0.25, producers=2)
    assert lane.anomalies == (*Anomaly, *TransactionAnomaly)
    assert Lane.from_json(lane.to_json()) == lane
    assert "transactional" not in Lane(lane="plain").to_json()
    assert Lane(lane="plain").anomalies == tuple(Anomaly)


KRAFT: dict[str, Any] = {"kafka_version": "4.3.1", "metadata_mode": "kraft"}
SHARED = {**KRAFT, "kafka_version": "4.4.0", "client": {"name": "java", "version": "4.2.2"}, "share": {}}


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"transactional": {"size": 0}}, "transactional.size"),
        ({"transactional": {"producers": True}}, "transactional.producers"),
        ({"transactional": {"abort": 1.5}}, "transactional.abort"),
        ({"transactional": {"sise": 5}}, "transactional.sise"),
        ({"transactional": [5]}, "transactional"),
        ({"transactional": {}, "idempotence": False}, "idempotence"),
        ({"group": {"members": 0}}, "group.members"),
        ({"group": {"crashes": True}}, "group.crashes"),
        ({"group": {"assignor": "sticky"}}, "group.assignor"),
        ({"group": {"assignor": None}}, "group.assignor"),
        ({"group": {"commits": "transaction"}}, "group.commits"),
        ({"group": {"static": 1}}, "group.static"),
        ({"group": {"max_poll_interval_ms": 5_999}}, "group.max_poll_interval_ms"),
        ({"group": {"members": 2, "joins": 1, "leaves": 3}}, "group.leaves"),
        ({"group": {"member": 2}}, "group.member"),
        ({"group": 3}, "group"),
        ({"group": {"protocol": "consumer"}}, "group.protocol"),
        ({"group": {"protocol": "consumer"}, "kafka_version": "3.9.1", "metadata_mode": "kraft"}, "group.protocol"),
        ({"group": {"protocol": "consumer", "assignor": "range"}, **KRAFT}, "group.assignor"),
        ({"loop": {}}, "loop.source"),
        ({"loop": {"source": "out"}}, "loop.source"),
        ({"loop": {"source": "in", "offsets": "auto"}}, "loop.offsets"),
        ({"loop": {"source": "in", "offsets": "after", "group": {"commits": "auto"}}}, "loop.group.commits"),
        ({"loop": {"source": "in", "offsets": "after", "group": {"members": 0}}}, "loop.group.members"),
        ({"loop": {"source": "in", "offsets": "after", "group": {"protocol": "consumer"}}}, "loop.group.protocol"),
        ({"consumer_offsets": {"replication_factor": 10**9}}, "internal topic.replication_factor"),
        ({"loop": {"source": "in"}}, "transactional"),
        ({"loop": {"source": "in", "offsets": "after"}, "transactional": {}}, "transactional"),
        ({"loop": {"source": "in"}, "transactional": {"producers": 2}}, "transactional.producers"),
        ({"loop": {"source": "in"}, "transactional": {"producers": 3, "restarts": 1}}, "transactional.restarts"),
        ({"metadata_mode": "raft"}, "metadata_mode"),
        ({"kafka_version": 4}, "kafka_version"),
        ({"kafka_version": "newest"}, "kafka_version"),
        ({"kafka_version": "4"}, "kafka_version"),
        ({"kafka_version": "0.10.2.2"}, "kafka_version"),
        ({"elr": 1}, "elr"),
        ({"elr": True}, "elr"),
        ({"elr": True, "kafka_version": "3.9.1", "metadata_mode": "kraft"}, "elr"),
        ({"metadata_mode": "zookeeper", "kafka_version": "4.0.0"}, "metadata_mode"),
        ({"metadata_mode": "kraft", "kafka_version": "2.4.1"}, "metadata_mode"),
        ({**SHARED, "client": {"name": "java", "version": "x"}}, "client"),
        ({**SHARED, "share": {"members": 0}}, "share.members"),
        ({**SHARED, "share": {"acknowledgement": "later"}}, "share.acknowledgement"),
        ({**SHARED, "share": {"release": 0.1}}, "share.acknowledgement"),
        ({**SHARED, "share": {"acknowledgement": "explicit", "release": 0.6, "reject": 0.5}}, "share.reject"),
        ({**SHARED, "share": {"delivery_limit": 1}}, "share.delivery_limit"),
        ({**SHARED, "share": {"isolation": "committed"}}, "share.isolation"),
        ({**SHARED, "share": {"start": "now"}}, "share.start"),
        ({**SHARED, "share": {"members": 2, "leaves": 2}}, "share.leaves"),
        ({**SHARED, "share": {"lock": 3}}, "share.lock"),
        ({**SHARED, "kafka_version": "4.1.2"}, "share"),
        ({**SHARED, "kafka_version": "4.3.1", "share": {"dead_letters": "copies"}}, "share.dead_letters"),
        ({**SHARED, "kafka_version": "3.9.1", "metadata_mode": "zookeeper"}, "share"),
        ({**SHARED, "group": {}}, "share"),
        ({**SHARED, "client": None}, "client"),
        ({**SHARED, "client": {"name": "java", "version": "4.1.1"}}, "client"),
        ({**SHARED, "client": {"name": "franz-go", "version": "1.18.0"}}, "client"),
        *(({"client": client}, "client") for client in ({}, {"version": "1"}, {"name": "java", "kind": 1}, 3, "")),
    ],
)
def test_what_is_refused_names_its_key(entry: dict[str, Any], key: str) -> None:
    with pytest.raises(LaneError) as refused:
        Lane.from_json({"lane": "out", "idempotence": True, **entry})
    assert refused.value.key == key


def test_a_lane_with_groups_is_read_as_it_was_written() -> None:
    group = Group(members=4, protocol="consumer", assignor=None, crashes=2)
    lane = Lane(
        lane="out", idempotence=True, transactional=Transactional(producers=4),
        group=Group(commits="auto", static=True), loop=Loop(source="in", group=group),
        kafka_version="4.3.1", metadata_mode="kraft",
    )  # fmt: skip
    assert Lane.from_json(lane.to_json()) == lane
    assert Lane.from_json({**lane.to_json(), "loop": {"source": "in", "group": {"members": 4, "protocol": "consumer"}}})


def test_a_group_needs_the_second_format_and_is_described_in_words() -> None:
    assert lanes_document([Lane(lane="a")])["format_version"] == 1
    assert lanes_document([Lane(lane="a"), Lane(lane="b", group=Group())])["format_version"] == 2
    assert Group(crashes=1, joins=2).described == (
        "3 members, assigned by cooperative-sticky, commits after processing, session time-out 6 s, "
        "at most 10 s between polls, 1 crash, 2 joins"
    )


@pytest.mark.parametrize(
    ("given", "client"),
    [
        ({"name": "java", "version": "4.1.1"}, "java 4.1.1"), ({"name": "own", "version": None}, "own"),
        ({"name": "own"}, "own"), ("franz-go 1.18.0", "franz-go 1.18.0"), (None, None),
    ],
)  # fmt: skip
def test_a_lane_s_client_has_a_name_and_perhaps_a_version(given: Any, client: str | None) -> None:
    lane = Lane.from_json({"lane": "a", "client": given})
    assert lane.client == client
    assert Lane.from_json(lane.to_json()) == lane


def test_a_lane_with_a_share_group_is_read_as_it_was_written_and_needs_the_third_format() -> None:
    lane = Lane(
        lane="a",
        **{**KRAFT, "kafka_version": "4.4.0"},
        client="java 4.2.2",
        share=Share(acknowledgement="explicit", release=0.2, crashes=1),
    )
    document = lanes_document([Lane(lane="b"), lane])
    assert document["format_version"] == 3
    assert Lane.from_json(document["lanes"][1]) == lane
    assert lane.share is not None
    assert lane.share.described == (
        "3 members, explicit acknowledgement, 20% released, lock 5 s, at most 5 deliveries, read_uncommitted, 1 crash, "
        "from the earliest"
    )
    assert not {*lane.anomalies} <= {*replace(lane, share=None).anomalies}
