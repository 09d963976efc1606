"""The cost of a link: one million records to three brokers, directly, through links that read the frames, and traced.

    .venv/bin/python benchmarks/links.py [--records N] [--rounds N] [--acks all]

One producer and all replication pass the links. All ways take turns on one cluster. Prints the median of each; exits
with 1 if a link that only looks, or one that traces, loses more than a third of the throughput.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from kafka_chaos.faults.links.relay.links import Links
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import CLIENT_PORT, CONTROL_PORT, REPLICATION_PORT
from kafka_chaos.harness.signals import new_client

LEAST = 2 / 3
RECORD = b"x" * 100


def main() -> int:
    """Measure every way in turns, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--acks", default="all")
    options = parser.parse_args()
    rates: dict[str, list[float]] = {}
    with (
        Cluster(ClusterLayout(), run_id=f"bench-links-{secrets.token_hex(4)}") as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        for number in range(-1, options.rounds):
            for way in ("direct", "read", "traced"):
                topic = f"topic-{number + 1}-{way}"
                links = _links(cluster, Path(folder, f"{topic}.jsonl") if way == "traced" else None, way != "direct")
                try:
                    # A client of its own: connections that began before links came, or with them, have ended.
                    rate = _rate(cluster, topic, options.records, options.acks)
                finally:
                    if links is not None:
                        print(f"  {links.counts()}")
                        links.close()
                cluster.admin().delete_topics([topic])
                # The first turn of each warms brokers up.
                if number >= 0:
                    rates.setdefault(way, []).append(rate)
                print(f"{'warm-up' if number < 0 else number + 1}: {way}: {rate:,.0f} records/s", flush=True)
    medians = {way: statistics.median(measured) for way, measured in rates.items()}
    for way, median in medians.items():
        print(f"{way}: {median:,.0f} records/s, {median / medians['direct']:.0%} of direct")
    return int(any(median < LEAST * medians["direct"] for median in medians.values()))


def _links(cluster: Cluster, trace: Path | None, wanted: bool) -> Links | None:
    if not wanted:
        return None
    links = Links({node.address: node.name for node in cluster.nodes}, (CONTROL_PORT, REPLICATION_PORT, CLIENT_PORT))
    for node in cluster.brokers.values():
        links.link_to(node.name).attach(int(node.state()["Pid"]))
    if trace is not None:
        links.trace_to(trace)
    return links


def _rate(cluster: Cluster, topic: str, records: int, acks: str) -> float:
    """Records per second from the first one sent to the last one acknowledged."""
    admin = cluster.admin()
    admin.create_topic(topic, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]], configs={})
    admin.await_full_isr([topic])
    configs = {"bootstrap.servers": cluster.bootstrap_servers, "acks": acks, "linger.ms": 5, "log_level": 2}
    client = new_client(Producer, {**configs, "queue.buffering.max.messages": 1_000_000})
    start = time.monotonic()
    for number in range(records):
        while True:
            try:
                client.produce(topic, RECORD, partition=number % 3)
                break
            except BufferError:
                client.poll(0.05)
    assert client.flush(120) == 0
    return records / (time.monotonic() - start)


if __name__ == "__main__":
    raise SystemExit(main())
