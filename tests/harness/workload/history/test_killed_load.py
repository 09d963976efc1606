"""A load that is killed with SIGKILL at any moment loses at most the last second of its history."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.history.recovery import recover
from kafka_chaos.harness.workload.history.reservations import RESERVED
from tests.parquet import rows_in

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SECOND_NS = 1_000_000_000
REPORTS_NS = 20_000_000
_random = random.Random(12)
MOMENTS = [round(_random.uniform(0.0, 6.0), 3) for _ in range(25)]
"""Seconds after the first acknowledgements."""


@pytest.mark.parametrize("after", MOMENTS)
def test_a_killed_load_keeps_all_but_its_last_second(
    after: float, cluster: Cluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    lanes = [f"killed-{after}-{number}" for number in range(4)]
    for index, lane in enumerate(lanes):
        assignment = [[1, 2, 3]] * (1 + index % 2)
        admin.create_topic(lane, replica_assignment=assignment, configs={"min.insync.replicas": 2})
    admin.await_full_isr(lanes)
    reports, killed_ns = load_and_kill(after, cluster.bootstrap_servers, tmp_path, lanes)
    # The second is that of a process that has a processor. It reports every 20 ms where it has one.
    times = [*(at_ns for at_ns, _ in reports if at_ns <= killed_ns), killed_ns]
    late = [after - before for before, after in pairwise(times) if after > killed_ns - 2 * SECOND_NS]
    stalled_ns = max(late, default=0) - REPORTS_NS
    known = [counts for at_ns, counts in reports if at_ns <= killed_ns - SECOND_NS - max(0, stalled_ns)]
    last = reports[-1][1]

    produced, consumed = rows_in(tmp_path / "produced"), rows_in(tmp_path / "consumed")
    ok = Counter(row["lane"] for row in produced if row["outcome"] == "ok")
    read = Counter(row["lane"] for row in consumed)
    for lane in lanes:
        _, acknowledged_by_then, consumed_by_then = known[-1][lane] if known else (0, 0, 0)
        assert ok[lane] >= acknowledged_by_then, f"killed after {after} s: acknowledgements of {lane} are lost"
        assert read[lane] >= consumed_by_then, f"killed after {after} s: reads of {lane} are lost"

    added = recover(tmp_path)
    rows = rows_in(tmp_path / "produced")
    assert len(rows) == len(produced) + added
    seqs = {lane: Counter(row["seq"] for row in rows if row["lane"] == lane) for lane in lanes}
    for index, lane in enumerate(lanes):
        assert max(seqs[lane].values()) == 1, "no record has two rows"
        stored = read_back(cluster, lane, partitions=1 + index % 2, ends=admin.end_offsets(lane, range(1 + index % 2)))
        assert stored <= set(seqs[lane]), "no record in the log is without a row"
        assert len(seqs[lane]) <= last[lane][0] + 1_500 + RESERVED, "what was never sent is not counted"


def load_and_kill(
    after: float, servers: str, folder: Path, lanes: list[str]
) -> tuple[list[tuple[int, dict[str, Any]]], int]:
    command = [sys.executable, "-m", "tests.harness.workload.history.load_until_killed", servers, str(folder), *lanes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(after)
        killed_ns = time.monotonic_ns()
        process.kill()
        lines = [first, *process.stdout]
    return [json.loads(line) for line in lines if line.endswith("\n")], killed_ns


def read_back(cluster: Cluster, topic: str, *, partitions: int, ends: dict[int, int]) -> set[int]:
    codec = IdentityCodec(topic)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "read-back"})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    left, seqs = sum(ends.values()), set()
    while left > 0:
        for message in consumer.consume(10_000, timeout=1):
            assert message.error() is None
            seqs.add(codec.decode(message.value())[1])
            left -= 1
    consumer.close()
    return seqs
