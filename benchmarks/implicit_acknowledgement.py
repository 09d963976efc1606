"""How often an acknowledged record of a new producer is in no log (KAFKA-15591), by client, step by step on brokers.

    .venv/bin/python benchmarks/implicit_acknowledgement.py [ROUNDS] [--on VERSION/MODE ...]

In each round three clients get a new topic each, on the same brokers: librdkafka, librdkafka with one request in
flight, and Kafka's Java producer of the brokers' version. Their leader's ISR is below min.insync.replicas. It refuses
the first request; the second waits in a link until the ISR is whole. Rounds are added to
docs/implicit-acknowledgement.json until each cluster has ROUNDS of them, and the table in docs/findings.md is written
from it. Exits with 1 where a client loses nothing that should, or the other way round.
"""

from __future__ import annotations

import argparse
import json
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition, libversion
from tables import MODES, Row, read_rows, write_rows, write_table

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import REPLICATION_PORT

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/implicit-acknowledgement.json"
PAGE = ROOT / "docs/findings.md"
BEGIN, END = "<!-- from docs/implicit-acknowledgement.json -->", "<!-- end of implicit acknowledgement -->"
CLUSTERS = ("3.9.1/zookeeper", "4.3.1/kraft")
RECORDS = 20
BACKOFF_MS = 15_000
"""How long a client waits before it sends the first request again, a fifth more or less: longer than a round's hold."""
FEWEST_SECONDS_OF_BACKOFF = 0.8 * BACKOFF_MS / 1000
SETTINGS: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "retry.backoff.ms": BACKOFF_MS,
    "retry.backoff.max.ms": BACKOFF_MS,
}
IN_FLIGHT = "max.in.flight.requests.per.connection"
LIBRDKAFKA, ONE, JAVA = "librdkafka", "librdkafka, one request in flight", "Java"
LOSES = {LIBRDKAFKA: True, ONE: False, JAVA: False}


def librdkafka(cluster: Cluster, topic: str, in_flight: int) -> set[str]:
    """The records that it says are acknowledged."""
    acknowledged: set[str] = set()

    def report(error: object, message: Any) -> None:
        if error is None:
            acknowledged.add(message.value().decode())

    producer = Producer(
        {
            **SETTINGS,
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": topic,
            "batch.num.messages": 1,
            IN_FLIGHT: in_flight,
            "log_level": 0,
        }
    )
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=0, on_delivery=report)
    producer.flush(90)
    return acknowledged


def java(cluster: Cluster, topic: str) -> set[str]:
    """The records that VerifiableProducer, in a broker's container, says are acknowledged."""
    node = cluster.brokers[3]
    # Without retries, which VerifiableProducer sets to 0, there would be no idempotence.
    settings = {**SETTINGS, "client.id": topic, "batch.size": 1, "retries": 2**31 - 1, "delivery.timeout.ms": 60_000}
    text = "".join(f"{key}={str(value).lower()}\n" for key, value in settings.items())
    node.write_file(f"/tmp/{topic}.properties", text)
    output = node.must_execute(
        *("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", "/opt/kafka/jars/*"),
        *("org.apache.kafka.tools.VerifiableProducer", "--topic", topic, "--max-messages", str(RECORDS)),
        *("--bootstrap-server", f"broker-1:{REPLICATION_PORT}", "--producer.config", f"/tmp/{topic}.properties"),
    )
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {event["value"] for event in events if event["name"] == "producer_send_success"}


def stored(cluster: Cluster, topic: str) -> list[str]:
    """The records in the log, as consumers get them."""
    configs = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "enable.partition.eof": True}
    consumer = Consumer({**configs, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        found.append((message.value() or b"").decode())
    consumer.close()
    if message is None:
        raise SystemExit(f"no end of {topic} within a minute")
    return found


def await_isr(admin: ClusterAdmin, topics: list[str], size: int) -> None:
    """Wait until every topic's ISR has so many members."""

    def sizes() -> list[int]:
        # A broker may not know a new topic yet.
        return [sum(len(partition.isr) for partition in admin.partitions(topic).values()) for topic in topics]

    wait_until(lambda: set(sizes()) == {size}, f"ISRs of {size}", timeout=60, seen=lambda: str(sizes()))


def await_leader(cluster: Cluster, topics: list[str]) -> None:
    """Wait until the leader knows of the second member, too: in KRaft mode, other brokers may know it before."""

    def sizes() -> list[int]:
        with cluster.broker_client(1) as leader:
            return [len(leader.metadata(topic).isr) for topic in topics]

    wait_until(lambda: set(sizes()) == {2}, "the leader's ISRs of 2", timeout=60, seen=lambda: str(sizes()))


def play(cluster: Cluster, admin: ClusterAdmin, number: int) -> dict[str, list[str]]:
    """One round: by client, the records that are acknowledged and in no log."""
    topics = {client: f"round-{number}-{index}" for index, client in enumerate(LOSES)}
    names = list(topics.values())
    for topic in names:
        admin.create_topic(topic, replica_assignment=[[1, 2]], configs={"min.insync.replicas": 2})
    await_isr(admin, names, 2)
    link = cluster.brokers[1].link
    assert link is not None
    held = [topics[LIBRDKAFKA], topics[JAVA]]
    for topic in held:
        link.apply(topic, action="hold", api="Produce", client_id=topic, nth=2)
    link.apply(topics[ONE], action="delay", seconds=0.0, api="Produce", client_id=topics[ONE])

    def passed(topic: str) -> int:
        return int((link.tally(topic) or {"taken": 0})["taken"])

    with ThreadPoolExecutor(3) as threads:
        cluster.brokers[2].pause()
        try:
            await_isr(admin, names, 1)
            clients: dict[str, Future[set[str]]] = {JAVA: threads.submit(java, cluster, topics[JAVA])}
            wait_until(lambda: passed(topics[JAVA]), "Java's second request", timeout=60)
            since = time.monotonic()
            clients[LIBRDKAFKA] = threads.submit(librdkafka, cluster, topics[LIBRDKAFKA], 5)
            clients[ONE] = threads.submit(librdkafka, cluster, topics[ONE], 1)
            wait_until(lambda: all(map(passed, names)), "the requests of all clients", timeout=60)
        finally:
            cluster.brokers[2].unpause()
        await_isr(admin, names, 2)
        await_leader(cluster, names)
        lasted = time.monotonic() - since
        for topic in names:
            link.lift(topic, release=True)
        acknowledged = {client: future.result(120) for client, future in clients.items()}
    if lasted > FEWEST_SECONDS_OF_BACKOFF:
        raise SystemExit(f"the second request was held for {lasted:.1f} s: the first may have been sent again before")
    return {client: sorted(acknowledged[client] - set(stored(cluster, topic))) for client, topic in topics.items()}


def play_rounds(on: str, rounds: int) -> None:
    """Add rounds to what is on record of a cluster, until there are so many."""
    version, mode = on.split("/")
    place = {"controller": 3} if mode != KRAFT else {"controllers": 1}
    layout = ClusterLayout(
        kafka_version=version,
        metadata_mode=mode,
        links=True,
        broker_configs={"replica.lag.time.max.ms": 3000},
        **place,  # type: ignore[arg-type]
    )
    done = sum(row["rounds"] for row in read_rows(RESULTS) if row["cluster"] == on)
    if done >= rounds:
        return
    with Cluster(layout, run_id=f"bench-{secrets.token_hex(4)}") as cluster:
        admin = cluster.admin()
        for number in range(done, rounds):
            lost = {client: records for client, records in play(cluster, admin, number).items() if records}
            row = {"cluster": on, "librdkafka": libversion()[0], "lost": lost}
            print(json.dumps(row), flush=True)
            write(counted(read_rows(RESULTS), row))


def counted(rows: list[Row], row: Row) -> list[Row]:
    """The rounds with one more, which counts among those that are like it."""
    like = [one for one in rows if row.items() <= one.items()]
    rounds = 1 + sum(one["rounds"] for one in like)
    return [*(one for one in rows if one not in like), {**row, "rounds": rounds}]


def table(rows: list[Row]) -> str:
    """In how many rounds each client lost acknowledged records, by cluster."""
    lines = [f"| brokers | rounds | {' | '.join(LOSES)} |", "| --- " * (2 + len(LOSES)) + "|"]
    for on in CLUSTERS:
        mine = [row for row in rows if row["cluster"] == on]
        version, mode = on.split("/")
        counts = " | ".join(str(sum(row["rounds"] for row in mine if client in row["lost"])) for client in LOSES)
        lines.append(f"| {version}, {MODES[mode]} | {sum(row['rounds'] for row in mine)} | {counts} |")
    return "\n".join(lines)


def write(rows: list[Row]) -> None:
    """Keep the rounds, and write the table."""
    write_rows(rows, RESULTS)
    write_table(PAGE, BEGIN, table(rows), END)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=20)
    parser.add_argument("--on", action="append", choices=CLUSTERS)
    chosen = parser.parse_args()
    for on in chosen.on or CLUSTERS:
        play_rounds(on, chosen.rounds)
    found = read_rows(RESULTS)
    raise SystemExit(any((client in row["lost"]) != loses for row in found for client, loses in LOSES.items()))
