"""Invariants of the replication core: each is one named predicate that must hold in every state.

The first three are those of the public TLA+ specification of Kafka replication by hachikuji; log matching is
Raft's (Ongaro and Ousterhout, 2014), which leader epochs are to give Kafka as well.
"""

from collections.abc import Callable, Mapping

from kafka_chaos.reference_model.explore.core import Core
from kafka_chaos.reference_model.explore.state import NO_LEADER, CoreState

Invariant = Callable[[Core, CoreState], bool]
StepInvariant = Callable[[Core, CoreState, CoreState], bool]


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
    in ZooKeeper, from which the next leader is elected: it will have every record that a consumer may have read."""
    return _committed_on(core, state, core.controllers[state[-2]].isr)


def _committed_on(core: Core, state: CoreState, isr: int | None = None) -> bool:
    """Whether this ISR, or else each leader's own, has what a leader believes to be committed."""
    for broker in core.brokers:
        local = core.locals[state[broker]]
        if local.leader == broker and local.high_watermark:
            members = local.isr if isr is None else isr
            for other in core.brokers:
                if members >> other & 1 and not core.pair(broker, state[broker], state[other]).agrees:
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
        committed = local.leader == broker and local.high_watermark
        if committed and not core.pair(broker, state[broker], state[leader]).agrees:
            return False
    return True


def followers_agree(core: Core, state: CoreState) -> bool:
    """A follower in its leader's epoch holds the beginning of its leader's log: replicas do not diverge."""
    for broker in core.brokers:
        if core.locals[state[broker]].leader == broker:
            for other in core.brokers:
                if other != broker and not core.pair(broker, state[broker], state[other]).prefix:
                    return False
    return True


def log_matching(core: Core, state: CoreState) -> bool:
    """Two logs that have entries of the same leader epoch at the same offset are equal up to this offset."""
    for broker in core.brokers:
        for other in range(broker):
            if not core.pair(broker, state[broker], state[other]).matching:
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


INVARIANTS: Mapping[str, Invariant] = {
    "leader_in_isr": leader_in_isr,
    "weak_isr": weak_isr,
    "strong_isr": strong_isr,
    "committed_records_kept": committed_records_kept,
    "followers_agree": followers_agree,
    "log_matching": log_matching,
    "one_leader_per_epoch": one_leader_per_epoch,
}

STEP_INVARIANTS: Mapping[str, StepInvariant] = {"high_watermark_monotonic": high_watermark_monotonic}
"""Invariants of a step rather than of a state."""
