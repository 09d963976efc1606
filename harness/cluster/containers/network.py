"""A bridge network whose containers keep their addresses, and host ports that brokers keep across a restart.

By default, Docker gives a restarted container the lowest free address: after two brokers were down, each could get the
address of the other, and packet filter rules of a network partition would hit the wrong broker. Fixed addresses need an
explicit subnet that no other network of the engine and no route of this machine uses.

Users may let containers of their own join the network. Docker takes their addresses from the upper half of the
subnet, so that none of them gets the address of a broker that is down.

Host ports are outside of the kernel's ephemeral range. Otherwise, the kernel could give the port of a broker that is
down to an outgoing connection; a client that tries to connect to the broker could even connect to itself.
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
_MOST_SUBNETS_TRIED = 20
_FIRST_NODE = 10  # the last byte of the first node's address; the gateway has 1
_PRIVATE = ipaddress.IPv4Network("172.16.0.0/12")
_PREFIX_LENGTH = 24
_LOWEST_PORT = 15_000
_MOST_PORTS_TRIED = 2_000
_CONNECT_TIMEOUT_S = 0.2  # a port that is taken accepts a connection within this time


def create_network(client: DockerClient, name: str, labels: dict[str, str]) -> Network:
    """Create a labelled bridge network with an explicit subnet of 254 addresses, whose lower half is for nodes."""
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    taken = [*_subnets_of_networks(client), *_routed_subnets()]
    free = [subnet for subnet in _PRIVATE.subnets(new_prefix=_PREFIX_LENGTH) if not any(map(subnet.overlaps, taken))]
    refusal: Exception | None = None
    for subnet in random.SystemRandom().sample(free, k=min(_MOST_SUBNETS_TRIED, len(free))):
        _, upper_half = subnet.subnets()
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet), iprange=str(upper_half), gateway=str(subnet[1]))])
        try:
            return client.networks.create(name, driver="bridge", labels=labels, ipam=pool, check_duplicate=True)
        except APIError as error:
            # Another run may have taken the subnet meanwhile, or only the engine knows a route to it.
            refusal = error
    raise EnvironmentFailure(f"Docker gave no subnet of {_PRIVATE} for a network: {refusal or 'all are in use'}")


def node_addresses(network: Network, count: int) -> list[str]:
    """The addresses for `count` nodes in the network's subnet."""
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
    """The subnets that this machine has routes to, without the default route; none if /proc has no routes."""
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
    """The IPv4 address of a host, for Docker to publish ports on; raises `EnvironmentFailure` if the host has none."""
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        message = f"advertise: {host} has no IPv4 address ({error}): expected a host that this machine can resolve"
        raise EnvironmentFailure(message) from error


def free_ports(count: int, address: str = LOOPBACK) -> list[int]:
    """`count` different ports of an address that are free at the moment, as far as this machine can tell."""
    highest = _first_ephemeral_port() - 1
    if highest - _LOWEST_PORT < count * 2:
        # There is too little room below the ephemeral range, so its ports are used, too.
        highest = 65_535
    ports: list[int] = []
    most_tried = min(_MOST_PORTS_TRIED, highest - _LOWEST_PORT)
    for candidate in random.SystemRandom().sample(range(_LOWEST_PORT, highest), k=most_tried):
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
            # The address may be another machine's, whose ports can't be bound from here: a port that is taken accepts
            # a connection. If a firewall forbids that, the port counts as free, and only the engine knows better.
            probe.settimeout(_CONNECT_TIMEOUT_S)
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
        return 32_768  # Linux's default
