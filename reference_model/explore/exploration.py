"""Explores all interleavings of the replication core in a scope, and finds the shortest way to each broken invariant.

Invariants are predicates that must hold in every state. The first three are those of the public TLA+ specification of
Kafka replication by hachikuji. Log matching is an invariant of Raft (Ongaro and Ousterhout, 2014) that Kafka should
have, too, due to leader epochs. An invariant that no state breaks is only said to hold if the search was exhausted.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.reference_model.explore.core import Core, CoreAction, CoreScope
from kafka_chaos.reference_model.explore.state import NO_LEADER, CoreState
from kafka_chaos.reference_model.lane.story import counted_records
from kafka_chaos.reference_model.protocol import Protocol
from kafka_chaos.reference_model.protocol.entries import content_of, leader_epoch_of
from kafka_chaos.reference_model.search import Budget, breadth_first


def leader_in_isr(core: Core, state: CoreState) -> bool:
    """The leader in ZooKeeper, if there is one, is a member of the ISR in ZooKeeper."""
    controller = core.controllers[state[-2]]
    leader = controller.leader
    return leader == NO_LEADER or controller.isr >> leader & 1 == 1


def weak_isr(core: Core, state: CoreState) -> bool:
    """Every broker that takes itself for the leader has its records below its high watermark on all members of
    the ISR that it believes in."""
    return _committed_on(core, state)


def strong_isr(core: Core, state: CoreState) -> bool:
    """Every broker that takes itself for the leader has its records below its high watermark on all members of the ISR
    in ZooKeeper. The next leader is elected from this ISR, so it has every record that a consumer may have read."""
    return _committed_on(core, state, core.controllers[state[-2]].isr)


def _committed_on(core: Core, state: CoreState, isr: int | None = None) -> bool:
    """Whether each member of this ISR (default: the leader's own) has all that each leader takes for committed."""
    for broker in core.brokers:
        local = core.locals[state[broker]]
        if local.leader == broker and local.high_watermark:
            members = local.isr if isr is None else isr
            for other in core.brokers:
                if members >> other & 1 and not core.relation(broker, state[broker], state[other]).agrees:
                    return False
    return True


def committed_records_kept(core: Core, state: CoreState) -> bool:
    """The leader in ZooKeeper, once it leads, holds all records below the high watermark of any broker that takes
    itself for the leader."""
    controller = core.controllers[state[-2]]
    leader = controller.leader
    if leader == NO_LEADER:
        return True
    current = core.locals[state[leader]]
    if current.leader != leader or current.leader_epoch != controller.leader_epoch:
        return True
    for broker in core.brokers:
        local = core.locals[state[broker]]
        has_committed = local.leader == broker and local.high_watermark > 0
        if has_committed and not core.relation(broker, state[broker], state[leader]).agrees:
            return False
    return True


def followers_agree(core: Core, state: CoreState) -> bool:
    """A follower in its leader's epoch holds the beginning of its leader's log: replicas do not diverge."""
    for broker in core.brokers:
        if core.locals[state[broker]].leader == broker:
            for other in core.brokers:
                if other != broker and not core.relation(broker, state[broker], state[other]).is_prefix:
                    return False
    return True


def log_matching(core: Core, state: CoreState) -> bool:
    """Two logs that have entries of the same leader epoch at the same offset are equal up to this offset."""
    for broker in core.brokers:
        for other in range(broker):
            if not core.relation(broker, state[broker], state[other]).logs_match:
                return False
    return True


def one_leader_per_epoch(core: Core, state: CoreState) -> bool:
    """No two brokers take themselves for the leader in one leader epoch."""
    epochs = []
    for broker in core.brokers:
        local = core.locals[state[broker]]
        if local.leader == broker:
            epochs.append(local.leader_epoch)
    return len(epochs) == len(set(epochs))


def high_watermark_monotonic(core: Core, before: CoreState, after: CoreState) -> bool:
    """Within one leader epoch a leader's high watermark never falls."""
    for broker in core.brokers:
        if before[broker] != after[broker]:
            old, new = core.locals[before[broker]], core.locals[after[broker]]
            if old.leader == new.leader == broker and old.leader_epoch == new.leader_epoch:
                return new.high_watermark >= old.high_watermark
    return True


INVARIANTS: Mapping[str, Callable[[Core, CoreState], bool]] = {
    "leader_in_isr": leader_in_isr,
    "weak_isr": weak_isr,
    "strong_isr": strong_isr,
    "committed_records_kept": committed_records_kept,
    "followers_agree": followers_agree,
    "log_matching": log_matching,
    "one_leader_per_epoch": one_leader_per_epoch,
}

STEP_INVARIANTS: Mapping[str, Callable[[Core, CoreState, CoreState], bool]] = {
    "high_watermark_monotonic": high_watermark_monotonic
}
"""Invariants of a step rather than of a state."""

MAX_STATES = 10_000_000  # The bound of an exploration whose caller gives none.

SENTENCES: Mapping[str, str] = package_toml("kafka_chaos.reference_model", "sentences.toml")["explore"]
"""A sentence per action."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of an exploration.

    `invariants`: by name, whether it holds (None: not known, as the search ended early), and the trace of the shortest
    breach. `seconds`: the time on the clock. `cpu_seconds`: the processor's time, the base of the rate of states.
    """

    protocol: str
    scope: CoreScope
    states: int
    transitions: int
    depth: int
    complete: bool
    seconds: float
    cpu_seconds: float
    invariants: Mapping[str, tuple[bool | None, tuple[str, ...]]]

    def to_json(self) -> dict[str, Any]:
        """The form of `explore --json`."""
        return {
            "protocol": self.protocol,
            "states": self.states,
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
            "states_per_second": round(self.states / self.cpu_seconds) if self.cpu_seconds else None,
            "transitions": self.transitions,
            "depth": self.depth,
            "scope": {**asdict(self.scope), "faults": list(self.scope.faults)},
            "invariants": {
                name: {"holds": holds, "trace": list(trace)} for name, (holds, trace) in self.invariants.items()
            },
        }


def explore(
    protocol: Protocol,
    scope: CoreScope,
    *,
    budget: Budget | None = None,
    until: frozenset[str] = frozenset(),
    core: Core | None = None,
) -> Exploration:
    """Explore a protocol in a scope.

    `until`: once all these invariants are broken, the search ends, and is not complete. `core`: a mutation of the core
    to explore in its place.
    """
    core = Core(protocol, scope) if core is None else core
    breaches: dict[str, tuple[CoreState, ...]] = {}
    unbroken = dict(INVARIANTS)
    unbroken_in_steps = dict(STEP_INVARIANTS)

    def visit(state: CoreState) -> bool:
        for name in [name for name, holds in unbroken.items() if not holds(core, state)]:
            breaches[name] = (state,)
            del unbroken[name]
        return bool(until) and not until & unbroken.keys()

    def successors(state: CoreState) -> list[CoreState]:
        reached = [after for _, after in core.steps(state)]
        for name, holds in list(unbroken_in_steps.items()):
            for after in reached:
                if not holds(core, state, after):
                    breaches[name] = (state, after)
                    del unbroken_in_steps[name]
                    break
        return reached

    search = breadth_first(core.initial(), successors, visit, budget or Budget(MAX_STATES))
    holds_if_unbroken = True if search.complete else None
    invariants: dict[str, tuple[bool | None, tuple[str, ...]]] = {}
    for name in (*INVARIANTS, *STEP_INVARIANTS):
        broken = breaches.get(name)
        trace = sentences_of(core, [*search.path(broken[0]), *broken[1:]]) if broken else ()
        invariants[name] = (False if broken else holds_if_unbroken, trace)
    return Exploration(
        protocol=protocol.name,
        scope=scope,
        states=len(search.parents),
        transitions=search.transitions,
        depth=search.depth,
        complete=search.complete,
        seconds=search.seconds,
        cpu_seconds=search.cpu_seconds,
        invariants=invariants,
    )


def sentences_of(core: Core, path: list[CoreState]) -> tuple[str, ...]:
    """The sentences for a path, and one for the state in which it ends."""
    sentences = []
    for before, after in pairwise(path):
        action = next(action for action, reached in core.steps(before) if reached == after)
        sentences.append(_sentence(core, action, before, after))
    return (*sentences, _ending(core, path[-1]))


def _sentence(core: Core, action: CoreAction, before: CoreState, after: CoreState) -> str:
    old, new = core.locals[before[action.broker]], core.locals[after[action.broker]]
    cut = len(old.log) - len(new.log)
    dropped = ", ".join(f"m{content_of(entry)}" for entry in old.log[len(new.log) :])
    return SENTENCES[action.name].format(
        broker=action.broker + 1,
        other=action.other + 1,
        record=action.other,
        detail=action.detail,
        leader="nobody" if action.other == NO_LEADER else f"broker {action.other + 1}",
        truncation=f" and truncates {dropped}" if cut > 0 else "",
        watermark=new.high_watermark,
        left=counted_records(len(new.log)),
    )


def _ending(core: Core, state: CoreState) -> str:
    controller = core.controllers[state[-2]]
    isr = ", ".join(str(broker + 1) for broker in core.brokers if controller.isr >> broker & 1)
    logs = []
    for broker in core.brokers:
        local = core.locals[state[broker]]
        log = " ".join(f"m{content_of(entry)}@{leader_epoch_of(entry)}" for entry in local.log) or "nothing"
        role = f", leads in epoch {local.leader_epoch}" if local.leader == broker else ""
        logs.append(f"broker {broker + 1} holds {log} (high watermark {local.high_watermark}{role})")
    return f"Now the ISR is {{{isr}}}; {'; '.join(logs)}."
