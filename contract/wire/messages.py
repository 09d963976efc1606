"""Messages that kafka-python lacks: controllers' messages to brokers, AlterPartition, and share groups' (KIP-932).

`definitions/` has them in the form of Kafka's own message definitions (`clients/src/main/resources/common/message` of
Kafka 3.9, for share groups of 4.4), with all their versions so far. ZooKeeper's version of a partition's state is
`zk_version` in UpdateMetadata and `partition_epoch` in LeaderAndIsr. Importing this module also lets kafka-python
decode the responses.
"""

import warnings
from typing import Any, Final

from kafka_chaos.contract.wire.kafka_python import ApiMessage, RequestHeader, ResponseHeader

with warnings.catch_warnings():
    # As in kafka_python.py: definitions are read by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)

    def _defined(name: str) -> Any:
        """The class of a message, made from its definition as kafka-python makes its own."""
        metaclass: Any = type(ApiMessage)
        is_request = name.endswith("Request")
        # kafka-python derives these two from the class's attribute `type`, which LeaderAndIsr hides by a field `type`.
        header_class = RequestHeader if is_request else ResponseHeader
        own = {"is_request": classmethod(lambda _: is_request), "header_class": header_class}
        return metaclass(name, (ApiMessage,), {"__module__": __name__, **own}, load_json=f"{__package__}.definitions")

    LeaderAndIsrRequest: Final = _defined("LeaderAndIsrRequest")
    LeaderAndIsrResponse: Final = _defined("LeaderAndIsrResponse")
    StopReplicaRequest: Final = _defined("StopReplicaRequest")
    StopReplicaResponse: Final = _defined("StopReplicaResponse")
    UpdateMetadataRequest: Final = _defined("UpdateMetadataRequest")
    UpdateMetadataResponse: Final = _defined("UpdateMetadataResponse")
    AlterPartitionRequest: Final = _defined("AlterPartitionRequest")
    ShareGroupHeartbeatRequest: Final = _defined("ShareGroupHeartbeatRequest")
    ShareGroupHeartbeatResponse: Final = _defined("ShareGroupHeartbeatResponse")
    ShareFetchRequest: Final = _defined("ShareFetchRequest")
    ShareFetchResponse: Final = _defined("ShareFetchResponse")
    ShareAcknowledgeRequest: Final = _defined("ShareAcknowledgeRequest")
    ShareAcknowledgeResponse: Final = _defined("ShareAcknowledgeResponse")
    DescribeShareGroupOffsetsRequest: Final = _defined("DescribeShareGroupOffsetsRequest")
    DescribeShareGroupOffsetsResponse: Final = _defined("DescribeShareGroupOffsetsResponse")

FROM_CONTROLLERS = frozenset([LeaderAndIsrRequest.API_KEY, StopReplicaRequest.API_KEY, UpdateMetadataRequest.API_KEY])
"""The API keys of the requests that controllers send to brokers in ZooKeeper mode."""

UNKNOWN_BROKER_EPOCH = -1  # a broker epoch that a broker doesn't compare with its own (KIP-380)
