"""A cluster's metadata in ZooKeeper: the partition's state as the controller wrote it, the controller, its epoch.

Of all views of a partition this one is authoritative. Brokers act on it only when the controller has informed them.
"""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.cluster import Registration
from kafka_chaos.harness.cluster.metadata.protocol import PartitionRecord

_CONTROLLER = "/controller"
_CONTROLLER_EPOCH = "/controller_epoch"
_SECRET = 0xB3415C00
_PASSWORD_BYTES = 16
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


class ZooKeeper:
    """A connection to a cluster's ZooKeeper; a context manager. Implements `Metadata`.

    `session`: one of somebody else that it goes on with, by its id; closing it then ends that session.
    """

    def __init__(self, addresses: str, *, timeout: float = 20.0, session: int | None = None) -> None:
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        client_id = None if session is None else (session, password_of(session))
        self._client = KazooClient(hosts=addresses, timeout=timeout, client_id=client_id)
        try:
            self._client.start(timeout=timeout)
        except KazooTimeoutError as error:
            self.close()
            raise ClusterFailure(f"ZooKeeper at {addresses} does not answer within {timeout} s") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def partition(self, topic: str, partition: int = 0) -> PartitionRecord | None:
        """`/brokers/topics/<topic>/partitions/<n>/state`, its partition epoch the node's version."""
        found = self._get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if found is None:
            return None
        state, stat = found
        return PartitionRecord(
            int(state["leader"]),
            int(state["leader_epoch"]),
            tuple(sorted(state["isr"])),
            int(stat.version),
            int(stat.mtime),
        )

    def controller(self) -> int | None:
        """The broker that is controller; None while there is none."""
        found = self._get(_CONTROLLER)
        return None if found is None else int(found[0]["brokerid"])

    def controller_epoch(self) -> int:
        """How often a controller has been elected."""
        found = self._get(_CONTROLLER_EPOCH)
        return 0 if found is None else int(found[0])

    def registration(self, broker: int) -> Registration | None:
        """The broker's epoch, which is the transaction id of its registration, and its session; None where it is not
        registered."""
        with _failures(f"answer for broker {broker}"):
            stat = self._client.exists(f"/brokers/ids/{broker}")
        return None if stat is None else Registration(int(stat.czxid), int(stat.ephemeralOwner))

    def cluster_id(self) -> str:
        """The id that the first broker gave the cluster."""
        found = self._get("/cluster/id")
        if found is None:
            raise ClusterFailure("ZooKeeper has no cluster id: no broker has ever registered")
        return str(found[0]["id"])

    def migration(self) -> Mapping[str, int] | None:
        """`/migration`: which KRaft controller has claimed the cluster, and up to which record (KIP-866), or None."""
        found = self._get("/migration")
        return None if found is None else dict(found[0])

    def brokers(self) -> frozenset[int]:
        """The brokers that are registered."""
        with _failures("name the brokers"):
            return frozenset(int(name) for name in self._client.get_children("/brokers/ids"))

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        """Depose the controller, and wait for the next election; the same broker may win it.

        Depose only a controller that has settled in. Brokers that are still busy with the last two elections when the
        next begins may all resign, and none is ever elected (seen with 3.9.1).
        """
        epoch = self.controller_epoch()
        with _failures("depose the controller"), contextlib.suppress(NoNodeError):
            self._client.delete(_CONTROLLER)
        wait_until(
            lambda: self.controller() is not None and self.controller_epoch() > epoch,
            "the next controller",
            timeout=timeout,
            interval=0.02,
        )

    def _get(self, path: str) -> tuple[Any, Any] | None:
        with _failures(f"answer for {path}"), contextlib.suppress(NoNodeError):
            data, stat = self._client.get(path)
            return json.loads(data), stat
        return None


def end_session(addresses: str, session: int) -> None:
    """End a session whose client lives; nothing where it is over. Raises `ClusterFailure` without ZooKeeper's answer.

    Whoever knows the id and the password of a session may take it to a connection of their own, and close it. ZooKeeper
    then removes its ephemeral nodes, and answers its client, which connects again, that the session has expired: what a
    client meets that was not heard of in time.
    """
    ZooKeeper(addresses, session=session).close()


def password_of(session: int) -> bytes:
    """The password that a ZooKeeper server gives to a session (`generatePasswd` of its class `ZooKeeperServer`): bytes
    of java.util.Random, seeded with the session's id."""
    seed = (session ^ _SECRET ^ _MULTIPLIER) & _MASK
    password = b""
    while len(password) < _PASSWORD_BYTES:
        seed = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        password += (seed >> 16).to_bytes(4, "little")
    return password


@contextlib.contextmanager
def _failures(what: str) -> Iterator[None]:
    try:
        yield
    except KazooException as error:
        raise ClusterFailure(f"ZooKeeper did not {what}: {error!r}") from error
