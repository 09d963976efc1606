"""A session with ZooKeeper that ends while its client lives.

Whoever knows the id and the password of a session may take it to a connection of their own, and close it. ZooKeeper
then removes its ephemeral nodes, and answers its client, which connects again, that the session has expired: what a
client meets that was not heard of in time. ZooKeeper derives the password from the id (`generatePasswd` of its class
`ZooKeeperServer`).
"""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from kafka_chaos.harness.errors import ClusterFailure

_SECRET = 0xB3415C00
_PASSWORD_BYTES = 16
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


def end_session(addresses: str, session: int, *, timeout: float = 20.0) -> None:
    """Close somebody's session; nothing where it is over. Raises `ClusterFailure` where ZooKeeper does not answer."""
    client = KazooClient(hosts=addresses, timeout=timeout, client_id=(session, password_of(session)))
    try:
        client.start(timeout=timeout)
    except KazooTimeoutError as error:
        raise ClusterFailure(f"ZooKeeper at {addresses} does not answer within {timeout} s") from error
    finally:
        client.stop()
        client.close()


def password_of(session: int) -> bytes:
    """The password that a ZooKeeper server gives to a session: bytes of java.util.Random, seeded with its id."""
    seed = (session ^ _SECRET ^ _MULTIPLIER) & _MASK
    password = b""
    while len(password) < _PASSWORD_BYTES:
        seed = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        password += (seed >> 16).to_bytes(4, "little")
    return password
