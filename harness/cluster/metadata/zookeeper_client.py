"""A cluster's metadata in ZooKeeper: the controller and its epoch, brokers' registrations, and partitions' states.

A partition's state in ZooKeeper is authoritative. Brokers act on it only once the controller has told them.
"""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.cluster import Registration
from kafka_chaos.harness.cluster.metadata.protocol import PartitionRecord

_CONTROLLER = "/controller"
_SECRET = 0xB3415C00
"""ZooKeeper's constant `superSecret`, which it mixes into the seed of every session's password."""
_PASSWORD_BYTES = 16
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1
"""The constants of java.util.Random."""


class ZooKeeper(contextlib.AbstractContextManager["ZooKeeper"]):
    """A connection to a cluster's ZooKeeper, open from its creation on; a context manager. Implements `Metadata`.

    `session`: the id of another client's session, which this connection takes over; `close` then ends that session.
    """

    def __init__(self, addresses: str, *, timeout: float = 20.0, session: int | None = None) -> None:
        # kazoo logs every connection that it loses, and here faults break connections on purpose.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        client_id = None if session is None else (session, password_of(session))
        self._client = KazooClient(hosts=addresses, timeout=timeout, client_id=client_id)
        try:
            self._client.start(timeout=timeout)
        except KazooTimeoutError as error:
            self.close()
            raise ClusterFailure(f"ZooKeeper at {addresses} does not answer within {timeout} s") from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session and the connection."""
        self._client.stop()
        self._client.close()

    def partition(self, topic: str, partition: int = 0) -> PartitionRecord | None:
        """The state in `/brokers/topics/<topic>/partitions/<n>/state`; its partition epoch is the znode's version."""
        znode = self._get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if znode is None:
            return None
        state, stat = znode
        leader, leader_epoch, isr = int(state["leader"]), int(state["leader_epoch"]), tuple(sorted(state["isr"]))
        return PartitionRecord(leader, leader_epoch, isr, int(stat.version), int(stat.mtime))

    def controller(self) -> int | None:
        """The broker that is controller; None while there is none."""
        znode = self._get(_CONTROLLER)
        return None if znode is None else int(znode[0]["brokerid"])

    def controller_epoch(self) -> int:
        """The controller epoch, which every election of a controller raises; 0 before the first election."""
        znode = self._get("/controller_epoch")
        return 0 if znode is None else int(znode[0])

    def registration(self, broker: int) -> Registration | None:
        """The broker's registration, None if there is none; its znode's czxid is the broker epoch (KIP-380)."""
        with _request_to(f"answer for broker {broker}"):
            stat = self._client.exists(f"/brokers/ids/{broker}")
        return None if stat is None else Registration(int(stat.czxid), int(stat.ephemeralOwner))

    def cluster_id(self) -> str:
        """The cluster id, which the first broker has chosen. Raises `ClusterFailure` if there was no broker yet."""
        znode = self._get("/cluster/id")
        if znode is None:
            raise ClusterFailure("ZooKeeper has no cluster id: no broker has ever registered")
        return str(znode[0]["id"])

    def migration(self) -> Mapping[str, int] | None:
        """The content of the znode `/migration`, or None: the KRaft controller that has claimed the cluster,
        and the last record of its metadata that ZooKeeper has, too (KIP-866)."""
        znode = self._get("/migration")
        return None if znode is None else dict(znode[0])

    def brokers(self) -> frozenset[int]:
        """The ids of the registered brokers."""
        with _request_to("name the brokers"), contextlib.suppress(NoNodeError):
            return frozenset(int(name) for name in self._client.get_children("/brokers/ids"))
        return frozenset()

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        """Depose the controller, and wait for the next election, which the same broker may win.

        Leave some time between two calls: if brokers are still busy with the last two elections when the next election
        begins, all may resign, and no broker is ever elected (seen with 3.9.1).
        """
        epoch = self.controller_epoch()
        with _request_to("depose the controller"), contextlib.suppress(NoNodeError):
            self._client.delete(_CONTROLLER)
        wait_until(
            lambda: self.controller() is not None and self.controller_epoch() > epoch,
            "the next controller",
            timeout=timeout,
            interval=0.02,
        )

    def _get(self, path: str) -> tuple[Any, Any] | None:
        """The decoded content and the `ZnodeStat` of a znode; None if there is no such znode."""
        with _request_to(f"answer for {path}"), contextlib.suppress(NoNodeError):
            data, stat = self._client.get(path)
            return json.loads(data), stat
        return None


def end_session(addresses: str, session: int) -> None:
    """End the session of another client, which may be alive. Raises `ClusterFailure` if ZooKeeper does not answer.

    A connection with the session's id and password may take it over and close it. ZooKeeper then removes the session's
    ephemeral nodes, and tells the client, when it connects again, that the session has expired.
    """
    ZooKeeper(addresses, session=session).close()


def password_of(session: int) -> bytes:
    """The password that a ZooKeeper server gives a session (`ZooKeeperServer.generatePasswd`): bytes of a
    java.util.Random that is seeded with the session's id."""
    seed = (session ^ _SECRET ^ _MULTIPLIER) & _MASK
    password = b""
    while len(password) < _PASSWORD_BYTES:
        seed = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        password += (seed >> 16).to_bytes(4, "little")
    return password


@contextlib.contextmanager
def _request_to(action: str) -> Iterator[None]:
    """Turn errors of kazoo in this block into a `ClusterFailure` that says what ZooKeeper did not do."""
    try:
        yield
    except KazooException as error:
        raise ClusterFailure(f"ZooKeeper did not {action}: {error!r}") from error
