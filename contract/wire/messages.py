"""Messages that kafka-python lacks: from controllers to brokers, AlterPartition, messages of share groups (KIP-932).

`definitions/` has them in the form of Kafka's own message definitions, with all versions of each message. They come
from Kafka 3.9 (`clients/src/main/resources/common/message`); the messages of share groups come from 4.4.
ZooKeeper's version of a partition's state is `zk_version` in UpdateMetadata and `partition_epoch` in LeaderAndIsr.
Importing this module also lets kafka-python decode the responses.
"""

import warnings
from typing import Any, Final

from kafka_chaos.contract.wire.kafka_python import ApiMessage, RequestHeader, ResponseHeader

with warnings.catch_warnings():
    # As in kafka_python.py: definitions are read with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)

    def _message_class(name: str) -> Any:
        """The class of a message, made from its definition as kafka-python makes its own."""
        metaclass: Any = type(ApiMessage)
        is_request = name.endswith("Request")
        # kafka-python derives these two from the class's attribute `type`, which LeaderAndIsr hides by a field `type`.
        header_class = RequestHeader if is_request else ResponseHeader
        own = {"is_request": classmethod(lambda _: is_request), "header_class": header_class}
        return metaclass(name, (ApiMessage,), {"__module__": __name__, **own}, load_json=f"{__package__}.definitions")

    LeaderAndIsrRequest: Final = _message_class("LeaderAndIsrRequest")
    LeaderAndIsrResponse: Final = _message_class("LeaderAndIsrResponse")
    StopReplicaRequest: Final = _message_class("StopReplicaRequest")
    StopReplicaResponse: Final = _message_class("StopReplicaResponse")
    UpdateMetadataRequest: Final = _message_class("UpdateMetadataRequest")
    UpdateMetadataResponse: Final = _message_class("UpdateMetadataResponse")
    AlterPartitionRequest: Final = _message_class("AlterPartitionRequest")
    ShareGroupHeartbeatRequest: Final = _message_class("ShareGroupHeartbeatRequest")
    ShareGroupHeartbeatResponse: Final = _message_class("ShareGroupHeartbeatResponse")
    ShareFetchRequest: Final = _message_class("ShareFetchRequest")
    ShareFetchResponse: Final = _message_class("ShareFetchResponse")
    ShareAcknowledgeRequest: Final = _message_class("ShareAcknowledgeRequest")
    ShareAcknowledgeResponse: Final = _message_class("ShareAcknowledgeResponse")
    DescribeShareGroupOffsetsRequest: Final = _message_class("DescribeShareGroupOffsetsRequest")
    DescribeShareGroupOffsetsResponse: Final = _message_class("DescribeShareGroupOffsetsResponse")

CONTROLLER_APIS = frozenset([LeaderAndIsrRequest.API_KEY, StopReplicaRequest.API_KEY, UpdateMetadataRequest.API_KEY])
"""The API keys of the requests that controllers send to brokers in ZooKeeper mode."""

UNKNOWN_BROKER_EPOCH = -1  # a broker epoch that a broker doesn't compare with its own (KIP-380)
