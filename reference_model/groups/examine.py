"""Searches the machine of groups for what a lane's group or loop may show: one exhausted search per scope.

Searched are, in this order, for whatever is still open:

- two members, or one and its successor, that read two records of one partition, with one crash, one member that is
  removed without knowing it, one that joins and one that leaves, as far as the group or its faults have them;
- the same with one answer that a failover of the coordinator costs, where brokers may fail;
- the same with one loss of what a log has acknowledged: that of the coordinator (`__consumer_offsets`, replicated with
  acks=all and clean elections whatever the lane's topic does), the topic that is read, the output of a loop.

Which faults cost a log what, is for replication to say (`predict/`).

Left out: several partitions (a partition's offsets are committed beside those of others, and the assignor may choose
anyone for each); batches of several records; a commit that arrives after a later one of its member (members wait for
the answer); a topic whose retention removes records before they are read; group metadata that expires
(`offsets.retention.minutes`); a reset of offsets by hand; the source of a loop, which is taken to keep what was read;
how the transactions of a loop end, which `transactions/` searches.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kafka_chaos.contract.lane.groups import LATEST, OF_GROUPS, GroupAnomaly
from kafka_chaos.reference_model.groups import coordinator, members
from kafka_chaos.reference_model.groups.anomalies import CHECKS, ending
from kafka_chaos.reference_model.groups.rules import Rules
from kafka_chaos.reference_model.groups.state import Setup, State, initial_state
from kafka_chaos.reference_model.groups.story import conclusion, sentence
from kafka_chaos.reference_model.machine import Machine, Story


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that the answer depends on: the rules, when offsets are committed, whether it is a loop, whether
    members are static; whether they may crash, be removed without knowing it, join and leave; whether brokers may fail,
    which logs may lose an acknowledged end, and whether members without a committed offset begin at the end."""

    rules: Rules
    commits: str
    is_loop: bool = False
    is_static: bool = False
    crash: bool = False
    are_removed: bool = False
    several: bool = True
    leave: bool = False
    brokers_may_fail: bool = False
    offsets_may_be_lost: bool = False
    source_may_lose: bool = False
    output_may_lose: bool = False
    ends_may_tear: bool = False
    resets_to_end: bool = False

    @property
    def anomalies(self) -> frozenset[GroupAnomaly]:
        """The anomalies that are asked for."""
        return frozenset(CHECKS) if self.is_loop else frozenset(OF_GROUPS)

    @property
    def setup(self) -> Setup:
        """The scope of the first search."""
        return Setup(
            self.rules,
            self.commits,
            self.is_loop,
            self.is_static,
            crashes=int(self.crash),
            removals=int(self.are_removed),
            joins=int(self.several),
            leaves=int(self.leave),
            resets_to_end=self.resets_to_end,
        )

    def searches(self) -> Iterator[tuple[Setup, Set[GroupAnomaly]]]:
        """Each search, with what it may answer."""
        yield self.setup, self.anomalies
        if self.brokers_may_fail:
            yield replace(self.setup, failovers=1), self.anomalies
        losing = replace(self.setup, losses=1)
        if self.offsets_may_be_lost:
            yield replace(losing, offsets_may_be_lost=True), self.anomalies
        if self.source_may_lose:
            yield replace(losing, source_may_lose=True), self.anomalies
        if self.output_may_lose:
            yield replace(losing, output_may_lose=True), self.anomalies
        if self.ends_may_tear:
            yield replace(losing, ends_may_tear=True), self.anomalies


ACTIONS = (
    members.ask_for_offset,
    members.poll,
    members.process,
    members.commit,
    members.commit_automatically,
    members.add_offset,
    members.end_transaction,
    members.learn,
    members.leave,
    coordinator.join,
    coordinator.join_again,
    coordinator.assign,
    coordinator.crash,
    coordinator.come_back,
    coordinator.remove,
    coordinator.abort_transaction,
    coordinator.fail_over,
    coordinator.lose,
)


def canonical(state: State, setup: Setup) -> State:
    """The representative of all states that behave alike.

    They may differ in who was given records in generations that nobody is in and that no loss can bring back, and in
    what the coordinator's log held before, if nothing can be lost any more.
    """
    if state.losses:
        return state
    present = {member.generation for member in state.members}
    given = frozenset(pair for pair in state.given if pair[0] in present)
    return state._replace(given=given, earlier=())


GROUPS = Machine(
    name="groups",
    initial=initial_state,
    actions=ACTIONS,
    canonical=canonical,
    ending=ending,
    checks=CHECKS,
    sentence=sentence,
    conclusion=conclusion,
    beginning=("Member 1 has the partition, in generation 1.",),
)


@cache
def stories_of_torn_ends(question: Question) -> dict[GroupAnomaly, Story]:
    """The anomalies of a loop if one of its transactions ends in one of output and offsets only."""
    return GROUPS.stories(question.anomalies, replace(question.setup, losses=1, ends_may_tear=True))


def scope_of(question: Question) -> dict[str, Any]:
    """The scope, as `predict --json` names it."""
    setup = question.setup
    return {
        "rules": setup.rules.name,
        "commits": setup.commits,
        "static": setup.is_static,
        "members": setup.slots,
        "records": setup.records,
        "crashes": setup.crashes,
        "removals": setup.removals,
        "leaves": setup.leaves,
        "coordinator_failovers": int(question.brokers_may_fail),
        "offsets_may_be_lost": question.offsets_may_be_lost,
        "source_may_lose": question.source_may_lose,
        "output_may_lose": question.output_may_lose,
        "transactions_may_tear": question.ends_may_tear,
        **({"resets_to": LATEST} if question.resets_to_end else {}),
    }
