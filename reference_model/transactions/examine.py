"""Searches the transactional machine for what a lane's transactions may show: one exhausted search per scope.

Searched are, in this order, for whatever is still open:

- one transactional id with two incarnations, of which the first may go on as a zombie, while one request may be late;
- the same with one failover of the coordinator instead, where brokers may fail. A test searches both at once, which
  adds nothing;
- the same with one broker that loses the end of what it leads: of partitions, if replication may lose what is
  acknowledged, and of __transaction_state, if that may. That is replicated with acks=all and clean elections whatever
  the lane's topic does (Kafka sets `unclean.leader.election.enable` to false for it);
- two transactional ids, if there is more than one producer, for what depends on their order. Nothing fails there:
  producers with different transactional ids share nothing but the partitions. A cycle within one transactional id is
  searched for without losses: those leave nothing in a log that was not there.

In each, two transactions of two records (one, if the lane's have one) over two partitions (one, if it has one).
Transactions may be aborted whatever the lane's share of aborts is: a record that is not acknowledged aborts one.

Left out: consumer groups and offsets in transactions; late WriteTxnMarkers requests of a coordinator that is still in
office (KIP-1228); what is delayed only. A frozen coordinator or leader holds up the end of a transaction, and with it
the last stable offset, for as long as it is frozen: that is no anomaly once it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from kafka_chaos.contract.transactions import TransactionAnomaly
from kafka_chaos.reference_model.search import Budget, Search, breadth_first
from kafka_chaos.reference_model.transactions.anomalies import ending, shown
from kafka_chaos.reference_model.transactions.rules import Rules
from kafka_chaos.reference_model.transactions.state import Setup, State, initial_state
from kafka_chaos.reference_model.transactions.steps import canonical, steps
from kafka_chaos.reference_model.transactions.story import tell

Story = tuple[str, ...]
Stories = Mapping[TransactionAnomaly, Story]

CYCLE = frozenset({TransactionAnomaly.DEPENDENCY_CYCLE})
TORN = frozenset({TransactionAnomaly.TORN_TRANSACTION})
"""A transaction of one record can't be torn: nothing is to be searched for."""
DEFECT_STATES = 200_000
"""A defect's search may end early: what it finds is reachable, and of the rest nothing is said."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the answer depends on: the rules, whether transactions have several records, the topic several partitions,
    and the lane several producers, whether brokers may fail, and which logs may lose an acknowledged end."""

    rules: Rules
    several_records: bool = True
    several_partitions: bool = True
    several_producers: bool = False
    brokers_may_fail: bool = False
    data_may_lose: bool = False
    states_may_be_lost: bool = False

    @property
    def setup(self) -> Setup:
        """The scope of the first search."""
        size, partitions = 1 + self.several_records, 1 + self.several_partitions
        return Setup(self.rules, size=size, partitions=partitions, failovers=0)

    def setups(self) -> Iterator[tuple[Setup, Set[TransactionAnomaly]]]:
        """Each search, with what it may answer."""
        others = frozenset(TransactionAnomaly) - CYCLE - (frozenset() if self.several_records else TORN)
        first = others if self.several_producers else others | CYCLE
        yield self.setup, first
        if self.brokers_may_fail:
            yield replace(self.setup, delayed=0, failovers=1), first
        losing = replace(self.setup, delayed=0, losses=1)
        if self.states_may_be_lost:
            yield replace(losing, states_may_be_lost=True), others
        if self.data_may_lose:
            yield replace(losing, data_may_lose=True), others
        if self.data_may_lose and self.states_may_be_lost:
            yield replace(losing, data_may_lose=True, states_may_be_lost=True), others
        if self.several_producers:
            yield replace(self.setup, ids=(0, 1), delayed=0), CYCLE


@dataclass(slots=True)
class Findings:
    """The shortest story to each anomaly that is reachable, and the states searched; the rest is unreachable if
    `complete`."""

    stories: dict[TransactionAnomaly, Story] = field(default_factory=dict)
    states: int = 0
    complete: bool = True


_complete: dict[Question, Findings] = {}


def examine(question: Question, budget: Budget) -> Findings:
    """Search until no anomaly is open or nothing is left; an empty budget leaves the findings incomplete.

    Many lanes ask the same: complete findings are kept.
    """
    if question in _complete:
        return _complete[question]
    found = Findings()
    for setup, answers in question.setups():
        wanted = answers - found.stories.keys()
        if not wanted or not found.complete:
            continue
        budget.label = "transactions"
        search, first = search_for(wanted, setup, budget)
        found.states += len(search.parents)
        found.complete = search.complete or first.keys() >= wanted
        for anomaly, state in first.items():
            found.stories[anomaly] = tell(search.path(state), setup)
    if found.complete:
        _complete[question] = found
    return found


def search_for(
    wanted: Set[TransactionAnomaly], setup: Setup, budget: Budget
) -> tuple[Search[State], dict[TransactionAnomaly, State]]:
    """Search one scope, and the nearest state that shows each of the wanted anomalies."""
    first: dict[TransactionAnomaly, State] = {}

    def visit(state: State) -> bool:
        for anomaly in shown(ending(state, setup), wanted - first.keys()):
            first[anomaly] = state
        return first.keys() >= wanted

    def successors(state: State) -> list[State]:
        return [canonical(after, setup) for _, after in steps(state, setup)]

    return breadth_first(canonical(initial_state(setup), setup), successors, visit, budget), first


@cache
def stories_with(rules: Rules, several_records: bool, several_partitions: bool) -> Stories:
    """What a defect's rules make reachable without any fault: a late request is enough."""
    setup = Question(rules, several_records, several_partitions).setup
    search, first = search_for(frozenset(TransactionAnomaly), setup, Budget(DEFECT_STATES))
    return {anomaly: tell(search.path(state), setup) for anomaly, state in first.items()}


def scope_of(question: Question) -> dict[str, Any]:
    """The scope, as `predict --json` names it."""
    setup = question.setup
    return {
        "protocol": setup.rules.name,
        "transactions": setup.transactions,
        "records": setup.size,
        "partitions": setup.partitions,
        "incarnations": len(setup.ids),
        "late_requests": setup.delayed,
        "coordinator_failovers": int(question.brokers_may_fail),
        "data_may_lose": question.data_may_lose,
        "transaction_state_may_lose": question.states_may_be_lost,
    }
