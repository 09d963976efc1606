"""How connections to a node are led to its link: rules of the packet filter, and where a connection was to go."""

from __future__ import annotations

import socket
from collections.abc import Sequence

MARK = 0x4B43
"""The mark of a link's own packets, which no rule sends back to it. (`KC`, in hexadecimal.)"""

_SO_ORIGINAL_DST = 80


def original_destination(accepted: socket.socket) -> tuple[str, int]:
    """Where a redirected connection was to go."""
    raw = accepted.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
    return socket.inet_ntoa(raw[4:8]), int.from_bytes(raw[2:4], "big")


def redirection(ports: Sequence[int], listener: int) -> str:
    """iptables-restore's words that send new connections to these ports to the listener.

    They end, by a reset, connections that began before: nobody talks to a broker past its link. Connections of the
    container to itself go there too.
    """
    marked = f"-m mark ! --mark {MARK:#x}"
    nat = [
        line
        for port in ports
        for line in (
            f"-A PREROUTING ! -i lo -p tcp --dport {port} -j REDIRECT --to-ports {listener}",
            f"-A OUTPUT -o lo -p tcp --dport {port} {marked} -j REDIRECT --to-ports {listener}",
        )
    ]
    reset = "-j REJECT --reject-with tcp-reset"
    filters = [
        line
        for port in ports
        for line in (
            f"-A INPUT ! -i lo -p tcp --dport {port} {reset}",
            f"-A OUTPUT -o lo -p tcp --dport {port} {marked} {reset}",
        )
    ]
    return "\n".join(["*nat", *nat, "COMMIT", "*filter", *filters, "COMMIT", ""])


def undone(rules: str) -> str:
    """The words that remove the same rules."""
    return rules.replace("-A ", "-D ")
