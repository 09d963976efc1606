"""Requests that a scenario sends to one chosen broker. Only its steps and observations use them."""

from typing import Any

from kafka_chaos.contract.wire.kafka_python import ApiVersionsRequest, FetchRequest
from kafka_chaos.harness.cluster.broker.client import FETCH_VERSION, NONE, BrokerClient

_FIRST_FETCH_WITH_EPOCHS = 9
"""The first version of Fetch whose leader epoch brokers check (KIP-320)."""
_API_VERSIONS_WITH_FEATURES = 3
"""The version of ApiVersions whose answer names features (KIP-584)."""
FENCED_LEADER_EPOCH = 74  # the error code for a leader epoch that is too low
UNKNOWN_LEADER_EPOCH = 75  # the error code for a leader epoch that is too high


class ScenarioClient(BrokerClient):
    """A connection to one broker, with the requests by which scenarios act on the broker and observe its replicas."""

    def send(self, topic: str, record: str, *, acks: str) -> None:
        """Send one record without waiting for the answer."""
        self.tell(self._produce_request(topic, 0, record.encode(), acks=acks, timeout=60))

    def tell(self, request: Any) -> None:
        """Send a request of kafka-python without waiting for the answer."""
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())

    def features(self) -> dict[str, int]:
        """The levels of the features (KIP-584) that are in force, as this broker knows them, by name."""
        answer = self.request(ApiVersionsRequest("kafka-chaos", "0", version=_API_VERSIONS_WITH_FEATURES))
        return {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}

    def leader_epoch(self, topic: str, *, guess: int = 0) -> int | None:
        """The leader epoch of this broker's replica of partition 0; None without a replica, or before KIP-320.

        It is found by fetches with different epochs, `guess` first: brokers answer a lower epoch than their own with
        FENCED_LEADER_EPOCH, and a higher one with UNKNOWN_LEADER_EPOCH (KIP-320).
        """
        if self._version(FetchRequest, FETCH_VERSION) < _FIRST_FETCH_WITH_EPOCHS:
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
