"""Further steps of a lane, for producers that do not repeat their requests as Kafka's protocol says.

Each is the variant of a known defect (`known_defects.toml`) and has its source in `clients/rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.effects import Action, Step, too_few_in_sync
from kafka_chaos.reference_model.lane.exchanges import taken
from kafka_chaos.reference_model.lane.idempotence import renew_producer_epoch
from kafka_chaos.reference_model.lane.state import (
    INFO,
    NEW,
    NOWHERE,
    OK,
    RETRY,
    WAITING,
    LaneState,
    Record,
    leader_index,
    record_of,
    request,
    with_record,
)


def number_anew(state: LaneState, lane: Lane) -> Iterator[Step]:
    """kafkajs-1005: once a send() has to be repeated, each that is open takes the number that is next at that moment:
    of those that have succeeded or are in flight. The leader has as many numbers as batches, since it takes no other.
    """
    if any(record.status == RETRY for record in state.records):
        held = len(state.replicas[leader_index(state.replicas)].log)
        number = sum(record.status in (OK, WAITING) for record in state.records)
        for index, record in enumerate(state.records):
            if record.status in (NEW, RETRY) and number <= held:
                yield from _sent(state, lane, index, [number if number < held else None])


def leave_unnumbered(state: LaneState, lane: Lane) -> Iterator[Step]:
    """sarama-3354: what is given to the producer while it repeats older messages has number 0, as the first message of
    each producer epoch. For the leader it is a copy of that one."""
    log = state.replicas[leader_index(state.replicas)].log
    first = [offset for offset, value in enumerate(log) if record_of(value) in state.first_records]
    for index, record in enumerate(state.records):
        if record.status == NEW and index > 0 and state.records[index - 1].status != NEW:
            yield from _sent(state, lane, index, first)


def renew_after_error(state: LaneState, lane: Lane) -> Iterator[Step]:
    """KAFKA-14397: the producer gives a record up when its delivery time-out is over and a broker has answered with an
    error, and renews its epoch at once: what is in flight behind that record has another number when it is sent again.
    """
    for index, record in enumerate(state.records[:-1]):
        if state.producer_epoch == 0 and record.status == RETRY and state.records[index + 1].status in (WAITING, RETRY):
            given_up = with_record(state, index, Record(INFO, 0, NOWHERE))
            yield Action("renew_after_error", -1, index), renew_producer_epoch(given_up, index + 1)


def return_late(state: LaneState, lane: Lane) -> Iterator[Step]:
    """sarama-2619: once a record has to be sent again, it and the next change places in a batch, which the leader takes
    by the number of its first record: what the log has not is appended."""
    if any(record.status == RETRY for record in state.records):
        held = {record_of(value) for value in state.replicas[leader_index(state.replicas)].log}
        for index, record in enumerate(state.records):
            if record.status in (NEW, RETRY) and index not in held:
                yield from _sent(state, lane, index, [None])


def repeat_unanswered(state: LaneState, lane: Lane) -> Iterator[Step]:
    """kafkajs-822: a connection is closed while several send() calls are open. What it has not taken is sent again, and
    so is what a send() has written to another broker, whose partition has moved since."""
    for index, record in enumerate(state.records):
        if record.status == NEW and (index == 0 or state.records[index - 1].status != NEW):
            yield Action("connection_closed", -1, index), with_record(state, index, Record(RETRY, 1, NOWHERE))
        elif record.status == OK and lane.partitions > 1:
            yield Action("send_repeated", -1, index), with_record(state, index, Record(RETRY, 1, NOWHERE))


def _sent(state: LaneState, lane: Lane, index: int, held: Iterable[int | None]) -> Iterator[Step]:
    """A record is sent to the leader, which appends it, or takes it for one of those that it holds."""
    leader = leader_index(state.replicas)
    if state.records[index].attempts == 0 or too_few_in_sync(state, lane, state.replicas[leader]):
        return
    for offset in held:
        action, after = taken(state, lane, leader, request(index, state.producer_epoch), offset, awaited=True)
        yield action if offset is None else action._replace(name="taken_for_copy"), after
