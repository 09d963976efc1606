"""Turns a path through a lane's states into a story: sentences that a reader can follow without the code.

Brokers are numbered 1 to n. Broker 1 leads at first, and a broker keeps its number through the whole story.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane import state as states
from kafka_chaos.reference_model.lane.anomalies import WHOLE, Form, final_log
from kafka_chaos.reference_model.lane.effects import Action, Step

SENTENCES: Mapping[str, str] = package_toml("kafka_chaos.reference_model", "sentences.toml")["lane"]
"""A sentence per action; a lock-step phase's `append` only waits and needs none."""

ROLES = ("down", "a follower", "the leader", "a zombie leader", "the leader")
"""The words for a broker's role, by its number in `state.py`."""

NextSteps = Callable[[states.LaneState], Iterator[Step]]
"""A function that yields every step that is possible in a state."""


def tell(
    path: Sequence[states.LaneState], lane: Lane, next_steps: NextSteps, forms: Sequence[Form] = (WHOLE,)
) -> tuple[str, ...]:
    """The sentences for a path from the initial state to one in which the run ends.

    The path has canonical states, in which brokers have no names. So the story takes the same steps again, from a state
    with names. `forms`: the forms that the search has reduced states to.
    """
    state = path[0]._replace(replicas=states.initial_state(lane).replicas)
    numbers = initial_numbers(state)
    sentences: list[str] = []
    for expected in path[1:]:
        action, after = next(
            (action, after)
            for action, after in next_steps(state)
            if any(form.reduce(states.canonical(after, lane)) == expected for form in forms)
        )
        sentences += sentences_of(action, state, after, numbers)
        state = states.idle_zombies_as_followers(after, lane)
    return (*sentences, ending_of(state, numbers))


def initial_numbers(state: states.LaneState) -> tuple[int, ...]:
    """The number of each broker, in the order of their indices, at the beginning of a run: broker 1 leads."""
    leader = state.leader
    others = iter(range(2, len(state.replicas) + 1))
    return tuple(1 if index == leader else next(others) for index in range(len(state.replicas)))


def sentences_of(
    action: Action, before: states.LaneState, after: states.LaneState, numbers: Sequence[int]
) -> tuple[str, ...]:
    """The sentences for a step: its action, if it has a sentence, and each record that consumers then read.

    `after` is the action's own result, before `idle_zombies_as_followers`. `numbers`: the brokers' numbers, by index.
    """
    replica = before.replicas[action.broker] if action.broker >= 0 else None
    sentence = SENTENCES[action.name].format(
        broker=f"broker {numbers[action.broker]}" if replica else "",
        role=ROLES[replica.role] if replica else "",
        record=action.record,
        detail=action.detail,
        source=", read from its socket" if action.from_socket else "",
        epoch=after.leader_epoch,
        truncation=f", truncating to offset {action.detail}" if action.detail else "",
        left=counted_records(int(action.detail)) if action.name == "power_loss" else "",
    )
    reads = (
        f"Consumers read record {record} at offset {offset}."
        for record, offset in states.pairs(after.reads & ~before.reads)
    )
    return (*([sentence[:1].upper() + sentence[1:]] if sentence else []), *reads)


def counted_records(count: int) -> str:
    """A number of records in words."""
    return "no record" if count == 0 else "1 record" if count == 1 else f"{count} records"


def ending_of(state: states.LaneState, numbers: Sequence[int]) -> str:
    """The sentence for the state in which a run ends."""
    leader = state.leader
    log = ", ".join(f"record {states.record_of(value)}" for value in final_log(state) or ()) or "nothing"
    outcomes = []
    for index, record in enumerate(state.records):
        if record.status == states.OK:
            offset = f" at offset {record.offset}" if record.offset != states.NOWHERE else ""
            outcomes.append(f"record {index} was acknowledged{offset}")
        elif record.status == states.INFO:
            outcomes.append(f"record {index} ended as `info`")
    told_outcomes = "; ".join(outcomes) or "no record was acknowledged"
    return f"The run ends: the final log, that of broker {numbers[leader]}, holds {log}; {told_outcomes}."
