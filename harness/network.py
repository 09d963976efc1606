"""A bridge network whose containers keep their addresses.

Docker gives a restarted container the lowest free address: after two brokers were down, each could come back with the
other's, and every rule of a partition would hit the wrong one. Fixed addresses need a subnet that was asked for by
name, so Docker is first let to choose one that is free.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from kafka_chaos.harness.errors import EnvironmentFailure

if TYPE_CHECKING:
    from docker.models.networks import Network

    from docker import DockerClient

_ATTEMPTS = 10
_FIRST_NODE = 10


def create_network(client: DockerClient, name: str, labels: dict[str, str]) -> Network:
    """A labelled bridge network with an explicit subnet that no other network uses."""
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    refusal: Exception | None = None
    for _ in range(_ATTEMPTS):
        chosen = client.networks.create(name, driver="bridge", labels=labels, check_duplicate=True)
        try:
            chosen.reload()
            subnet = chosen.attrs["IPAM"]["Config"][0]["Subnet"]
        finally:
            chosen.remove()
        try:
            pool = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)])
            return client.networks.create(name, driver="bridge", labels=labels, ipam=pool, check_duplicate=True)
        except APIError as error:
            # Another run may have been given the same subnet in between: ask again.
            refusal = error
    raise EnvironmentFailure(f"Docker gave no subnet for a network in {_ATTEMPTS} attempts: {refusal}")


def node_addresses(network: Network, count: int) -> list[str]:
    """`count` addresses of the network's subnet, the same ones at every call."""
    network.reload()
    subnet = ipaddress.ip_network(network.attrs["IPAM"]["Config"][0]["Subnet"])
    return [str(subnet[_FIRST_NODE + index]) for index in range(count)]
