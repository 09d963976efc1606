"""Requests to one chosen broker that only scenarios send, in their steps and observations."""

from typing import Any

from kafka_chaos.contract.wire.kafka_python import ApiVersionsRequest, FetchRequest
from kafka_chaos.harness.cluster.broker.client import FETCH_FROM_ANY, NONE, BrokerClient

_FIRST_WITH_EPOCHS = 9
"""The first version of Fetch that is fenced by leader epochs (KIP-320)."""
_WITH_FEATURES = 3
"""The version of ApiVersions whose answer names features (KIP-584)."""
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75


class ObservingClient(BrokerClient):
    """A connection to one broker, which is asked for what its replicas hold."""

    def send(self, topic: str, record: str, *, acks: str) -> None:
        """Send one record, and take no answer."""
        self.tell(self._produce_request(topic, 0, record.encode(), acks=acks, timeout=60))

    def tell(self, request: Any) -> None:
        """Send a request of kafka-python, and take no answer."""
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())

    def features(self) -> dict[str, int]:
        """The levels of the features (KIP-584) that are in force, as this broker knows them, by name."""
        answer = self.request(ApiVersionsRequest("kafka-chaos", "0", version=_WITH_FEATURES))
        return {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}

    def leader_epoch(self, topic: str, *, guess: int = 0) -> int | None:
        """The leader epoch of this broker's replica of partition 0; None without a replica, or if it fences no fetch.

        Found by trial, from `guess` on, with fencing (KIP-320): the answer to a fetch with a lower epoch is
        FENCED_LEADER_EPOCH, and to a fetch with a higher epoch UNKNOWN_LEADER_EPOCH.
        """
        if self._version(FetchRequest, FETCH_FROM_ANY) < _FIRST_WITH_EPOCHS:
            return None
        epoch, tried = max(guess, 0), set()
        while epoch >= 0 and epoch not in tried:
            tried.add(epoch)
            error = self.fetch(topic, leader_epoch=epoch).error
            if error == FENCED_LEADER_EPOCH:
                epoch += 1
            elif error == UNKNOWN_LEADER_EPOCH:
                epoch -= 1
            else:
                return epoch if error == NONE else None
        return None
