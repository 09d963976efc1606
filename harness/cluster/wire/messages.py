"""LeaderAndIsr, StopReplica and UpdateMetadata in all versions that Kafka ever had, up to 3.9.

Names are those of Kafka's message definitions in snake case (`clients/src/main/resources/common/message` of Kafka 3.9);
ZooKeeper's version of a partition's state is `zk_version` in UpdateMetadata and `partition_epoch` in LeaderAndIsr.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_chaos.harness.cluster.wire.schema import Api, Array, Field, Message, Scalar, Struct

BOOL, INT8, INT16, INT32, INT64 = Scalar.BOOL, Scalar.INT8, Scalar.INT16, Scalar.INT32, Scalar.INT64
STRING, UUID = Scalar.STRING, Scalar.UUID
INT32S = Array(INT32)

UNKNOWN_BROKER_EPOCH = -1
"""A broker epoch that a broker doesn't compare with its own (KIP-380)."""

UNKNOWN, INCREMENTAL, FULL = 0, 1, 2
"""Types of a LeaderAndIsr request: a controller in ZooKeeper mode only sends the first, the others are KIP-866's."""


def _sender(*, kraft_since: int, epoch_since: int, between: tuple[Field, ...] = ()) -> tuple[Field, ...]:
    """The controller that sends it, and the broker epoch that it knows of the receiver."""
    return (
        Field("controller_id", INT32),
        # KIP-866: a KRaft controller that migrates a cluster from ZooKeeper.
        Field("is_kraft_controller", BOOL, first=kraft_since, default=False),
        *between,
        Field("controller_epoch", INT32),
        Field("broker_epoch", INT64, first=epoch_since, default=UNKNOWN_BROKER_EPOCH),
    )


def _leader_and_isr_partition(topic: tuple[Field, ...]) -> Array:
    return Array(
        Struct(
            (
                *topic,
                Field("partition_index", INT32),
                Field("controller_epoch", INT32),
                Field("leader", INT32),
                Field("leader_epoch", INT32),
                Field("isr", INT32S),
                Field("partition_epoch", INT32),
                Field("replicas", INT32S),
                Field("adding_replicas", INT32S, first=3, default=()),
                Field("removing_replicas", INT32S, first=3, default=()),
                Field("is_new", BOOL, first=1, default=False),
                Field("leader_recovery_state", INT8, first=6, default=0),
            )
        )
    )


_TOPIC_NAME = Field("topic_name", STRING)

LEADER_AND_ISR = Api(
    4,
    "LeaderAndIsr",
    Message(
        "LeaderAndIsrRequest",
        newest=7,
        flexible=4,
        body=Struct(
            (
                *_sender(kraft_since=7, epoch_since=2),
                Field("type", INT8, first=5),
                Field("ungrouped_partition_states", _leader_and_isr_partition((_TOPIC_NAME,)), last=1),
                Field(
                    "topic_states",
                    Array(
                        Struct(
                            (
                                _TOPIC_NAME,
                                Field("topic_id", UUID, first=5),
                                Field("partition_states", _leader_and_isr_partition(())),
                            )
                        )
                    ),
                    first=2,
                ),
                Field(
                    "live_leaders",
                    Array(Struct((Field("broker_id", INT32), Field("host_name", STRING), Field("port", INT32)))),
                ),
            )
        ),
    ),
    Message(
        "LeaderAndIsrResponse",
        newest=7,
        flexible=4,
        body=Struct(
            (
                Field("error_code", INT16),
                Field(
                    "partition_errors",
                    Array(Struct((_TOPIC_NAME, Field("partition_index", INT32), Field("error_code", INT16)))),
                    last=4,
                ),
                Field(
                    "topics",
                    Array(
                        Struct(
                            (
                                Field("topic_id", UUID),
                                Field(
                                    "partition_errors",
                                    Array(Struct((Field("partition_index", INT32), Field("error_code", INT16)))),
                                ),
                            )
                        )
                    ),
                    first=5,
                ),
            )
        ),
    ),
)

STOP_REPLICA = Api(
    5,
    "StopReplica",
    Message(
        "StopReplicaRequest",
        newest=4,
        flexible=2,
        body=Struct(
            (
                *_sender(kraft_since=4, epoch_since=1),
                Field("delete_partitions", BOOL, last=2),
                Field("ungrouped_partitions", Array(Struct((_TOPIC_NAME, Field("partition_index", INT32)))), last=0),
                Field(
                    "topics",
                    Array(Struct((Field("name", STRING), Field("partition_indexes", INT32S)))),
                    first=1,
                    last=2,
                ),
                Field(
                    "topic_states",
                    Array(
                        Struct(
                            (
                                _TOPIC_NAME,
                                Field(
                                    "partition_states",
                                    Array(
                                        Struct(
                                            (
                                                Field("partition_index", INT32),
                                                Field("leader_epoch", INT32, default=-1),
                                                Field("delete_partition", BOOL),
                                            )
                                        )
                                    ),
                                ),
                            )
                        )
                    ),
                    first=3,
                ),
            )
        ),
    ),
    Message(
        "StopReplicaResponse",
        newest=4,
        flexible=2,
        body=Struct(
            (
                Field("error_code", INT16),
                Field(
                    "partition_errors",
                    Array(Struct((_TOPIC_NAME, Field("partition_index", INT32), Field("error_code", INT16)))),
                ),
            )
        ),
    ),
)


def _update_metadata_partition(topic: tuple[Field, ...]) -> Array:
    return Array(
        Struct(
            (
                *topic,
                Field("partition_index", INT32),
                Field("controller_epoch", INT32),
                Field("leader", INT32),
                Field("leader_epoch", INT32),
                Field("isr", INT32S),
                Field("zk_version", INT32),
                Field("replicas", INT32S),
                Field("offline_replicas", INT32S, first=4, default=()),
            )
        )
    )


_ENDPOINT = Struct(
    (
        Field("port", INT32),
        Field("host", STRING),
        Field("listener", STRING, first=3),
        Field("security_protocol", INT16),
    )
)

UPDATE_METADATA = Api(
    6,
    "UpdateMetadata",
    Message(
        "UpdateMetadataRequest",
        newest=8,
        flexible=6,
        body=Struct(
            (
                *_sender(kraft_since=8, epoch_since=5, between=(Field("type", INT8, first=8, default=0, tag=0),)),
                Field("ungrouped_partition_states", _update_metadata_partition((_TOPIC_NAME,)), last=4),
                Field(
                    "topic_states",
                    Array(
                        Struct(
                            (
                                _TOPIC_NAME,
                                Field("topic_id", UUID, first=7),
                                Field("partition_states", _update_metadata_partition(())),
                            )
                        )
                    ),
                    first=5,
                ),
                Field(
                    "live_brokers",
                    Array(
                        Struct(
                            (
                                Field("id", INT32),
                                Field("v0_host", STRING, last=0),
                                Field("v0_port", INT32, last=0),
                                Field("endpoints", Array(_ENDPOINT), first=1),
                                Field("rack", STRING, first=2, default=None, nullable=True),
                            )
                        )
                    ),
                ),
            )
        ),
    ),
    Message("UpdateMetadataResponse", newest=8, flexible=6, body=Struct((Field("error_code", INT16),))),
)

APIS: Mapping[int, Api] = {api.key: api for api in (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)}
