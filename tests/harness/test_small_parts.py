"""Labels, ports, waiting, configuration keys, run directories: the parts without a cluster."""

import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.command.errors import EnvironmentFailure, WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.cluster import Cluster, Keep
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import zookeeper_properties
from kafka_chaos.harness.cluster.containers.labels import OWNER, RUN, current_owner, owner_is_alive, run_labels
from kafka_chaos.harness.cluster.containers.network import free_ports
from kafka_chaos.harness.run.runner import Stages
from tests.processes import runs


def test_a_process_that_ended_and_was_not_asked_how_is_not_alive() -> None:
    assert owner_is_alive(run_labels("a", keep=False))
    program = "from kafka_chaos.harness.cluster.containers.labels import current_owner; print(current_owner())"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        wait_until(lambda: not runs(process.pid), "the process to end", timeout=10)
        assert not owner_is_alive({OWNER: owner})


def test_an_earlier_boot_of_this_machine_is_over_and_another_machine_is_not_judged() -> None:
    machine, _, pid, start = current_owner().split(":")
    assert not owner_is_alive({OWNER: f"{machine}:another-boot:{pid}:{start}"})
    assert owner_is_alive({OWNER: f"elsewhere:another-boot:{pid}:{start}"})
    assert owner_is_alive({OWNER: f"{machine.rpartition('-')[0]}-1:another-boot:{pid}:{start}"}), "in another container"


@pytest.mark.parametrize("labels", [{}, {OWNER: ""}, {OWNER: "1:2"}, {RUN: "x"}])
def test_what_can_not_be_told_counts_as_alive(labels: dict[str, str]) -> None:
    assert owner_is_alive(labels)


def test_an_error_that_an_interrupt_caused_keeps_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("docker_client", "remove_run", "was_interrupted"):
        monkeypatch.setattr(f"kafka_chaos.harness.cluster.cluster.{name}", Mock())
    cluster = Cluster(ClusterLayout(), run_id="x", keep=Keep.FAILED)
    cluster.__exit__(BrokenPipeError, BrokenPipeError(), None)
    assert not cluster.kept


def test_a_broker_that_the_kernel_ended_is_no_violation() -> None:
    node = Mock(state=lambda: {"OOMKilled": True})
    node.name = "broker-2"
    with pytest.raises(EnvironmentFailure, match="broker-2 was killed by the kernel"):
        Stages.collect(Mock(), Mock(nodes=[node]), Mock())


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
