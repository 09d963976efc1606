"""Searches the model of groups for the anomalies that a lane's group or loop may show: one exhausted search per scope.

These scopes are searched in this order, each for the anomalies that are not found yet:

- two members, or one and its next incarnation, that read two records of one partition, with one crash, one member
  that is removed without noticing, one that joins and one that leaves, as far as the group or its faults have them;
- if brokers may fail, the same with one failover of the coordinator after a commit, so that its answer is lost;
- the first scope with one loss of acknowledged records: from the coordinator's log (`__consumer_offsets`, replicated
  with acks=all and clean elections whatever the lane's topic does), from a group's topic, or from a loop's output.

The model of replication says which faults may cost a log its acknowledged records (`predict/`).

Left out: several partitions (each partition's offset is committed on its own, and the assignor may give each to any
member); batches of several records; a commit that arrives after a later one of its member (members wait for the
answer); a topic whose retention removes records before they are read; group metadata that expires
(`offsets.retention.minutes`); a reset of offsets by hand; losses in the topic that a loop reads; how the transactions
of a loop end, which `transactions/` searches.

In the sentences for a path, members are numbered from 1, each incarnation anew, and offsets from 0, as by Kafka. A
commit names the next offset.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from itertools import permutations
from typing import Any

from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.groups import IN_TRANSACTION, LATEST, GroupAnomaly
from kafka_chaos.reference_model.groups import coordinator, members
from kafka_chaos.reference_model.groups.anomalies import CHECKS, ending
from kafka_chaos.reference_model.groups.state import NONE, Action, Coordinator, Setup, State, initial_state
from kafka_chaos.reference_model.machine import Machine, Story

SENTENCES: Mapping[str, str] = package_toml("kafka_chaos.reference_model", "sentences.toml")["groups"]
"""A sentence per action."""


def sentence(action: Action, before: State, after: State, setup: Setup) -> str:
    """The sentence for an action."""
    transaction = ", in a transaction," if setup.commits == IN_TRANSACTION else ""
    number = before.members[action.slot].number
    if action.slot != NONE and (action.name == "join" or number == NONE):
        number = after.members[action.slot].number
    return SENTENCES[action.name].format(
        who=f"Member {number + 1}",
        member=f"member {number + 1}",
        offset=action.offset,
        detail=action.detail,
        generation=after.coordinator.generation,
        processes="processes" if not setup.is_loop else f"writes{transaction} the output of",
        gives=", and first gives the partition back" if action.detail == "owns" and setup.rules.revokes_all else "",
    )


def conclusion(state: State, setup: Setup) -> str:
    """The sentence for the evidence of a run that ends in a state."""
    texts = [f"the committed offset is {state.coordinator.committed}"]
    if setup.is_loop:
        words = {0: "no output", 1: "one output"}
        texts += [f"input {n} has {words.get(count, f'{count} outputs')}" for n, count in enumerate(state.outputs)]
    else:
        done = [str(record) for record in range(setup.records) if state.processed >> record & 1]
        texts.append(f"processed records: {' and '.join(done)}" if done else "nothing was processed")
    return f"The run ends: {'; '.join(texts)}."


ACTIONS = (
    members.ask_for_offset, members.poll, members.process, members.commit, members.commit_automatically,
    members.add_offset, members.end_transaction, members.write_marker, members.learn, members.leave,
    coordinator.join, coordinator.join_again, coordinator.assign, coordinator.crash, coordinator.come_back,
    coordinator.remove, coordinator.abort_transaction, coordinator.fail_over, coordinator.lose,
)  # fmt: skip


def canonical(state: State, setup: Setup) -> State:
    """The representative of all states that behave alike.

    Where a loss can bring back an earlier state of the coordinator's log, each state stands for itself. Elsewhere,
    that earlier state does not matter, nor who was given records in generations that no member is in now.
    """
    if state.losses and setup.offsets_may_be_lost:
        return state
    present = {member.generation for member in state.members}
    readers = frozenset(reader for reader in state.readers if reader[0] in present)
    return state._replace(readers=readers, earlier=())


def nameless(state: State, setup: Setup) -> Hashable:
    """A value that is equal for states that differ only in the names of slots, incarnations and generations.

    Names are only compared for equality, and a new one was never used before. Where the coordinator may forget
    generations, that does not hold, since it may give one a second time: then nothing is renamed.
    """
    if setup.offsets_may_be_lost:
        return state
    return min(_renamed(state, order) for order in permutations(range(setup.slots)))


def _renamed(state: State, order: Sequence[int]) -> tuple[Any, ...]:
    """The state with its slots in this order, and with incarnations and generations numbered as they appear."""
    generations, incarnations = {NONE: NONE, 0: 0}, {NONE: NONE}

    def generation(number: int) -> int:
        return generations.setdefault(number, len(generations))

    def incarnation(number: int) -> int:
        return incarnations.setdefault(number, len(incarnations))

    members = [
        member._replace(number=incarnation(member.number), generation=generation(member.generation))
        for member in (state.members[slot] for slot in order)
    ]
    log, joined, ended = state.coordinator, state.joined, state.coordinator.decided
    slots = [
        (generation(log.generations[slot]), log.pending[slot], log.owner == slot, joined >> slot & 1, ended >> slot & 1)
        for slot in order
    ]
    readers = sorted((generation(within), incarnation(number)) for within, number in sorted(state.readers))
    rest = state._replace(members=(), joined=0, readers=frozenset(), incarnations=0)
    rest = rest._replace(coordinator=Coordinator(0, (), 0, log.committed, ()))
    return *members, *slots, tuple(readers), rest


GROUPS = Machine(
    name="groups",
    initial=initial_state,
    actions=ACTIONS,
    canonical=canonical,
    nameless=nameless,
    ending=ending,
    checks=CHECKS,
    sentence=sentence,
    conclusion=conclusion,
    beginning=("Member 1 has the partition, in generation 1.",),
)


@cache
def stories_of_torn_ends(setup: Setup) -> dict[GroupAnomaly, Story]:
    """The stories to the anomalies of a loop if a transaction is committed for its output or for its offsets alone."""
    return GROUPS.stories(setup.anomalies, setup.with_loss("ends_may_tear"))


def group_scope(setup: Setup) -> dict[str, Any]:
    """The scope of a search, as in `predict --json`."""
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
