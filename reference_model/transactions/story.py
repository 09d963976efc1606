"""Turns a path through the machine's states into sentences that a reader can follow without the code.

Incarnations, transactions and the records of each are numbered from 1; partitions from 0, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.reference_model.transactions.anomalies import ending
from kafka_chaos.reference_model.transactions.effects import Action
from kafka_chaos.reference_model.transactions.state import (
    ABORT,
    ABORTED,
    ASKED,
    COMMIT,
    COMMITTED,
    DATA,
    NONE,
    Entry,
    Setup,
    State,
)
from kafka_chaos.reference_model.tuples import bits

SENTENCES: Mapping[str, str] = toml_of("kafka_chaos.reference_model", "sentences.toml")["transactions"]
"""A sentence per action; one that ends without a full stop is followed by what became of the request."""

STATUS_NAMES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


def sentence(action: Action, before: State, after: State, setup: Setup) -> str:
    """The sentence for an action, and the outcome of the request that it is."""
    who = name_of(action.producer, setup)
    said = SENTENCES[action.name].format(
        who=who,
        of=f" of {who[:1].lower()}{who[1:]}" if who else "",
        transaction=action.transaction + 1,
        record=action.record + 1,
        partition=action.partition,
        detail=action.detail,
        article="an" if action.detail == "abort" else "a",
        Article="An" if action.detail == "abort" else "A",
        lost=_lost(action, before, after) if action.name == "lose_ends" else "",
    )
    return said if said.endswith(".") else said + _became(action)


def name_of(producer: int, setup: Setup) -> str:
    """The name of an incarnation; with one each, that of the producer."""
    if producer == NONE:
        return ""
    is_only_one = len(set(setup.ids)) == len(setup.ids)
    return f"Producer {producer + 1}" if is_only_one else f"Incarnation {producer + 1} of the producer"


def _became(action: Action) -> str:
    if action.name in ("start", "renew_epoch"):
        return f" and gets {action.detail}." if action.detail.isdigit() else f": {action.detail}."
    if action.name.startswith("late_"):
        return " and is taken." if action.detail == "OK" else f" and is refused: {action.detail}."
    if action.detail == "late":
        return "; the request is late, and no answer comes."
    if action.detail == "unanswered":
        return "; this is done, and the answer is lost."
    return "." if action.detail == "OK" else f": {action.detail}."


def _lost(action: Action, before: State, after: State) -> str:
    parts = [
        f"partition {at} ends at offset {len(now)}"
        for at, (was, now) in enumerate(zip(before.logs, after.logs, strict=True))
        if len(now) < len(was)
    ]
    if action.detail:
        parts.append(f"__transaction_state says {STATUS_NAMES[int(action.detail)]} again")
    return ", ".join(parts)


def conclusion(state: State, setup: Setup) -> str:
    """The sentence for the evidence of a run that ends in a state."""
    logs = "; ".join(
        f"partition {at} holds {', '.join(_entry(entry, setup) for entry in log) or 'nothing'}"
        for at, log in enumerate(state.logs)
    )
    said = {COMMITTED: "its commit was acknowledged", ABORTED: "it was aborted", ASKED: "its commit was asked for"}
    outcomes = "".join(
        f"; transaction {transaction + 1}: {said[outcome]}"
        for transaction, outcome in enumerate(state.outcomes)
        if outcome in said
    )
    end = ending(state, setup)
    read = ", ".join(_record(number, setup) for number in bits(end.read if end else 0)) or "nothing"
    return f"The run ends: {logs}{outcomes}; a read_committed consumer was given {read}."


def _entry(entry: Entry, setup: Setup) -> str:
    if entry.kind == DATA:
        return _record(entry.number, setup)
    return {COMMIT: "a commit marker", ABORT: "an abort marker"}[entry.kind]


def _record(number: int, setup: Setup) -> str:
    return f"record {number % setup.size + 1} of transaction {number // setup.size + 1}"
