"""The steps of producers, and what consumers read."""

import time

from kafka_chaos.conformance.broker_client import FETCH_FROM_LEADER, ObservingClient
from kafka_chaos.conformance.reproduce.claims import StoryStep
from kafka_chaos.conformance.reproduce.playing.producer import PRODUCER
from kafka_chaos.conformance.reproduce.playing.stage import TIMEOUT, Part, Stage, TraceNotReproduced
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.broker.client import NONE
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.storage.segments import read_segment, records_of

_SEGMENT = f"{0:020}.log"


def append(stage: Stage, step: StoryStep) -> None:
    """A record reaches a log: the producer sends it, or what has waited arrives."""
    if step.action.from_socket:
        lift_queued(stage, release=True)
    else:
        for part in stage.parts:
            if step.broker in stage.queued:
                # Records on one connection keep their order: only on another one may this record overtake.
                part.producer.give_up(step.broker)
            part.producer.send(step.record, step.broker)
    stage.await_log(step.broker, step.number)


def queue(stage: Stage, step: StoryStep) -> None:
    """A request waits in front of a broker, in its link."""
    link = stage.link(step.broker)
    stage.queued.add(step.broker)
    for part in stage.parts:
        rule = _queued(part)
        frames = {"api": "Produce", "sender": ("clients",), "topic": part.topic, "nth": 1}
        link.apply(rule, action="hold", side="request", **frames)
        part.producer.send(step.record, step.broker)

        def waits(rule: str = rule) -> bool:
            return bool((link.tally(rule) or {}).get("taken"))

        what = f"record {step.record} to wait in front of broker {step.broker}"
        wait_until(waits, what, timeout=TIMEOUT)


def lift_queued(stage: Stage, *, release: bool) -> None:
    """Let the requests that wait arrive, or (without `release`) be lost."""
    for broker in stage.queued:
        for part in stage.parts:
            stage.link(broker).lift(_queued(part), release=release)
    stage.queued.clear()


def _queued(part: Part) -> str:
    return f"story-queued-{part.topic}"


def acknowledge(stage: Stage, step: StoryStep) -> None:
    """The answer arrives: no error, and the offset where the broker holds the record."""
    for part in stage.parts:
        offset = _answer(part, step, "NONE")
        held = stage.offset(part, step.broker, int(step.action.detail))
        if offset != held:
            raise TraceNotReproduced(
                f"broker {step.broker} acknowledges offset {offset}, and holds the record at {held}"
            )


def not_enough_replicas(stage: Stage, step: StoryStep) -> None:
    """The broker refuses the record."""
    for part in stage.parts:
        part.producer.send(step.record, step.broker)
    for part in stage.parts:
        _answer(part, step, "NOT_ENOUGH_REPLICAS")


def not_enough_replicas_after_append(stage: Stage, step: StoryStep) -> None:
    """The broker has appended the record, and reports too few replicas."""
    for part in stage.parts:
        _answer(part, step, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")


def no_leader(stage: Stage, step: StoryStep) -> None:
    """An attempt goes to a broker that does not lead."""
    leaders = {stage.story.leader(one.after) for one in stage.story.steps}
    follower = next(broker for broker in stage.story.names if broker not in {1, *leaders})
    for part in stage.parts:
        part.producer.send(step.record, follower)
        _answer(part, step, "NOT_LEADER_OR_FOLLOWER")
        part.producer.give_up(follower)


def lose_answers(stage: Stage, step: StoryStep) -> None:
    """The producer gives up a connection, and learns nothing more of what was sent on it."""
    for part in stage.parts:
        part.producer.give_up(step.broker)


def _answer(part: Part, step: StoryStep, expected: str) -> int:
    error, offset = part.producer.answer(step.record)
    if error != expected:
        raise TraceNotReproduced(f"the answer for record {step.record} was {error}, expected {expected}")
    return offset


def read(stage: Stage, part: Part, step: StoryStep) -> None:
    """Reads what the leader shows consumers after a step, with a consumer of its own."""
    if not step.reads:
        return
    story = part.story
    broker = story.leader(step.after) or stage.leader_before(step)
    name = f"reader-{len({row['consumer'] for row in part.consumed}) + 1}"
    for record, place in step.reads:
        offset = stage.offset(part, broker, place)

        def shown(offset: int = offset, record: int = record) -> bool:
            return _shown_at(stage, part, broker, offset) == (PRODUCER, record)

        what = f"broker {broker} to show consumers record {record} at offset {offset}"
        wait_until(shown, what, timeout=TIMEOUT)
        _note_read(part, name, offset, (PRODUCER, record))


def read_to_end(stage: Stage, part: Part) -> None:
    """A consumer reads the partition from its first offset to its end."""
    leader = stage.lease.admin.await_leader(part.topic, 0)
    for offset in range(stage.lease.admin.end_offsets(part.topic, [0])[0]):
        found = _shown_at(stage, part, leader, offset)
        if found is not None:
            _note_read(part, "reader", offset, found)


def _shown_at(stage: Stage, part: Part, broker: int, offset: int) -> tuple[int, int] | None:
    """(producer, seq) of the record that a broker shows consumers at an offset, if it shows one."""
    try:
        with ObservingClient(stage.address(broker)) as client:
            answer = client.fetch(part.topic, offset=offset, version=FETCH_FROM_LEADER)
    except BrokerUnreachable:
        return None
    if answer.error != NONE:
        return None
    records = records_of(read_segment(_SEGMENT, bytes(answer.records)).batches)
    found = [one.value for one in records if one.offset == offset]
    return part.identities(found)[0] if found else None


def _note_read(part: Part, consumer: str, offset: int, identity: tuple[int, int]) -> None:
    producer_id, seq = identity
    row = {"lane": part.story.lane.lane, "consumer": consumer, "partition": 0, "offset": offset}
    part.consumed.append({**row, "producer_id": producer_id, "seq": seq, "poll_ns": time.monotonic_ns()})
