"""Kafka's retriable errors: after these, clients try again.

Source: https://kafka.apache.org/protocol.html#protocol_error_codes (the column "Retriable").
"""

from kafka_chaos.contract.wire.kafka_python import kafka_errors

_CURRENT_NAMES = {"NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER"}  # by the names that kafka-python uses
RETRIABLE_ERRORS: dict[str, int] = {
    _CURRENT_NAMES.get(error.message, error.message): code
    for code, error in kafka_errors.items()
    if code is not None and code > 0 and error.retriable
}
"""The codes of Kafka's retriable errors, by the names that Kafka gives them."""
