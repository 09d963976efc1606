"""Searches the model of transactions for the anomalies that a lane may show: one exhausted search per scope.

These scopes are searched in this order, each for the anomalies that are not found yet:

- one transactional id with two incarnations, of which the first may go on as a zombie, while one request may be late;
- the same with one failover of the coordinator instead, where brokers may fail. Tests search both at once, and two
  late requests, which adds nothing;
- the same where replication may lose acknowledged records of partitions or of __transaction_state, with one broker that
  leads them and loses the ends of their logs. __transaction_state is replicated with acks=all and clean elections
  whatever the lane's topic does (Kafka sets `unclean.leader.election.enable` to false for it);
- two transactional ids, if there is more than one producer, for cycles between their transactions. Nothing fails there:
  producers with different transactional ids share nothing but the partitions. A cycle within one transactional id is
  searched for without losses: a loss adds nothing to a log.

Each scope has two transactions of two records over two partitions (of one record, or over one partition, if the lane
has no more). Transactions may be aborted whatever the lane's share of aborts is: an unacknowledged record aborts one.

Left out: consumer groups and offsets in transactions; late WriteTxnMarkers requests of a coordinator that is still in
office (KIP-1228); mere delays. A frozen coordinator or leader holds up the end of a transaction, and with it the last
stable offset, for as long as it is frozen: that is not an anomaly once the freeze is over.

The sentences for a path number incarnations, transactions and their records from 1, and partitions from 0, like Kafka.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.machine import Machine, Story
from kafka_chaos.reference_model.transactions import environment, producers
from kafka_chaos.reference_model.transactions import state as states
from kafka_chaos.reference_model.transactions.anomalies import CHECKS, ending
from kafka_chaos.reference_model.transactions.effects import Action
from kafka_chaos.reference_model.transactions.partitions import is_fenced, takes_marker
from kafka_chaos.reference_model.transactions.producers import in_phase_over
from kafka_chaos.reference_model.transactions.rules import Kind, Rules
from kafka_chaos.reference_model.tuples import bits

SENTENCES: Mapping[str, str] = package_toml("kafka_chaos.reference_model", "sentences.toml")["transactions"]
"""A sentence per action; one that ends without a full stop is followed by what became of the request."""


def sentence(action: Action, before: states.State, after: states.State, setup: states.Setup) -> str:
    """The sentence for an action; if the action is a request, with its outcome."""
    who = name_of(action.producer, setup)
    text = SENTENCES[action.name].format(
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
    return text if text.endswith(".") else text + _outcome(action)


def name_of(producer: int, setup: states.Setup) -> str:
    """The name of an incarnation, or of its producer if each producer has only one."""
    if producer == states.NONE:
        return ""
    is_only_one = len(set(setup.ids)) == len(setup.ids)
    return f"Producer {producer + 1}" if is_only_one else f"Incarnation {producer + 1} of the producer"


def _outcome(action: Action) -> str:
    """The end of a request's sentence."""
    if action.name in ("start", "renew_epoch"):
        return f" and gets {action.detail}." if action.detail.isdigit() else f": {action.detail}."
    if action.name.startswith("late_"):
        return " and is taken." if action.detail == "OK" else f" and is refused: {action.detail}."
    if action.detail == "late":
        return "; the request is late, and no answer comes."
    if action.detail == "unanswered":
        return "; this is done, and the answer is lost."
    return "." if action.detail == "OK" else f": {action.detail}."


def _lost(action: Action, before: states.State, after: states.State) -> str:
    losses = [
        f"partition {number} ends at offset {len(now)}"
        for number, (was, now) in enumerate(zip(before.logs, after.logs, strict=True))
        if len(now) < len(was)
    ]
    if action.detail:
        losses.append(f"__transaction_state says {states.STATUS_NAMES[int(action.detail)]} again")
    return ", ".join(losses)


def conclusion(state: states.State, setup: states.Setup) -> str:
    """The sentence for the evidence of a run that ends in a state."""
    logs = "; ".join(
        f"partition {number} holds {', '.join(_entry(entry, setup) for entry in log) or 'nothing'}"
        for number, log in enumerate(state.logs)
    )
    words = {
        states.COMMITTED: "its commit was acknowledged",
        states.ABORTED: "it was aborted",
        states.ASKED: "its commit was asked for",
    }
    outcomes = "".join(
        f"; transaction {transaction + 1}: {words[outcome]}"
        for transaction, outcome in enumerate(state.outcomes)
        if outcome in words
    )
    end = ending(state, setup)
    read = ", ".join(_record(number, setup) for number in bits(end.read if end else 0)) or "nothing"
    return f"The run ends: {logs}{outcomes}; a read_committed consumer was given {read}."


def _entry(entry: states.Entry, setup: states.Setup) -> str:
    if entry.kind == states.DATA:
        return _record(entry.number, setup)
    return {states.COMMIT: "a commit marker", states.ABORT: "an abort marker"}[entry.kind]


def _record(number: int, setup: states.Setup) -> str:
    return f"record {number % setup.size + 1} of transaction {number // setup.size + 1}"


ACTIONS = (
    producers.write,
    producers.end,
    producers.initialise,
    environment.write_marker,
    environment.complete_transaction,
    environment.arrive_late,
    environment.arrive_late_marker,
    environment.time_out,
    environment.fail_over,
    environment.lose_ends,
)


def canonical(state: states.State, setup: states.Setup) -> states.State:
    """The representative of all states that behave alike.

    These states may differ in the phase of a producer that has no transaction left to write, in late requests and
    markers that nobody would accept, and in the order of all others. Once the coordinator can't be replaced any more,
    and no late marker is left, they may also differ in how often it was replaced.
    """
    producers = state.producers
    if len(state.outcomes) == setup.transactions:
        producers = tuple(
            in_phase_over(producer) if producer.phase in (states.READY, states.RENEWING) else producer
            for producer in producers
        )
    late = tuple(sorted(request for request in state.late if state.losses or not _is_refused(state, setup, request)))
    present, rules = state.logs, setup.rules
    acceptable = {m for m in state.late_markers if state.losses or takes_marker(present[m.partition], m.entry, rules)}
    markers = tuple(sorted(acceptable))
    state = state._replace(producers=producers, late=late, late_markers=markers)
    if markers or state.failovers or state.losses or not state.coordinator_epoch:
        return state
    logs = tuple(
        tuple(entry if entry.kind == states.DATA or not entry.number else entry._replace(number=0) for entry in log)
        for log in state.logs
    )
    return state._replace(logs=logs, coordinator_epoch=0)


def _is_refused(state: states.State, setup: states.Setup, request: states.Request) -> bool:
    """Whether a request will be refused whenever it arrives: epochs only rise where nothing is lost."""
    id = setup.ids[request.producer]
    if request.kind is Kind.PRODUCE:
        return is_fenced(state.logs[setup.partition_of(request.detail)], id, request.epoch, setup.rules)
    return setup.rules.coordinator_fences_producers and request.epoch < state.coordinated[id].last_entry.epoch


TRANSACTIONS = Machine(
    name="transactions",
    initial=states.initial_state,
    actions=ACTIONS,
    canonical=canonical,
    ending=ending,
    checks=CHECKS,
    sentence=sentence,
    conclusion=conclusion,
)


@cache
def stories_with(rules: Rules, size: int, partitions: int) -> Mapping[TransactionAnomaly, Story]:
    """The stories to the anomalies that a defect's rules make reachable without any fault.

    One late request is enough for most anomalies, and two on one partition for the rest.
    """
    setup = states.Setup(rules, size=size, partitions=partitions)
    stories: dict[TransactionAnomaly, Story] = {}
    for scope in (setup, replace(setup, late_requests=2, partitions=1)):
        stories |= TRANSACTIONS.stories(CHECKS.keys() - stories.keys(), scope)
    return stories


def transaction_scope(setup: states.Setup) -> dict[str, Any]:
    """The scope of a search, as in `predict --json`."""
    return {
        "protocol": setup.rules.name,
        "transactions": setup.transactions,
        "records": setup.size,
        "partitions": setup.partitions,
        "incarnations": len(setup.first_search.ids),
        "late_requests": setup.late_requests,
        "coordinator_failovers": setup.failovers,
        "data_may_lose": setup.data_may_be_lost,
        "transaction_state_may_lose": setup.states_may_be_lost,
    }
