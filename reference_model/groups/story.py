"""Turns a path through the machine's states into sentences that a reader can follow without the code.

Members are numbered from 1, each incarnation anew; offsets from 0, as Kafka does. A commit names the next offset.
"""

from __future__ import annotations

from kafka_chaos.contract.lane.groups import IN_TRANSACTION
from kafka_chaos.reference_model.groups.state import NONE, Action, Setup, State

SENTENCES: dict[str, str] = {
    "ask": "{who} asks for the committed offset, {offset}.",
    "begin_at_end": "{who} finds no committed offset, and begins at the end, {offset} (auto.offset.reset=latest).",
    "poll": "{who} is given record {offset}.",
    "reset": "{who} is past the end, begins again at the start (auto.offset.reset=earliest) and is given record 0.",
    "reset_to_end": "{who} is past the end and begins at it, offset {offset} (auto.offset.reset=latest).",
    "process": "{who} {processes} record {offset}.",
    "commit": "{who} commits offset {offset}, and it is acknowledged.",
    "auto_commit": "The client of {who_} commits offset {offset} automatically.",
    "unanswered": "{who} commits offset {offset}; this is done, but the coordinator moves and the answer is lost.",
    "refused": "{who} tries to commit offset {offset} and is refused: it is not in this generation of the group.",
    "add_offset": "{who} adds offset {offset} to its transaction.",
    "refused_in_transaction": "{who} tries to add offset {offset} to its transaction and is refused: it is not in this "
    "generation of the group, and aborts.",
    "end": "{who} commits its transaction: the output and offset {offset}.",
    "torn": "{who} commits its transaction with offset {offset}, of which only the {detail} is committed.",
    "expelled": "{who} learns that its transaction was aborted.",
    "learn": "{who} learns that it is not in the group any more.",
    "leave": "{who} leaves the group.",
    "join": "{who} joins the group: a rebalance begins.",
    "join_again": "{who} joins the rebalance{gives}.",
    "assign": "Generation {generation} begins: {who_} has the partition.",
    "give_back": "Generation {generation} begins: {who_} gives the partition back, for it is to move.",
    "crash": "{who} crashes.",
    "come_back": "{who}, a static member, is started again and has what it had.",
    "expire": "The session of {who_} expires: the coordinator removes it.",
    "remove": "{who} does not poll, or is not heard from, for too long: the coordinator removes it, and it goes on.",
    "abort": "The coordinator aborts the transaction of {who_}.",
    "fail_over": "Another broker becomes coordinator, and does not read the commits.",
    "lose_offsets": "__consumer_offsets loses its end: the group's committed offset is {offset} again.",
    "lose_source": "The partition loses its end, from offset {offset} on.",
    "lose_output": "The output loses one of input {offset}.",
}


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
