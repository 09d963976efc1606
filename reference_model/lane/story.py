"""Turns a path through the lane's states into sentences that a reader can follow without the code.

Brokers are numbered 1 to n, 1 leads at first, and a broker keeps its number through the whole story.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import final_log
from kafka_chaos.reference_model.lane.effects import Action, Step
from kafka_chaos.reference_model.lane.state import (
    INFO,
    NOWHERE,
    OK,
    LaneState,
    initial_state,
    leader_index,
    pairs,
    record_of,
    settled,
)

SENTENCES: dict[str, str] = {
    "append": "{broker}, {role}, appends record {record} at offset {detail}{source}.",
    "duplicate_sequence": "{broker} recognises record {record} by its sequence number, at offset {detail}.",
    "taken_for_copy": "{broker} takes record {record} for the one at offset {detail}: they have one sequence number.",
    "connection_closed": "The connection is closed before record {record} is written to it: it will be sent again.",
    "send_repeated": "The send() that wrote record {record} failed in another partition, and is repeated as a whole.",
    "queue": "Record {record} is sent to {broker}, which is frozen: the request waits in its socket.",
    "not_enough_replicas": "{broker} refuses record {record}{source}: NOT_ENOUGH_REPLICAS.",
    "out_of_order_sequence": "{broker} refuses record {record}{source}: {detail}.",
    "acknowledge": "{broker} acknowledges record {record} at offset {detail}.",
    "acknowledge_implicitly": (
        "{broker} acknowledges record {record} at offset {detail}. librdkafka takes that for an acknowledgement of all "
        "records before it, too."
    ),
    "not_enough_replicas_after_append": (
        "{broker} answers record {record} with NOT_ENOUGH_REPLICAS_AFTER_APPEND: appended, not acknowledged."
    ),
    "timeout": "The answer for record {record} does not come in time: it may or may not be written.",
    "close": "{broker} answers nobody, so the producer gives up the connection and what it sent on it.",
    "no_leader": "An attempt to send record {record} finds no leader.",
    "give_up": "The producer gives up record {record}: outcome `info`.",
    "fetch": "{broker} fetches offset {detail} from the leader.",
    "shrink_isr": "{broker} lags, and the leader drops it from the ISR.",
    "expand_isr": "{broker} has caught up and joins the ISR.",
    "elect": "{broker} is elected from the ISR and leads in epoch {epoch}.",
    "elect_eligible": (
        "The ISR is empty: {broker} is elected from the eligible leader replicas and leads in epoch {epoch}."
    ),
    "elect_last_known": (
        "Neither ISR nor eligible leader replicas are left: {broker}, the last known leader, leads in epoch {epoch}."
    ),
    "elect_unclean": "No member of the ISR is there: {broker} is elected from outside it, epoch {epoch}.",
    "learn": "{broker} learns that it was replaced and follows{truncation}.",
    "restart": "{broker} starts again{truncation}.",
    "restart_all": "Every broker that was down is back.",
    "thaw": "{broker} runs on.",
    "thawed": "{broker} runs on.",
    "expire": "The session of {broker} expires; it will run on without knowing.",
    "kill": "{broker}, {role}, is killed; from here on it may be back.",
    "power_loss": "{broker}, {role}, loses power; what is left of its log when it is back: {left}.",
    "stop": "{broker}, {role}, is shut down in a controlled way.",
    "stop_and_move": "{broker}, {role}, is shut down in a controlled way: the leader moves first, epoch {epoch}.",
    "pause": "{broker}, {role}, is paused.",
    "partition": "{broker}, {role}, is cut off from the other brokers and from the metadata.",
    "partition_from_clients": "{broker}, {role}, is cut off from brokers, metadata and its clients.",
    "session_expiry": "The session of {broker}, {role}, expires while it runs on.",
    "cut-replication": "The replication port of {broker}, {role}, is cut off from its followers.",
    "renew_producer_epoch": (
        "A message to another partition times out: the producer renews its producer epoch, for all partitions."
    ),
    "renew_after_error": "Record {record} is out of time: the producer renews its producer epoch at once.",
    "heal-replication": "The cut around {broker} is lifted.",
    "condition": "",
}
"""A sentence per action; a lock-step phase's `append` only waits and needs none."""

ROLES = ("down", "a follower", "the leader", "a zombie leader", "the leader")


Possible = Callable[[LaneState], Iterator[Step]]
"""The steps that are possible in a state."""


def tell(
    path: Sequence[LaneState], lane: Lane, possible: Possible, alike: Callable[[LaneState, LaneState], bool]
) -> tuple[str, ...]:
    """The sentences for a path from the initial state to one in which the run ends.

    `alike` says whether a state is, but for what the search makes equal, one of the path.
    """
    state = path[0]._replace(replicas=initial_state(lane).replicas)
    names = initial_names(state)
    sentences: list[str] = []
    for after in path[1:]:
        action, reached = _step_to(after, state, possible, alike)
        sentences += sentences_of(action, state, reached, names)
        state = settled(reached, lane)
    return (*sentences, ending_of(state, names))


def initial_names(state: LaneState) -> tuple[int, ...]:
    """The numbers of brokers by index, in a state with which a run begins."""
    leader = leader_index(state.replicas)
    others = iter(range(2, len(state.replicas) + 1))
    return tuple(1 if index == leader else next(others) for index in range(len(state.replicas)))


def _step_to(
    after: LaneState, state: LaneState, possible: Possible, alike: Callable[[LaneState, LaneState], bool]
) -> Step:
    for action, reached in possible(state):
        if alike(reached, after):
            return action, reached
    raise AssertionError("no action leads from a state to its successor on the path")


def sentences_of(action: Action, before: LaneState, raw: LaneState, names: Sequence[int]) -> tuple[str, ...]:
    """What is told of a step from one state to another, which is not settled yet: an action, and what is read then.

    `names`: the numbers of the brokers, by index.
    """
    replica = before.replicas[action.broker] if action.broker >= 0 else None
    sentence = SENTENCES[action.name].format(
        broker=f"broker {names[action.broker]}" if replica else "",
        role=ROLES[replica.role] if replica else "",
        record=action.record,
        detail=action.detail,
        source=", read from its socket" if action.from_socket else "",
        epoch=raw.leader_epoch,
        truncation=f", truncating to offset {action.detail}" if action.detail else "",
        left=counted_records(int(action.detail)) if action.name == "power_loss" else "",
    )
    read = pairs(raw.reads & ~before.reads)
    reads = (f"Consumers read record {record} at offset {offset}." for record, offset in read)
    return (*([sentence[:1].upper() + sentence[1:]] if sentence else []), *reads)


def counted_records(count: int) -> str:
    """A number of records in words."""
    return "no record" if count == 0 else "1 record" if count == 1 else f"{count} records"


def ending_of(state: LaneState, names: Sequence[int]) -> str:
    """The sentence for the state in which a run ends."""
    log = final_log(state)
    leader = leader_index(state.replicas)
    records = ", ".join(f"record {record_of(value)}" for value in log or ()) or "nothing"
    outcomes = []
    for index, record in enumerate(state.records):
        if record.status == OK:
            where = f" at offset {record.offset}" if record.offset != NOWHERE else ""
            outcomes.append(f"record {index} was acknowledged{where}")
        elif record.status == INFO:
            outcomes.append(f"record {index} ended as `info`")
    said = "; ".join(outcomes) or "no record was acknowledged"
    return f"The run ends: the final log, that of broker {names[leader]}, holds {records}; {said}."
