"""Recorded load against bare confluent-kafka and Kafka's own ProducerPerformance, in alternation on one cluster.

    .venv/bin/python benchmarks/load.py [--records 1000000] [--rounds 5]

Same record size (100 bytes), acks=all, linger.ms=50, replication factor 3, min.insync.replicas 2, six partitions, one
producer each. With a linger of 5 ms the brokers, not the clients, set the pace: on two cores they handle 5 ms batches
of six partitions no faster than about 170,000 records per second, whoever sends them.
ProducerPerformance runs inside a broker's container, beside the brokers. The last line is JSON: medians in records per
second, and the ratios of the recorded load to both others (median of the ratios round by round).
"""

from __future__ import annotations

import argparse
import json
import resource
import secrets
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from kafka_chaos.harness.admin import ClusterAdmin
from kafka_chaos.harness.cluster import Cluster, ClusterSpec
from kafka_chaos.harness.history import HistoryWriter, Reservations
from kafka_chaos.harness.recorded_producer import RecordedProducer
from kafka_chaos.harness.server_properties import REPLICATION_PORT

RECORD_SIZE = 100
PARTITIONS = 6
PER_CALL = 1_000
LINGER_MS = 50


def recorded(cluster: Cluster, topic: str, records: int) -> float:
    """Records per second of the harness's own producer, its history on disk included."""
    with tempfile.TemporaryDirectory() as folder:
        writer, reservations = HistoryWriter(Path(folder) / "produced"), Reservations(Path(folder))
        producer = RecordedProducer(
            lane=topic,
            topic=topic,
            producer_id=0,
            partitions=PARTITIONS,
            record_size=RECORD_SIZE,
            configs=configs(cluster),
            writer=writer,
            reservations=reservations,
        )
        start = time.monotonic()
        while producer.sent < records:
            accepted = producer.send(min(PER_CALL, records - producer.sent))
            producer.poll(0.0 if accepted else 0.01)
        left = producer.finish(120, threading.Event())
        writer.close()
        seconds = time.monotonic() - start
        reservations.close()
        if left or producer.acknowledged != records:
            raise SystemExit(f"only {producer.acknowledged} of {records} records were acknowledged")
    return records / seconds


def bare(cluster: Cluster, topic: str, records: int) -> float:
    """Records per second of confluent-kafka alone, with a callback that does nothing."""

    def on_delivery(error: object, message: object) -> None:
        pass

    producer = Producer(configs(cluster))
    value = b"x" * RECORD_SIZE
    start = time.monotonic()
    sent = 0
    while sent < records:
        try:
            producer.produce(topic, value, None, sent % PARTITIONS, on_delivery)
        except BufferError:
            producer.poll(0.01)
            continue
        sent += 1
        if sent % PER_CALL == 0:
            producer.poll(0)
    producer.flush()
    return records / (time.monotonic() - start)


def producer_performance(cluster: Cluster, topic: str, records: int) -> float:
    """Records per second as Kafka's own ProducerPerformance class reports them."""
    output = cluster.brokers[1].must_execute(
        *("java", "-Xmx256m", "-cp", "/opt/kafka/jars/*", "org.apache.kafka.tools.ProducerPerformance"),
        *("--topic", topic, "--num-records", str(records), "--record-size", str(RECORD_SIZE), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers=broker-1:{REPLICATION_PORT}", "acks=all", f"linger.ms={LINGER_MS}"),
    )
    return float(output.strip().splitlines()[-1].split(" records/sec")[0].split()[-1])


def configs(cluster: Cluster) -> dict[str, object]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": LINGER_MS, "log_level": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    contenders: dict[str, Callable[[Cluster, str, int], float]] = {
        "recorded": recorded,
        "bare": bare,
        "producer_performance": producer_performance,
    }
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    with Cluster(ClusterSpec(), run_id=f"bench-{secrets.token_hex(4)}") as cluster:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        for name in contenders:
            assignment = [[(first + step) % 3 + 1 for step in range(3)] for first in range(PARTITIONS)]
            admin.create_topic(name, replica_assignment=assignment, configs={"min.insync.replicas": 2})
        admin.await_full_isr(list(contenders))
        for name, contender in contenders.items():
            contender(cluster, name, min(100_000, options.records))
        for number in range(options.rounds):
            for name, contender in contenders.items():
                rates[name].append(contender(cluster, name, options.records))
            told = ", ".join(f"{name} {values[-1]:,.0f}/s" for name, values in rates.items())
            print(f"round {number + 1}: {told}", flush=True)
    report: dict[str, object] = {name: round(statistics.median(values)) for name, values in rates.items()}
    for other in ("bare", "producer_performance"):
        pairs = zip(rates["recorded"], rates[other], strict=True)
        report[f"ratio_to_{other}"] = round(statistics.median(mine / theirs for mine, theirs in pairs), 2)
    report["peak_memory_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    report |= {"records": options.records, "rounds": options.rounds}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
