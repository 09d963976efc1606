"""Labels, ports, waiting, configuration keys, run directories: the parts without a cluster."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import FaultProven, Step
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import broker_properties
from kafka_chaos.harness.cluster.containers.labels import OWNER, RUN, current_owner, owner_is_alive, run_labels
from kafka_chaos.harness.cluster.containers.network import free_ports
from kafka_chaos.harness.cluster.containers.versions import VERSIONS
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.event_bus import EventBus, EventFile
from kafka_chaos.harness.run.directory import LATEST, RunDirectoryWriter, new_run_id


def test_the_owner_of_a_living_process_is_alive_and_of_an_ended_one_is_not() -> None:
    assert owner_is_alive(run_labels("a", keep=False))
    program = "from kafka_chaos.harness.cluster.containers.labels import current_owner; print(current_owner())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    assert not owner_is_alive({OWNER: ended})


def test_a_process_that_ended_and_was_not_asked_how_is_not_alive() -> None:
    program = "from kafka_chaos.harness.cluster.containers.labels import current_owner; print(current_owner())"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        wait_until(lambda: _is_zombie(process.pid), "the process to end", timeout=10)
        assert not owner_is_alive({OWNER: owner})


def _is_zombie(pid: int) -> bool:
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_a_process_id_that_is_used_again_is_another_owner() -> None:
    machine, boot, pid, start = current_owner().split(":")
    assert int(pid) == os.getpid()
    assert not owner_is_alive({OWNER: f"{machine}:{boot}:{pid}:{int(start) - 1}"})


def test_an_earlier_boot_of_this_machine_is_over_and_another_machine_is_not_judged() -> None:
    machine, _, pid, start = current_owner().split(":")
    assert not owner_is_alive({OWNER: f"{machine}:another-boot:{pid}:{start}"})
    assert owner_is_alive({OWNER: f"elsewhere:another-boot:{pid}:{start}"})


@pytest.mark.parametrize("labels", [{}, {OWNER: ""}, {OWNER: "1:2"}, {RUN: "x"}])
def test_what_can_not_be_told_counts_as_alive(labels: dict[str, str]) -> None:
    assert owner_is_alive(labels)


def test_ports_are_free_different_and_outside_the_ephemeral_range() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < first for port in ports)
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_a_time_out_says_what_was_waited_for_and_seen() -> None:
    with pytest.raises(WaitTimeout, match=r"gave up waiting for the moon after 0\.\d s; seen last: clouds"):
        wait_until(lambda: None, "the moon", timeout=0.05, interval=0.01, seen=lambda: "clouds")


def test_cancelling_ends_a_wait_at_once() -> None:
    cancelled = threading.Event()
    cancelled.set()
    start = time.monotonic()
    with pytest.raises(WaitTimeout, match="stopped waiting for the moon"):
        wait_until(lambda: None, "the moon", timeout=60, interval=30, cancelled=cancelled)
    assert time.monotonic() - start < 30


def test_given_broker_configurations_go_over_the_defaults_but_not_over_the_harness_s_own() -> None:
    configs = {"zookeeper.session.timeout.ms": 9_000, "unclean.leader.election.enable": True}
    node = Node("broker-2", "broker", 2, "", 15_001, "")
    text = broker_properties(ClusterLayout(broker_configs=configs), node, VERSIONS["3.9.1"], {})
    lines = text.splitlines()
    assert "zookeeper.session.timeout.ms=9000" in lines
    assert "unclean.leader.election.enable=true" in lines
    assert "broker.id=2" in lines
    assert "advertised.listeners=CLIENT://127.0.0.1:15001,REPLICATION://broker-2:9092,CONTROL://broker-2:9091" in lines
    assert len({line.split("=")[0] for line in lines}) == len(lines)


def test_run_directories_are_apart_and_the_latest_is_pointed_to(tmp_path: Path) -> None:
    first, second = (RunDirectoryWriter(tmp_path, new_run_id("My_Experiment.v2")) for _ in range(2))
    assert first.path != second.path
    assert "my-experiment-v2" in first.run_id
    assert (tmp_path / LATEST).resolve() == second.path.resolve()
    first.write_json("x.json", {"a": 1})
    assert json.loads((first.path / "x.json").read_text()) == {"a": 1}
    assert sorted(path.name for path in first.path.iterdir()) == ["logs", "x.json"]


def test_events_reach_every_listener_and_the_file_as_they_happen(tmp_path: Path) -> None:
    heard: list[str] = []
    file = EventFile(tmp_path / "events.jsonl")
    bus = EventBus(file, lambda event: heard.append(type(event).__name__))
    bus.emit(Step(text="waiting"))
    bus.emit(FaultProven(fault_id="kill-1", evidence={"broker-1": {"ExitCode": 137}}))
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    file.close()
    assert heard == ["Step", "FaultProven"]
    assert [line["type"] for line in lines] == ["step", "fault_proven"]
    assert lines[0]["ts_ns"] <= lines[1]["ts_ns"]
    assert lines[1]["evidence"] == {"broker-1": {"ExitCode": 137}}
