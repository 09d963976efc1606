"""What ZooKeeper holds of a cluster: the partition's state as the controller wrote it, the controller, its epoch.

Of all views of a partition this is the authoritative one: brokers act on it only when the controller has told them.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.waiting import wait_until

NOBODY = -1
_CONTROLLER = "/controller"
_CONTROLLER_EPOCH = "/controller_epoch"


@dataclass(frozen=True, slots=True)
class PartitionInZooKeeper:
    """`/brokers/topics/<topic>/partitions/<n>/state`; `leader` is −1 for none, `partition_epoch` the node's version,
    `written_ms` when the controller wrote it, in milliseconds since the epoch by ZooKeeper's clock."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int
    written_ms: int


class ZooKeeper:
    """A connection to a cluster's ZooKeeper; a context manager."""

    def __init__(self, addresses: str, *, timeout: float = 20.0) -> None:
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        self._client = KazooClient(hosts=addresses, timeout=timeout)
        try:
            self._client.start(timeout=timeout)
        except KazooTimeoutError as error:
            self.close()
            raise ClusterFailure(f"ZooKeeper at {addresses} does not answer within {timeout} s") from error

    def __enter__(self) -> ZooKeeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def partition(self, topic: str, partition: int = 0) -> PartitionInZooKeeper | None:
        """The partition's state; None while the controller has not written it."""
        found = self._get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if found is None:
            return None
        state, stat = found
        return PartitionInZooKeeper(
            int(state["leader"]),
            int(state["leader_epoch"]),
            tuple(sorted(state["isr"])),
            int(state["controller_epoch"]),
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

    def broker_epoch(self, broker: int) -> int | None:
        """The broker's epoch (KIP-380): the transaction id of its registration; None where it is not registered."""
        try:
            stat = self._client.exists(f"/brokers/ids/{broker}")
        except KazooException as error:
            raise ClusterFailure(f"ZooKeeper did not tell of broker {broker}: {error!r}") from error
        return None if stat is None else int(stat.czxid)

    def brokers(self) -> frozenset[int]:
        """The brokers that are registered."""
        try:
            return frozenset(int(name) for name in self._client.get_children("/brokers/ids"))
        except KazooException as error:
            raise ClusterFailure(f"ZooKeeper did not name the brokers: {error!r}") from error

    def depose_controller(self, *, timeout: float = 60.0) -> None:
        """Take the controller's office away, and wait for the next election; it may fall on the same broker.

        Only a controller that has settled in should lose its office: brokers (seen with 3.9.1) that are still busy with
        the last two elections when the next begins may all resign and none be elected, for good.
        """
        epoch = self.controller_epoch()
        try:
            self._client.delete(_CONTROLLER)
        except NoNodeError:
            pass
        except KazooException as error:
            raise ClusterFailure(f"ZooKeeper did not end the controller's office: {error!r}") from error
        wait_until(
            lambda: self.controller() is not None and self.controller_epoch() > epoch,
            "the next controller",
            timeout=timeout,
            interval=0.02,
        )

    def _get(self, path: str) -> tuple[Any, Any] | None:
        try:
            data, stat = self._client.get(path)
        except NoNodeError:
            return None
        except KazooException as error:
            raise ClusterFailure(f"ZooKeeper did not answer for {path}: {error!r}") from error
        return json.loads(data), stat
