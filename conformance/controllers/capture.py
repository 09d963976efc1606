"""The requests of controllers in ZooKeeper mode and the answers of brokers, captured from the cluster's links.

Guarantee: a capture has every request that arrived during its `with` block, with its answer if there was one. If a
request or an answer could not be read, `Capture.unreadable` is not 0.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_chaos.conformance.controllers.requests import errors_of
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire.messages import CONTROLLER_APIS
from kafka_chaos.faults.links.relay.frames import API_NAMES
from kafka_chaos.harness.cluster.cluster import Cluster

_APIS = frozenset(API_NAMES[key] for key in CONTROLLER_APIS)
_PATIENCE = 20.0  # seconds to wait for an exchange, or for the answers to all requests


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as a broker received it, and the broker's `response`, which is None until it comes.

    `sent_ns`: when the request's last byte reached the broker's link, by `time.monotonic_ns()`. Topic ids are strings.
    """

    broker: int
    api: str
    version: int
    client_id: str
    request: Mapping[str, Any]
    sent_ns: int
    response: Mapping[str, Any] | None

    def errors(self, topic: str) -> list[str]:
        """The names of the answer's own error and of its errors about a topic (`errors_of`), or "no answer"."""
        states = self.request.get("topic_states") or ()
        ids = [state["topic_id"] for state in states if state["topic_name"] == topic and "topic_id" in state]
        return ["no answer"] if self.response is None else errors_of(self.response, [topic, *ids])

    def states_of(self, topic: str) -> list[Mapping[str, Any]]:
        """The partition states of a topic in the request, in whichever form its version has them."""
        for key in ("ungrouped_partition_states", "ungrouped_partitions"):
            if key in self.request:
                return [state for state in self.request[key] if state["topic_name"] == topic]
        states: list[Mapping[str, Any]] = []
        for entry in self.request.get("topic_states") or self.request.get("topics") or ():
            if entry.get("topic_name", entry.get("name")) == topic:
                partition_states = entry.get("partition_states")
                indexes = entry["partition_indexes"] if partition_states is None else ()
                states += partition_states or [{"partition_index": index} for index in indexes]
        return states

    def deletes(self, topic: str) -> bool:
        """Whether the request tells the broker to delete its replica of a partition of the topic."""
        deletes_all = self.request.get("delete_partitions", False)
        return any(state.get("delete_partition", deletes_all) for state in self.states_of(topic))


class Capture:
    """A capture of exchanges on a cluster with links. Nothing else may trace these links meanwhile."""

    def __init__(self, cluster: Cluster, trace: Path) -> None:
        assert cluster.links is not None, "the cluster has no links"
        self._links, self._trace = cluster.links, trace
        self._brokers = {node.name: number for number, node in cluster.brokers.items()}
        self._unreadable_before = self._unreadable_count()
        self._exchanges: list[Exchange] = []
        self.unreadable = 0
        """The number of frames and connections that could not be read; final once the `with` block is over."""
        self._links.trace_to(trace, controllers=True)

    def exchanges(self) -> list[Exchange]:
        """The captured requests in order of arrival; unanswered ones only once the `with` block is over.

        A request appears at most half a second after its answer has passed.
        """
        if self._trace.exists():
            # A last line that is still being written is left out.
            complete, _, _ = self._trace.read_bytes().rpartition(b"\n")
            lines = [line for line in map(json.loads, complete.splitlines()) if line["api"] in _APIS]
            readable = sorted((line for line in lines if "request" in line), key=lambda line: line["ns"])
            self._exchanges = [
                Exchange(
                    broker=self._brokers[line["node"]],
                    sent_ns=line["ns"],
                    response=line["answer"],
                    **{name: line[name] for name in ("api", "version", "client_id", "request")},
                )
                for line in readable
            ]
            self.unreadable = self._unreadable_count() - self._unreadable_before + len(lines) - len(readable)
        return self._exchanges

    def await_exchange(self, is_wanted: Callable[[Exchange], bool], awaited: str) -> None:
        """Wait for an answered exchange for which `is_wanted` is true; `awaited` names it in errors."""
        wait_until(
            lambda: any(exchange.response is not None and is_wanted(exchange) for exchange in self.exchanges()),
            awaited,
            timeout=_PATIENCE,
            seen=lambda: ", ".join(f"{e.api} v{e.version} to broker {e.broker}" for e in self.exchanges()[-10:]),
        )

    def await_answers(self) -> None:
        """Wait until every request that was sent so far has been answered."""
        wait_until(
            lambda: self._links.counts()["unanswered"] == 0,
            "every request of a controller to be answered",
            timeout=_PATIENCE,
            seen=lambda: str(self._links.counts()),
        )

    def end(self) -> None:
        """End the trace, and read all of it."""
        self._links.trace_to(None)
        self.exchanges()

    def _unreadable_count(self) -> int:
        counts = self._links.counts()
        return counts["unknown_connections"] + counts["unknown_answers"]


@contextmanager
def captured(cluster: Cluster) -> Iterator[Capture]:
    """Capture the requests of the cluster's controllers during a `with` block."""
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-capture-") as folder:
        capture = Capture(cluster, Path(folder) / "trace.jsonl")
        try:
            yield capture
        finally:
            capture.end()
