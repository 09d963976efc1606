"""How many recorded records a second each kind of client writes, in a process of its own, and reads.

    .venv/bin/python benchmarks/clients.py [KIND ...] [--records 400000]

One topic of six partitions, replication factor 3, min.insync.replicas 2, acks=all, idempotent where the client has
several requests in flight then, records of 100 bytes. The producer is given as many records as it takes; its history,
on disk, counts. Nobody reads meanwhile. Then the consumer reads them from the start. Each line is JSON.
"""

from __future__ import annotations

import argparse
import json
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ClientFailed
from kafka_chaos.harness.clients.kinds import KINDS, parse_client
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.lane_load import LaneClients
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.worker import Worker

PARTITIONS = 6
FIRST_WITHIN, WITHIN = 60.0, 200.0
AIM, AIMS = 5_000, {"java": 50_000}
MOST = 1_000_000
"""Records a second that are asked for: more than any client takes."""


def measured(cluster: Cluster, name: str, records: int) -> dict[str, object]:
    """Records a second that a kind has written and read, each with its row on disk, over so many of them."""
    kind = KINDS[name.partition(" ")[0]]
    lane = LaneSpec(
        lane=f"bench-{secrets.token_hex(3)}",
        client=name,
        partitions=PARTITIONS,
        min_insync_replicas=2,
        idempotence=5 in kind.idempotent_in_flight,
    )
    admin = cluster.admin()
    admin.create_topic(lane.lane, replica_assignment=lane.replica_assignment(3), configs={"min.insync.replicas": 2})
    admin.await_full_isr([lane.lane])
    problems: list[object] = []
    with tempfile.TemporaryDirectory() as folder:
        tables = LoadTables(Path(folder), [lane])
        settings = LoadSettings(
            bootstrap_servers=cluster.bootstrap_servers,
            workload=WorkloadSpec(rate=MOST),
            tables=tables,
            on_notice=print,
            emit=lambda event: problems.append(event) if isinstance(event, ClientFailed) else None,
        )
        producer, sending = LaneClients(lane, settings).make_producers(), threading.Event()
        sending.set()
        writing = Worker(lambda: producer.run(sending), name="writing")
        writing.start()
        _await(lambda: producer.acknowledged, "a record to be acknowledged", problems)
        began, before = time.monotonic(), producer.acknowledged
        _await(lambda: producer.acknowledged >= before + records, f"{records:,} records more", problems, within=WITHIN)
        written = (producer.acknowledged - before) / (time.monotonic() - began)
        sending.clear()
        writing.join()
        writing.raise_error()
        producer.finish(FIRST_WITHIN, threading.Event())
        ends = admin.end_offsets(lane.lane, range(PARTITIONS))
        (consumer,), _ = LaneClients(lane, settings).make_readers()
        _await(lambda: consumer.consumed, "a record to be read", problems)
        first, began = consumer.consumed, time.monotonic()
        consumer.drain(ends, timeout=WITHIN)
        read = (sum(ends.values()) - first) / max(time.monotonic() - began, 1e-3)
        consumer.close()
        tables.close()
    return {"client": name, "written": round(written), "read": round(read), "problems": [str(one) for one in problems]}


def _await(count: Callable[[], int], what: str, problems: list[object], *, within: float = FIRST_WITHIN) -> None:
    """Wait until something is counted, or the client has a problem; raises `WaitTimeout`."""
    wait_until(lambda: count() or problems, what, timeout=within, interval=0.01)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", default=[f"{kind.name} {kind.version}" for kind in KINDS.values()])
    parser.add_argument("--records", type=int, default=400_000)
    given = parser.parse_args()
    for text in given.clients:
        if (client := parse_client(text)) is not None:
            client.fetch(print)
    with Cluster(ClusterLayout(controller=3), run_id=f"bench-{secrets.token_hex(4)}") as running:
        for text in given.clients:
            aim = AIMS.get(text.partition(" ")[0], AIM)
            print(json.dumps({**measured(running, text, given.records), "aim": aim}), flush=True)
