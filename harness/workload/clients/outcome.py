"""Decides the outcome of a produced record by its error alone, from the delivery report or raised by `produce()`.

`ok`: acknowledged (with acks=0: handed to the socket). `fail`: certainly not in the log. `info`: may or may not be.

librdkafka knows whether a message was possibly persisted, but the Python client does not expose it, and the last error
of a message does not say what its earlier attempts left in the log. So an error is `fail` only if no attempt can have
reached a log at all. `outcome_of` has all rows but the first two, which its callers decide:

| error | when | outcome | why |
| --- | --- | --- | --- |
| none | delivery report | ok | acknowledged as `acks` asks |
| any | raised by `produce()` itself | fail | the message never entered the queue |
| any of `REFUSED_BEFORE_APPEND` | the broker refuses before the append | fail with acks=1 and no retries, \
else info | an earlier attempt may have been appended, unanswered, before the leader or a setting changed |
| NOT_ENOUGH_REPLICAS_AFTER_APPEND | after the append | info | the record is in the leader's log |
| _MSG_TIMED_OUT | message.timeout.ms passed, sent or not | info | the request may have been handled |
| REQUEST_TIMED_OUT, NETWORK_EXCEPTION, _TRANSPORT, _TIMED_OUT | after the send | info | maybe appended, unanswered |
| _PURGE_INFLIGHT, _PURGE_QUEUE | purged by the client | info | in flight, or back in the queue after an attempt |
| OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH, _FATAL, \
_GAPLESS_GUARANTEE | the idempotent producer gave up | info | an attempt may have been appended |
| any other | | info | when in doubt |

Sources: librdkafka's INTRODUCTION.md, "Message reliability" and "Idempotent Producer"; Kafka protocol guide, error
codes; KIP-98; KIP-679 for the defaults.
"""

from enum import StrEnum

from confluent_kafka import KafkaError


class Outcome(StrEnum):
    """The outcome of a produced record, as its producer knows it (explained at the top of the module)."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


REFUSED_BEFORE_APPEND = frozenset({
    KafkaError.INVALID_MSG_SIZE, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP, KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError.TOPIC_EXCEPTION, KafkaError.POLICY_VIOLATION, KafkaError.INVALID_REQUIRED_ACKS,
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.INVALID_CONFIG,
    KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE,
})  # fmt: skip
"""Errors with which a broker refuses a produce request before it appends anything."""


def outcome_of(error: KafkaError, *, may_retry: bool) -> tuple[Outcome, str]:
    """The outcome for the error of a delivery report, and its name. `may_retry`: whether the producer ever retries."""
    was_never_appended = error.code() in REFUSED_BEFORE_APPEND and not may_retry
    return Outcome.FAIL if was_never_appended else Outcome.INFO, error.name()
