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

from functools import cache
from typing import Any

from kafka_chaos.contract.lane.groups import LATEST, GroupAnomaly
from kafka_chaos.reference_model.groups import coordinator, members
from kafka_chaos.reference_model.groups.anomalies import CHECKS, ending
from kafka_chaos.reference_model.groups.state import Setup, State, initial_state
from kafka_chaos.reference_model.groups.story import conclusion, sentence
from kafka_chaos.reference_model.machine import Machine, Story

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
def stories_of_torn_ends(setup: Setup) -> dict[GroupAnomaly, Story]:
    """The anomalies of a loop if one of its transactions ends in one of output and offsets only."""
    return GROUPS.stories(setup.anomalies, setup.with_loss("ends_may_tear"))


def scope_of(setup: Setup) -> dict[str, Any]:
    """The scope, as `predict --json` names it."""
    return {
        "rules": setup.rules.name,
        "commits": setup.commits,
        "static": setup.is_static,
        "members": setup.slots,
        "records": setup.records,
        "crashes": setup.crashes,
        "removals": setup.removals,
        "leaves": setup.leaves,
        "coordinator_failovers": setup.failovers,
        "offsets_may_be_lost": setup.offsets_may_be_lost,
        "source_may_lose": setup.source_may_lose,
        "output_may_lose": setup.output_may_lose,
        "transactions_may_tear": setup.ends_may_tear,
        **({"resets_to": LATEST} if setup.resets_to_end else {}),
    }
