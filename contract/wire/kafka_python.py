"""The parts of kafka-python that this project uses, imported without a deprecation warning.

On import, kafka-python reads its message definitions with a function that Python 3.11 deprecates. Only this import is
silenced: the warning filters of the program that imports this module stay as they are.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import InvalidReceiveError, kafka_errors
    from kafka.net.sasl.scram import ScramClient
    from kafka.protocol import admin, consumer, metadata, producer, sasl  # Importing these defines every message.
    from kafka.protocol.admin import DescribeQuorumRequest
    from kafka.protocol.admin.topics import (
        AlterPartitionReassignmentsRequest,
        ElectLeadersRequest,
        ListPartitionReassignmentsRequest,
    )
    from kafka.protocol.admin.transactions import DescribeTransactionsRequest
    from kafka.protocol.api_header import RequestHeader, ResponseHeader
    from kafka.protocol.api_key import ApiKey
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer.fetch import FetchRequest
    from kafka.protocol.consumer.group import OffsetFetchRequest
    from kafka.protocol.consumer.offsets import ListOffsetsRequest
    from kafka.protocol.metadata import ApiVersionsRequest
    from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest
    from kafka.protocol.metadata.metadata import MetadataRequest
    from kafka.protocol.parser import KafkaProtocol
    from kafka.protocol.producer.produce import ProduceRequest
    from kafka.protocol.producer.transaction import (
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        EndTxnRequest,
        InitProducerIdRequest,
        TxnOffsetCommitRequest,
    )
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
    from kafka.protocol.schemas.fields.codecs import UUID, Int16, Int32, String, UnsignedVarInt32
    from kafka.record.default_records import DefaultRecordBatch
    from kafka.record.legacy_records import LegacyRecordBatch
    from kafka.record.memory_records import MemoryRecordsBuilder
    from kafka.record.util import calc_crc32c, decode_varint
