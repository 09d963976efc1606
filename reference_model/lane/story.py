"""Turns a path through the lane's states into sentences that a reader can follow without the code.

Brokers are numbered 1 to n, 1 leads at first, and a broker keeps its number through the whole story.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from kafka_chaos.contract.command.files import toml_of
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

SENTENCES: Mapping[str, str] = toml_of("kafka_chaos.reference_model", "sentences.toml")["lane"]
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
