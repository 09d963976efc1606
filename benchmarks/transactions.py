"""Recorded transactions against bare confluent-kafka with the same transactions, in alternation on one cluster.

    .venv/bin/python benchmarks/transactions.py [--transactions 1000] [--size 100] [--rounds 5]

One producer each, one transaction after the other, as fast as they go: records of 100 bytes, replication factor 3,
min.insync.replicas 2, six partitions. The recorded one writes a row per record and per transaction.

The last line is JSON: medians in records per second, and the ratio of the recorded load to the bare one (median of the
ratios round by round).
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.producer import TransactionalProducer

RECORD_SIZE = 100
PARTITIONS = 6
TIMEOUT = 60.0

Contender = Callable[[str, str, int, int], float]
"""Records per second from bootstrap servers, topic, number of transactions and their size."""


def recorded(bootstrap_servers: str, topic: str, transactions: int, size: int) -> float:
    """The harness's own transactional producer, its history on disk included."""
    with tempfile.TemporaryDirectory() as folder:
        tables = LoadTables(Path(folder), [LaneSpec(lane=topic, transactional={})])  # type: ignore[arg-type]
        records = RecordedProducer(
            ProducedRows(tables, lane=topic, producer_id=0, partitions=RoundRobin(PARTITIONS), transactional_id=topic),
            topic=topic,
            record_size=RECORD_SIZE,
            configs=configs(bootstrap_servers, topic),
        )
        producer = TransactionalProducer(records, give_up=lambda: False)
        producer.init()
        start = time.monotonic()
        for _ in range(transactions):
            producer.begin()
            producer.send(size)
            producer.commit()
        records.finish(TIMEOUT, threading.Event())
        tables.close()
        seconds = time.monotonic() - start
        if records.rows.acknowledged != transactions * size:
            raise SystemExit(f"only {records.rows.acknowledged} of {transactions * size} records were acknowledged")
    return transactions * size / seconds


def bare(bootstrap_servers: str, topic: str, transactions: int, size: int) -> float:
    """confluent-kafka alone, with a callback that does nothing."""

    def on_delivery(error: object, message: object) -> None:
        pass

    producer = Producer(configs(bootstrap_servers, topic))
    producer.init_transactions(TIMEOUT)
    value = b"x" * RECORD_SIZE
    start = time.monotonic()
    for number in range(transactions):
        producer.begin_transaction()
        for seq in range(number * size, (number + 1) * size):
            producer.produce(topic, value, None, seq % PARTITIONS, on_delivery)
        producer.commit_transaction(TIMEOUT)
    seconds = time.monotonic() - start
    producer.close()
    return transactions * size / seconds


def configs(bootstrap_servers: str, topic: str) -> dict[str, object]:
    return {"bootstrap.servers": bootstrap_servers, "transactional.id": topic, "linger.ms": 5, "log_level": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=1_000)
    parser.add_argument("--size", type=int, default=100, help="records of a transaction")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    contenders: dict[str, Contender] = {"recorded": recorded, "bare": bare}
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    with Cluster(ClusterLayout(), run_id=f"bench-{secrets.token_hex(4)}") as cluster:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        for name, contender in contenders.items():
            assignment = [[(first + step) % 3 + 1 for step in range(3)] for first in range(PARTITIONS)]
            admin.create_topic(name, replica_assignment=assignment, configs={"min.insync.replicas": 2})
            admin.await_full_isr([name])
            contender(cluster.bootstrap_servers, name, min(100, options.transactions), options.size)
        for number in range(options.rounds):
            for name in contenders if number % 2 else reversed(list(contenders)):
                rate = contenders[name](cluster.bootstrap_servers, name, options.transactions, options.size)
                rates[name].append(rate)
            found = ", ".join(f"{name} {values[-1]:,.0f}/s" for name, values in rates.items())
            print(f"round {number + 1}: {found}", flush=True)
    ratios = [mine / theirs for mine, theirs in zip(rates["recorded"], rates["bare"], strict=True)]
    report: dict[str, object] = {name: round(statistics.median(values)) for name, values in rates.items()}
    report |= {"ratio_to_bare": round(statistics.median(ratios), 3), **vars(options)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
