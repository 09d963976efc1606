"""Labels, ports, waiting, configuration keys, run directories: the parts without a cluster."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import zookeeper_properties
from kafka_chaos.harness.cluster.containers.labels import OWNER, RUN, current_owner, owner_is_alive, run_labels
from kafka_chaos.harness.cluster.containers.network import free_ports
from tests.processes import runs


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
        wait_until(lambda: not runs(process.pid), "the process to end", timeout=10)
        assert not owner_is_alive({OWNER: owner})


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


def test_an_ensemble_names_its_servers_and_a_single_one_does_not() -> None:
    assert "server." not in zookeeper_properties(ClusterLayout())
    text = zookeeper_properties(ClusterLayout(zookeepers=3))
    assert "server.3=zookeeper-3:2888:3888" in text
