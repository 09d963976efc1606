"""KAFKA-14402 on brokers: the steps by which `predict` tells of it open a transaction that nobody ends, before 3.6 and
where leaders do not verify."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from kafka_chaos.conformance.replica import read_replica
from kafka_chaos.conformance.scenario.clusters import ClusterLease, ClusterPool, ClusterProfile
from kafka_chaos.conformance.scenario.transactions.producers import Producer, TransactionClient
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.broker.client import NONE, CoordinatorKind, error_name
from tests.clusters import needs_links

pytestmark = [pytest.mark.cluster, pytest.mark.slow, needs_links]

VERIFICATION = "transaction.partition.verification.enable"


@pytest.mark.parametrize(
    ("version", "configs", "answer", "log"),
    [
        ("2.8.2", {}, "NONE", ["ABORT", "late"]),
        ("3.9.1", {VERIFICATION: False}, "NONE", ["ABORT", "late"]),
        ("3.9.1", {}, "TRANSACTION_ABORTABLE", ["ABORT"]),
    ],
)
def test_a_late_record_is_taken_unless_leaders_verify(
    version: str, configs: dict[str, object], answer: str, log: list[str]
) -> None:
    name = f"late record, Kafka {version} {configs}"
    profile = ClusterProfile(name=name, brokers=1, kafka_version=version, links=True, configs=configs)
    with ClusterPool() as pool, ThreadPoolExecutor(1) as thread:
        lease = pool.lease_clean_cluster(profile)
        lease.admin.create_topic("t", replica_assignment=[[1]], configs={})
        lease.admin.await_full_isr(["t"])
        with connected(lease) as client, connected(lease) as late:
            wait_until(lambda: client.coordinator("tx", CoordinatorKind.TRANSACTION), "a coordinator", timeout=30)
            producer = Producer("tx")
            began = partial(client.initialise, producer, timeout_ms=60_000)
            # Once the coordinator has loaded what it coordinates.
            wait_until(lambda: began() == NONE, "the coordinator to give out a producer id", timeout=30, interval=0.2)
            assert producer.epoch == 0
            assert client.add_partition(producer, "t", 0) == NONE

            link = lease.cluster.brokers[1].link
            assert link is not None
            link.apply("late", action="hold", side="request", api="Produce", topic="t", sender=("clients",))
            record = thread.submit(late.write, producer, "t", 0, "late", sequence=0)
            wait_until(lambda: (link.tally("late") or {"taken": 0})["taken"], "the record to wait", timeout=10)

            assert client.end(producer, commit=False) == NONE
            wait_until(lambda: held(lease) == ["ABORT"], "the marker", timeout=20, seen=lambda: str(held(lease)))
            link.lift("late", release=True)
            assert error_name(record.result(timeout=30)) == answer
            assert held(lease) == log
            # Consumers of committed records get no further than the record that nobody ends.
            assert client.latest_offset("t") == (NONE, len(log))
            assert client.latest_offsets({"t": [0]}, committed=True)["t", 0] == (NONE, 1)


def connected(lease: ClusterLease) -> TransactionClient:
    return TransactionClient(lease.cluster.addresses[1], timeout=30)


def held(lease: ClusterLease) -> list[str]:
    """The records in the partition's segments."""
    records = read_replica(lease.cluster.brokers[1], "t", 0).records
    return ["ABORT" if one.control else (one.value or b"").decode() for one in records]
