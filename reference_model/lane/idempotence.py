"""An idempotent producer's sequence numbers in a lane, as the brokers' logs and the producer know them.

A record's sequence number in a producer epoch counts from the first record of that epoch (`LaneState.first_records`).
Left out: batches that a broker remembers and its log does not hold, producer state that expires.
"""

from functools import lru_cache

from kafka_chaos.reference_model.lane.state import NOWHERE, OK, RETRY, LaneState, Record, producer_epoch_of, record_of
from kafka_chaos.reference_model.protocol.sequences import Batch, Refusal, check_batch, renews_epoch

BEFORE_FIRST = Batch(0, -1, NOWHERE)
"""An imagined batch before a producer's first one: after it, a broker takes no batch but one with sequence number 0."""


def check_sequence(state: LaneState, broker: int, request: int) -> Refusal | int | None:
    """The broker's answer to a request, by its own log (`protocol/sequences.py`)."""
    epoch = producer_epoch_of(request)
    remembered = _remembered(state.replicas[broker].log, state.first_records, state.takes_any_first_batch)
    return check_batch(remembered, epoch, record_of(request) - state.first_records[epoch])


@lru_cache(maxsize=1 << 12)
def _remembered(log: tuple[int, ...], first_records: tuple[int, ...], takes_any_first_batch: bool) -> list[Batch]:
    batches = [] if takes_any_first_batch else [BEFORE_FIRST]
    for offset, value in enumerate(log):
        epoch = producer_epoch_of(value)
        batches.append(Batch(epoch, record_of(value) - first_records[epoch], offset))
    return batches


def implicitly_acknowledged(state: LaneState, acknowledged_index: int) -> LaneState:
    """librdkafka's rule: an acknowledged record acknowledges the records before it that wait to be sent again.

    Records acknowledged in this way have no offset, whatever a broker answered to them. The rule is right only if
    brokers accept a producer's batches in order, from the first batch on. Source: librdkafka 2.15.0,
    `rd_kafka_handle_idempotent_Produce_success` in src/rdkafka_request.c (line 4803), which calls
    `rd_kafka_dr_implicit_ack` in src/rdkafka_broker.c (line 3107).
    """
    for index in range(acknowledged_index):
        if state.records[index].status == RETRY:
            state = state.with_record(index, Record(OK, 0, NOWHERE))
    return state


def after_refusal(state: LaneState, request: int, refusal: Refusal) -> LaneState:
    """The state after the producer has heard of a refusal.

    The producer renews its epoch where that helps (KIP-360). Then the refused record is the first of the new epoch.
    """
    index = record_of(request)
    has_predecessor = producer_epoch_of(request) == state.producer_epoch and index > state.first_records[-1]
    if renews_epoch(refusal, follows_acknowledged=has_predecessor and state.records[index - 1].status == OK):
        return renew_producer_epoch(state, index)
    return state


def renew_producer_epoch(state: LaneState, first: int) -> LaneState:
    """The producer starts a new producer epoch, in which this record has sequence number 0."""
    return state._replace(first_records=(*state.first_records, first))
