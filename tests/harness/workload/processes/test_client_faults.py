"""Faults of clients that are processes of their own: who is killed, and who takes its place when that is over."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.producers import PacedProducers
from kafka_chaos.harness.workload.process_clients import ProcessConsumer, ProcessProducer
from tests.harness.workload.loads import load_of, running
from tests.harness.workload.processes.fake_client import Started
from tests.parquet import rows_in

KILLED_HARNESS = """
import os, signal, sys
from unittest.mock import Mock
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.workload.client_process import SupervisedProcess
begin = {"lane": "orders", "role": "producer"}
client = SupervisedProcess([sys.executable, "-c", "input(); input()"], begin, Mock(), name="p", on_notice=print)
client.pause()
wait_until(lambda: client.state()["Paused"], "the process to be stopped", timeout=30)
os.write(1, str(client.state()["Pid"]).encode())
os.kill(os.getpid(), signal.SIGKILL)
"""
READ = 'tell("read", partition=[0, 0], offset=[0, 1], producer_id=[3, 3], seq=[0, 1])'


@contextmanager
def producing(folder: Path) -> Iterator[tuple[PacedProducers, list[Started]]]:
    """A lane at work whose producer is a process, and those that were started."""
    started: list[Started] = []
    load = load_of(folder, workload=WorkloadSpec(rate=200), began=0.0)

    def connect(number: int, slot: int) -> ProcessProducer:
        started.append(Started("", folder))
        return ProcessProducer(
            started[-1], ProducedRows(load.tables, lane="orders", producer_id=number, partitions=RoundRobin(2))
        )

    producing = PacedProducers(connect, load)
    thread, sending = running(producing)
    try:
        yield producing, started
    finally:
        sending.clear()
        thread.join()
        producing.finish(20, threading.Event())
        load.tables.close()


def of_place(load: PacedProducers) -> SupervisedProcess:
    (slot,) = load.slots
    producer = wait_until(lambda: slot.client, "its producer", timeout=30)
    assert isinstance(producer, ProcessProducer)
    return producer.process


def test_a_producer_that_a_fault_kills_has_a_successor_once_that_is_over(tmp_path: Path) -> None:
    with producing(tmp_path) as (load, started):
        wait_until(lambda: load.acknowledged, "a record to be acknowledged", timeout=30)
        client = of_place(load)
        client.kill()
        assert client.state()["ExitCode"] == -signal.SIGKILL
        wait_until(lambda: load.slots[0].client is None, "the producer to be missed", timeout=30)
        assert len(load.producers) == 1, "nobody takes its place"
        client.start()
        wait_until(lambda: len(load.producers) == 2 and load.producers[1].rows.acknowledged, "a successor", timeout=30)
        assert [one.problems for one in started] == [[], []]
    rows = rows_in(tmp_path / "produced")
    assert {row["producer_id"] for row in rows} == {0, 1}
    assert {row["producer_id"] for row in rows if row["outcome"] == "info"} <= {0}
    assert len(rows) == load.sent


def test_a_kill_that_is_over_at_once_has_a_successor_too(tmp_path: Path) -> None:
    with producing(tmp_path) as (load, started):
        client = of_place(load)
        client.kill()
        client.start()
        wait_until(lambda: len(load.producers) == 2, "a successor", timeout=30)
        assert [one.problems for one in started] == [[], []]


def test_a_frozen_producer_goes_on_when_it_is_thawed(tmp_path: Path) -> None:
    with producing(tmp_path) as (load, started):
        client = of_place(load)
        client.pause()
        wait_until(lambda: client.state()["Paused"], "the process to be stopped", timeout=30)
        client.unpause()
        before = load.acknowledged
        wait_until(lambda: load.acknowledged > before, "it to go on", timeout=30)
        assert (len(load.producers), started[0].problems) == (1, [])


def test_a_frozen_client_of_a_harness_that_is_killed_ends() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED_HARNESS], stdout=subprocess.PIPE, check=False, timeout=60)
    status = Path("/proc") / done.stdout.decode() / "status"
    wait_until(lambda: not status.exists() or "State:\tZ" in status.read_text(), "the client to end", timeout=30)


def test_a_consumer_that_a_fault_kills_reads_from_the_start_under_a_new_name(tmp_path: Path) -> None:
    started, load = Started(READ, tmp_path), load_of(tmp_path)
    consumer = ProcessConsumer(started, LaneSpec(lane="orders"), load)
    wait_until(lambda: consumer.consumed == 2, "the fake client to read", timeout=30)
    (client,) = consumer.processes()
    client.kill()
    assert not consumer.processes()[0].is_running()
    client.start()
    client.start()
    wait_until(lambda: consumer.consumed == 4, "the next one to read", timeout=30)
    consumer.drain({0: 2}, timeout=20)
    (client,) = consumer.processes()
    client.kill()
    consumer.close()
    client.start()
    assert consumer.processes() == [client], "the fault ended after the consumer"
    load.tables.close()
    assert started.problems == []
    assert sorted(row["consumer"] for row in rows_in(tmp_path / "consumed")) == ["orders-1"] * 2 + ["orders-2"] * 2
