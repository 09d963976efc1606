"""Recorded load against bare confluent-kafka and Kafka's own ProducerPerformance, in alternation on one cluster.

    .venv/bin/python benchmarks/load.py [--records 1000000] [--rounds 5] [--against CHECKOUT | --high-watermarks]

Same record size (100 bytes), acks=all, linger.ms=50, replication factor 3, min.insync.replicas 2, six partitions, one
producer each. With a linger of 5 ms, the brokers limit the rate, not the clients: on two cores they handle 5 ms batches
of six partitions no faster than about 170,000 records per second, with any client.
ProducerPerformance runs inside a broker's container, beside the brokers.

`--against` compares with the recorded load of another checkout of this project instead, one process each, in turn.
`--high-watermarks` measures what recording the brokers' high watermarks costs: the share of a core that it takes for
28 partitions while one topic is loaded.

The last line is JSON: medians in records per second, and the ratios of the recorded load to the others (median of the
ratios round by round).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import Producer

from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import REPLICATION_PORT
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.tables import LoadTables

RECORD_SIZE = 100
PARTITIONS = 6
PER_CALL = 1_000
LINGER_MS = 50


def recorded(bootstrap_servers: str, topic: str, records: int) -> float:
    """Records per second of the harness's own producer, its history on disk included."""
    with tempfile.TemporaryDirectory() as folder:
        tables = LoadTables(Path(folder))
        producer = RecordedProducer(
            ProducedRows(tables, lane=topic, producer_id=0, partitions=RoundRobin(PARTITIONS)),
            topic=topic,
            record_size=RECORD_SIZE,
            configs=configs(bootstrap_servers),
        )
        start = time.monotonic()
        while producer.sent < records:
            accepted = producer.send(min(PER_CALL, records - producer.sent))
            producer.poll(0.0 if accepted else 0.01)
        producer.finish(120, threading.Event())
        tables.close()
        seconds = time.monotonic() - start
        if producer.rows.acknowledged != records:
            raise SystemExit(f"only {producer.rows.acknowledged} of {records} records were acknowledged")
    return records / seconds


def bare(cluster: Cluster, topic: str, records: int) -> float:
    """Records per second of confluent-kafka alone, with a callback that does nothing."""

    def on_delivery(error: object, message: object) -> None:
        pass

    producer = Producer(configs(cluster.bootstrap_servers))
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


def configs(bootstrap_servers: str) -> dict[str, object]:
    return {"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": LINGER_MS, "log_level": 0}


def in_own_process(checkout: Path) -> Callable[[Cluster, str, int], float]:
    """The recorded load with the code of `checkout`, in a separate process."""

    def measure(cluster: Cluster, topic: str, records: int) -> float:
        command = [
            sys.executable,
            str(checkout / "benchmarks/load.py"),
            "--records",
            str(records),
            "--recorded",
            cluster.bootstrap_servers,
            topic,
        ]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, check=True)
        return float(done.stdout)

    return measure


def alternate(
    contenders: Mapping[str, Callable[[Cluster, str, int], float]], *, records: int, rounds: int
) -> dict[str, list[float]]:
    """Every contender's records per second, round by round, on one cluster."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    with Cluster(ClusterLayout(), run_id=f"bench-{secrets.token_hex(4)}") as cluster:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        for name in contenders:
            assignment = [[(first + step) % 3 + 1 for step in range(3)] for first in range(PARTITIONS)]
            admin.create_topic(name, replica_assignment=assignment, configs={"min.insync.replicas": 2})
        admin.await_full_isr(list(contenders))
        for name, contender in contenders.items():
            contender(cluster, name, min(100_000, records))
        for number in range(rounds):
            for name in contenders if number % 2 else reversed(list(contenders)):
                rates[name].append(contenders[name](cluster, name, records))
            found = ", ".join(f"{name} {values[-1]:,.0f}/s" for name, values in rates.items())
            print(f"round {number + 1}: {found}", flush=True)
    return rates


def cost_of_high_watermarks(records: int) -> dict[str, object]:
    """Processor time of recording high watermarks by elapsed time, while another process loads one of twelve topics."""
    # Not above: an older checkout that is measured with `--against` has no such recorder.
    from kafka_chaos.harness.event_bus import EventBus
    from kafka_chaos.harness.experiment.lane_specs import LaneSpec
    from kafka_chaos.harness.run.observing.monitor import HighWatermarkRecorder

    lanes = [LaneSpec(lane=f"lane-{number}", partitions=2) for number in range(11)]
    lanes.append(LaneSpec(lane="recorded", partitions=PARTITIONS))
    with Cluster(ClusterLayout(), run_id=f"bench-{secrets.token_hex(4)}") as cluster:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        for lane in lanes:
            assignment = [[(first + step) % 3 + 1 for step in range(3)] for first in range(lane.partitions)]
            admin.create_topic(lane.lane, replica_assignment=assignment, configs={"min.insync.replicas": 2})
        admin.await_full_isr([lane.lane for lane in lanes])
        brokers = {broker: cluster.addresses[broker] for broker in cluster.brokers}
        load = in_own_process(Path(__file__).resolve().parents[1])
        start, used = time.monotonic(), time.process_time()
        with HighWatermarkRecorder(brokers, lanes, EventBus()) as recorder:
            load(cluster, "recorded", records)
        elapsed, used = time.monotonic() - start, time.process_time() - used
    return {"share_of_a_core": round(used / elapsed, 4), "reports": recorder.reports, "seconds": round(elapsed, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--high-watermarks", action="store_true")
    parser.add_argument("--recorded", nargs=2, metavar=("SERVERS", "TOPIC"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.recorded:
        print(recorded(*options.recorded, options.records))
        return
    if options.high_watermarks:
        print(json.dumps(cost_of_high_watermarks(options.records)))
        return
    contenders: dict[str, Callable[[Cluster, str, int], float]] = {
        "recorded": lambda cluster, topic, records: recorded(cluster.bootstrap_servers, topic, records),
        "bare": bare,
        "producer_performance": producer_performance,
    }
    if options.against:
        here = Path(__file__).resolve().parents[1]
        contenders = {"recorded": in_own_process(here), "other_checkout": in_own_process(options.against.resolve())}
    rates = alternate(contenders, records=options.records, rounds=options.rounds)
    report: dict[str, object] = {name: round(statistics.median(values)) for name, values in rates.items()}
    for other in [name for name in contenders if name != "recorded"]:
        pairs = zip(rates["recorded"], rates[other], strict=True)
        report[f"ratio_to_{other}"] = round(statistics.median(mine / theirs for mine, theirs in pairs), 3)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN if options.against else resource.RUSAGE_SELF)
    report["peak_memory_mib"] = round(usage.ru_maxrss / 1024)
    report |= {"records": options.records, "rounds": options.rounds}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
