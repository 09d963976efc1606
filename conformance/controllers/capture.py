"""The requests of controllers in ZooKeeper mode and the answers of brokers, captured from the cluster's links.

Guarantee: every request that arrived from the beginning of the `with` block to its end is there, with its answer if
there was one, or `Capture.unread` is not 0.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire.messages import FROM_CONTROLLERS
from kafka_chaos.faults.links.relay.frames import API_NAMES
from kafka_chaos.harness.cluster.cluster import Cluster

_APIS = frozenset(API_NAMES[key] for key in FROM_CONTROLLERS)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as a broker received it, and its answer, None while there is none. `peer`: the sender's host name.

    Times are those of `time.monotonic_ns()`, when the last byte reached the broker's link. Topic ids are text.
    """

    broker: int
    peer: str
    api: str
    version: int
    client_id: str
    request: Mapping[str, Any]
    sent_ns: int
    response: Mapping[str, Any] | None
    answered_ns: int | None


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a trace of links; a last line that is still being written is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]


class Capture:
    """A capture on a cluster with links, as a context manager. Nothing else may trace these links meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.links is not None, "the cluster has no links"
        self._links = cluster.links
        self._brokers = {node.name: number for number, node in cluster.brokers.items()}
        self._stack = ExitStack()
        self._exchanges: list[Exchange] = []
        self._without_body = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-chaos-capture-"))
            self._trace = Path(folder) / "trace.jsonl"
            self._begun = self._unreadable_count()
            self._links.trace_to(self._trace, controllers=True)
            stack.callback(self._end)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def exchanges(self) -> tuple[Exchange, ...]:
        """The requests so far, in order of arrival: answered ones, and after the block those without answer.

        A request appears at most half a second after its answer has passed.
        """
        self._read()
        return tuple(self._exchanges)

    def await_exchange(self, wanted: Callable[[Exchange], bool], what: str, *, timeout: float = 20.0) -> Exchange:
        """Wait for the first answered exchange for which `wanted` is true, and return it; `what` names it in errors."""
        return wait_until(
            lambda: next((e for e in self.exchanges() if e.response is not None and wanted(e)), None),
            what,
            timeout=timeout,
            seen=lambda: ", ".join(f"{e.api} v{e.version} to broker {e.broker}" for e in self.exchanges()[-10:]),
        )

    def await_answers(self, *, timeout: float = 20.0) -> None:
        """Wait until every request so far has been answered."""
        wait_until(
            lambda: self._links.counts()["unanswered"] == 0,
            "every request of a controller to be answered",
            timeout=timeout,
            seen=lambda: str(self._links.counts()),
        )

    @property
    def unread(self) -> int:
        """The number of frames and connections that could not be read; final once the block has been left."""
        return self._unread + self._without_body

    def _end(self) -> None:
        self._links.trace_to(None)
        self._read()
        self._unread = self._unreadable_count() - self._begun

    def _unreadable_count(self) -> int:
        counts = self._links.counts()
        return counts["unknown_connections"] + counts["unknown_answers"]

    def _read(self) -> None:
        if not self._trace.exists():
            return
        from_controllers = [line for line in read_trace(self._trace) if line["api"] in _APIS]
        readable = [line for line in from_controllers if "request" in line]
        self._without_body = len(from_controllers) - len(readable)
        self._exchanges = sorted(
            (
                Exchange(
                    broker=self._brokers[line["node"]],
                    peer=line["sender"],
                    api=line["api"],
                    version=line["version"],
                    client_id=line["client_id"],
                    request=line["request"],
                    sent_ns=line["ns"],
                    response=line["answer"],
                    answered_ns=line["answered_ns"],
                )
                for line in readable
            ),
            key=lambda exchange: exchange.sent_ns,
        )
