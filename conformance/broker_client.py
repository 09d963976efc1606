"""Requests to one chosen broker that steps and observations of scenarios send, beside those of the harness."""

from dataclasses import dataclass

from kafka_chaos.contract.wire.kafka_python import ApiVersionsRequest, FetchRequest
from kafka_chaos.harness.cluster.broker.client import CONSUMER, DEBUGGING_CONSUMER, MAX_BYTES, NONE, BrokerClient

FETCH_FROM_LEADER = 10
"""The last version of Fetch that only a leader answers (KIP-392 lets followers answer consumers from 11 on)."""
FETCH_FROM_ANY = 12
"""A version of Fetch that a follower answers too, and that names topics, not their ids."""
_FIRST_WITH_EPOCHS = 9
"""The first version of Fetch that is fenced by leader epochs (KIP-320)."""
_WITH_FEATURES = 3
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """A broker's answer to a fetch: Kafka's error code, and offsets where there is no error."""

    error: int
    high_watermark: int
    log_start: int
    records: bytes


class ObservingClient(BrokerClient):
    """A connection to one broker, which is asked for what its replicas hold."""

    def send(self, topic: str, record: str, *, acks: str) -> None:
        """Send one record, and take no answer."""
        self._protocol.send_request(self._produce_request(topic, 0, record.encode(), acks=acks, timeout=60))
        self._socket.sendall(self._protocol.send_bytes())

    def fetch(
        self, topic: str, partition: int = 0, *, offset: int = 0, leader_epoch: int = -1, version: int = FETCH_FROM_ANY
    ) -> FetchAnswer:
        """Fetch as a consumer, without waiting; `leader_epoch` is the one that the consumer knows, −1 for none."""
        known = self._version(FetchRequest, version)
        debugging = known <= FETCH_FROM_LEADER < version
        wanted = FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=MAX_BYTES,
        )
        request = FetchRequest(
            replica_id=DEBUGGING_CONSUMER if debugging else CONSUMER,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
            forgotten_topics_data=[],
            rack_id="",
            version=known,
        )
        answer = self.request(request).responses[0].partitions[0]
        return FetchAnswer(answer.error_code, answer.high_watermark, answer.log_start_offset, answer.records or b"")

    def features(self) -> dict[str, int]:
        """The features (KIP-584) that are in force, and their levels as this broker knows them."""
        answer = self.request(ApiVersionsRequest("kafka-chaos", "0", version=_WITH_FEATURES))
        return {one.name: one.max_version_level for one in answer.finalized_features or ()}

    def leader_epoch(self, topic: str, partition: int = 0, *, guess: int = 0) -> int | None:
        """The leader epoch that this broker's replica is in, exactly; None where it has no replica, or fences nobody.

        Found by fencing (KIP-320): the answer to a fetch with a lower epoch is FENCED_LEADER_EPOCH, with a higher one
        UNKNOWN_LEADER_EPOCH.
        """
        if self._version(FetchRequest, FETCH_FROM_ANY) < _FIRST_WITH_EPOCHS:
            return None
        epoch, tried = max(guess, 0), set()
        while epoch >= 0 and epoch not in tried:
            tried.add(epoch)
            error = self.fetch(topic, partition, leader_epoch=epoch).error
            if error == FENCED_LEADER_EPOCH:
                epoch += 1
            elif error == UNKNOWN_LEADER_EPOCH:
                epoch -= 1
            else:
                return epoch if error == NONE else None
        return None
