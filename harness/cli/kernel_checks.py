"""Tries out for `kafka-chaos doctor` the kernel features that faults need, in a container and on a disk.

Guarantee: leaves nothing behind.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError, first_line
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.configuration.layout import ADVERTISE

if TYPE_CHECKING:
    from docker.models.containers import Container

_GREETING = b"kafka-chaos"
_GREETER = f"""use IO::Socket::INET; $SIG{{PIPE}} = "IGNORE";
my $listener = IO::Socket::INET->new(LocalPort => 9094, Listen => 5) or die;
while (my $client = $listener->accept) {{ print $client "{_GREETING.decode()}"; close $client }}"""
"""A program that greets every client that connects. It is in Perl, which every Debian-like image has."""


@dataclass(frozen=True)
class Check:
    """What one check `found`, and a `remedy`. `state`: ok, missing, or note (most runs work without it)."""

    name: str
    state: str
    found: str
    remedy: str = ""


def check_kernel(image: Check, host: str) -> Iterator[Check]:
    """Kernel features that faults need, tried in a short-lived container. `host`: where published ports are reached."""
    if image.state != "ok":
        remedy = "run `kafka-chaos prepare`, then `kafka-chaos doctor` again"
        yield Check("Kernel features", "note", "not checked: the image is missing", remedy)
        return
    from docker.errors import DockerException

    try:
        yield from _probe(image.found, host)
    except (DockerException, KafkaChaosError) as error:
        yield Check("Kernel features", "missing", f"no container could be started: {error}", "see the engine's log")


def check_broker_disks() -> Check:
    """Whether loop-mounted disks, which storage faults need, work here: a disk is made, broken and removed."""
    from kafka_chaos.faults.storage.devices.disk import bytes_lost_in_trial
    from kafka_chaos.faults.storage.disks import why_no_disks
    from kafka_chaos.harness.cluster.containers.labels import run_labels

    name, reason = "Disks of brokers", why_no_disks()
    if reason is not None:
        return _optional_check(name, reason, "", "storage faults")
    run_id = f"doctor-{secrets.token_hex(4)}"
    try:
        lost_bytes = bytes_lost_in_trial(run_id, run_labels(run_id, keep=False))
    except (KafkaChaosError, OSError) as error:
        return Check(name, "note", f"a loop mount failed: {error}", "only storage faults need it")
    return Check(name, "ok", f"a loop mount was frozen and thawed, and lost {lost_bytes} bytes when it was cut off")


def _probe(image: str, host: str) -> Iterator[Check]:
    """Start a container of the image, and try published ports, the packet filter, links and the freezer with it."""
    from kafka_chaos.faults.links.on_frames import why_no_links
    from kafka_chaos.faults.links.relay.links import try_link
    from kafka_chaos.harness.cluster.containers.cleanup import remove_run
    from kafka_chaos.harness.cluster.containers.engine import docker_client
    from kafka_chaos.harness.cluster.containers.labels import run_labels
    from kafka_chaos.harness.cluster.containers.network import address_of, create_network, free_ports

    client = docker_client()
    run_id = f"doctor-{secrets.token_hex(4)}"
    labels = run_labels(run_id, keep=False)
    try:
        address = address_of(host)
        (port,) = free_ports(1, address)
        container = client.containers.run(
            image,
            ["perl", "-e", _GREETER],
            detach=True,
            entrypoint=[],
            cap_add=["NET_ADMIN"],
            network=create_network(client, f"kafka-chaos-{run_id}", labels).name,
            ports={"9094/tcp": (address, port)},
            name=f"kafka-chaos-{run_id}",
            labels=labels,
        )
        yield _probe_port(host, port)

        def execute(*command: str) -> tuple[int, str]:
            result = container.exec_run(list(command))
            return int(result.exit_code), bytes(result.output).decode(errors="replace").strip()

        yield probe_packets(execute)
        container.reload()
        pid = int(container.attrs["State"]["Pid"])
        reason = why_no_links() or try_link(pid)
        success = "connections to a container were redirected to a link"
        yield _optional_check("Links", reason, success, "faults of requests")
        yield _probe_freezer(container)
    finally:
        remove_run(client, run_id)


def _optional_check(name: str, reason: str | None, success: str, needed_by: str) -> Check:
    """The result of a check that only some faults need. `reason`: `problem: remedy`, or None if the check passed."""
    if reason is None:
        return Check(name, "ok", success)
    found, _, remedy = reason.partition(": ")
    return Check(name, "note", found, f"{remedy}; only {needed_by} need it")


def _probe_port(host: str, port: int) -> Check:
    """Whether a container's published port leads to it. If the engine is elsewhere, no port of 127.0.0.1 does."""

    def greeted() -> bool:
        try:
            with socket.create_connection((host, port), timeout=1) as connection:
                return connection.recv(len(_GREETING)) == _GREETING
        except OSError:
            return False

    name = "Published ports"
    try:
        wait_until(greeted, "a container to answer", timeout=5)
    except ClusterFailure:
        remedy = f"set {ADVERTISE} to the host by which the engine's machine is reached, or run kafka-chaos there"
        return Check(name, "missing", f"{host}:{port} does not lead to the container that publishes it", remedy)
    return Check(name, "ok", f"a port on {host} leads to a container")


def _probe_freezer(container: Container) -> Check:
    from docker.errors import APIError

    from kafka_chaos.harness.cluster.containers.engine import freeze

    try:
        freeze(container)
    except (ClusterFailure, APIError) as error:
        reason = first_line(str(getattr(error, "explanation", error)))
        remedy = "`pause` needs the cgroup freezer: run the engine as root, or with cgroup version 2"
        return Check("Freezer", "missing", reason, remedy)
    container.unpause()
    return Check("Freezer", "ok", "a container was frozen and thawed")


def probe_packets(execute: Callable[..., tuple[int, str]]) -> Check:
    """Whether the packet filter, which network partitions need, works. `execute` runs a command in a container."""
    commands = [
        ("iptables", "-w", "-N", "KC-doctor"),
        ("iptables", "-w", "-A", "KC-doctor", "-p", "tcp", "--dport", "9092", "-j", "DROP"),
        ("iptables", "-w", "-A", "KC-doctor", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"),
    ]
    for command in commands:
        code, output = execute(*command)
        if code != 0:
            remedy = "load the kernel's modules ip_tables, iptable_filter and ipt_REJECT: network partitions need them"
            return Check("Packet filter", "missing", f"iptables: {first_line(output)}", remedy)
    return Check("Packet filter", "ok", "iptables takes DROP and REJECT rules in a container")
