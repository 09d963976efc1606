"""A bridge network whose containers keep their addresses, and host ports that brokers keep across a restart.

By default, Docker gives a restarted container the lowest free address: after two brokers were down, each could get the
address of the other, and the rules of a partition would hit the wrong broker. Fixed addresses need an explicit subnet
that no other network of the engine and no route of this machine uses.

Containers of users join the network, too. They get addresses of its upper half, so that no container takes the address
of a broker that is down.

Host ports are outside of the kernel's ephemeral range. Otherwise, the kernel could give a broker's port to an outgoing
connection while the broker is down; a client that tries to connect to it could even connect to itself.
"""

from __future__ import annotations

import ipaddress
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.contract.command.errors import EnvironmentFailure

if TYPE_CHECKING:
    from docker.models.networks import Network

    from docker import DockerClient

LOOPBACK = "127.0.0.1"
_ATTEMPTS = 20
_FIRST_NODE = 10
"""The last byte of the first node's address; the gateway has 1."""
_PRIVATE = ipaddress.IPv4Network("172.16.0.0/12")
_PREFIX_LENGTH = 24
_LOWEST_PORT = 15_000
_PROBES = 2_000
"""The most ports that are tried."""
_SILENCE = 0.2
"""The seconds within which a port that is taken accepts a connection."""


def create_network(client: DockerClient, name: str, labels: dict[str, str]) -> Network:
    """A labelled bridge network with an explicit subnet of 254 addresses, of which the lower half is for nodes."""
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    taken = [*_subnets_of_networks(client), *_routed_subnets()]
    free = [subnet for subnet in _PRIVATE.subnets(new_prefix=_PREFIX_LENGTH) if not any(map(subnet.overlaps, taken))]
    refusal: Exception | None = None
    for subnet in random.SystemRandom().sample(free, k=min(_ATTEMPTS, len(free))):
        _, upper_half = subnet.subnets()
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet), iprange=str(upper_half), gateway=str(subnet[1]))])
        try:
            return client.networks.create(name, driver="bridge", labels=labels, ipam=pool, check_duplicate=True)
        except APIError as error:
            # Another run may have taken the subnet meanwhile, or only the engine knows a route to it.
            refusal = error
    raise EnvironmentFailure(f"Docker gave no subnet of {_PRIVATE} for a network: {refusal or 'all are in use'}")


def node_addresses(network: Network, count: int) -> list[str]:
    """The first `count` addresses for nodes in the network's subnet."""
    network.reload()
    subnet = ipaddress.ip_network(network.attrs["IPAM"]["Config"][0]["Subnet"])
    return [str(subnet[_FIRST_NODE + index]) for index in range(count)]


def _subnets_of_networks(client: DockerClient) -> Iterator[ipaddress.IPv4Network]:
    for network in client.networks.list():
        for entry in network.attrs["IPAM"]["Config"] or ():
            subnet = ipaddress.ip_network(entry["Subnet"])
            if isinstance(subnet, ipaddress.IPv4Network):
                yield subnet


def _routed_subnets() -> Iterator[ipaddress.IPv4Network]:
    """The subnets that this machine has routes to, without the default route; none if the kernel does not tell."""
    try:
        lines = Path("/proc/net/route").read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        # Addresses are hexadecimal, with the last byte first.
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        address, netmask = (int.from_bytes(bytes.fromhex(text), "little") for text in (destination, mask))
        if netmask:
            yield ipaddress.IPv4Network((address, bin(netmask).count("1")))


def is_ipv4(host: str) -> bool:
    """Whether a host is written as an IPv4 address."""
    try:
        return bool(ipaddress.IPv4Address(host))
    except ValueError:
        return False


def address_of(host: str) -> str:
    """The IPv4 address of a host, to which ports can be published; raises `EnvironmentFailure` if it has none."""
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        message = f"advertise: {host} has no IPv4 address here ({error}): expected a host that this machine can resolve"
        raise EnvironmentFailure(message) from error


def free_ports(count: int, address: str = LOOPBACK) -> list[int]:
    """`count` different ports of an address that are free at the moment, as far as that can be known from here."""
    highest = _first_ephemeral_port() - 1
    if highest - _LOWEST_PORT < count * 2:
        # Below the ephemeral range there is no room on this machine.
        highest = 65_535
    ports: list[int] = []
    for candidate in random.SystemRandom().sample(range(_LOWEST_PORT, highest), k=min(_PROBES, highest - _LOWEST_PORT)):
        if _is_free(address, candidate):
            ports.append(candidate)
            if len(ports) == count:
                return ports
    raise EnvironmentFailure(
        f"found only {len(ports)} of {count} free ports on {address} between {_LOWEST_PORT} and {highest}: "
        "end what listens there"
    )


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        if address != LOOPBACK:
            # Only the engine's machine can bind the port. Behind a firewall, only the engine knows if it is taken.
            probe.settimeout(_SILENCE)
            return probe.connect_ex((address, port)) != 0
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _first_ephemeral_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
