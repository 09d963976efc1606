"""Turns a path through the machine's states into sentences that a reader can follow without the code.

Members are numbered from 1, each incarnation anew; offsets from 0, as Kafka does. A commit names the next offset.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.contract.lane.groups import IN_TRANSACTION
from kafka_chaos.reference_model.groups.state import NONE, Action, Setup, State

SENTENCES: Mapping[str, str] = toml_of("kafka_chaos.reference_model", "sentences.toml")["groups"]
"""A sentence per action."""


def sentence(action: Action, before: State, after: State, setup: Setup) -> str:
    """The sentence for an action and its actor."""
    number = before.members[action.slot].number
    if action.slot != NONE and (action.name == "join" or number == NONE):
        number = after.members[action.slot].number
    who = f"ember {number + 1}"
    return SENTENCES[action.name].format(
        who=f"M{who}",
        who_=f"m{who}",
        offset=action.offset,
        detail=action.detail,
        generation=after.coordinator.generation,
        processes=_processes(setup),
        gives=", and first gives the partition back" if action.detail == "owns" and setup.rules.gives_back_all else "",
    )


def _processes(setup: Setup) -> str:
    if not setup.is_loop:
        return "processes"
    return "writes, in a transaction, the output of" if setup.commits == IN_TRANSACTION else "writes the output of"


def conclusion(state: State, setup: Setup) -> str:
    """The sentence for the evidence of a run that ends in a state."""
    texts = [f"the committed offset is {state.coordinator.committed}"]
    if setup.is_loop:
        texts += [f"input {record} has {_count(count)}" for record, count in enumerate(state.outputs)]
    else:
        done = [str(record) for record in range(setup.records) if state.processed >> record & 1]
        texts.append(f"processed were records {' and '.join(done)}" if done else "nothing was processed")
    return f"The run ends: {'; '.join(texts)}."


def _count(outputs: int) -> str:
    return {0: "no output", 1: "one output"}.get(outputs, f"{outputs} outputs")
