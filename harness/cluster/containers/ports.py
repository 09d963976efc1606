"""Host ports for brokers that keep across a restart.

They are taken from outside the kernel's ephemeral range: while a broker is down, an outgoing connection could
otherwise be given its port, and a client that retries to connect to it could even connect to itself.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

from kafka_chaos.contract.errors import EnvironmentFailure

_LOWEST = 15_000
_PROBES = 2_000


def free_ports(count: int) -> list[int]:
    """`count` different ports of 127.0.0.1 that nothing listens on at the moment."""
    highest = _first_ephemeral_port() - 1
    if highest - _LOWEST < count * 2:
        highest = 65_535
    chosen: list[int] = []
    for candidate in random.SystemRandom().sample(range(_LOWEST, highest), k=min(_PROBES, highest - _LOWEST)):
        if _is_free(candidate):
            chosen.append(candidate)
            if len(chosen) == count:
                return chosen
    raise EnvironmentFailure(
        f"found only {len(chosen)} of {count} free ports on 127.0.0.1 between {_LOWEST} and {highest}: "
        "end what listens there"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _first_ephemeral_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
