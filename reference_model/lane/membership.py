"""Who is in a lane's ISR, who is eligible outside it (KIP-966), and whom the controller may elect.

In clusters without eligible leader replicas, the last member of the ISR stays in it, dead or alive. In clusters with
them, every broker that is gone leaves the ISR, which may become empty; its standing says whether it is electable.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.state import ELIGIBLE, FOLLOWER, LAST_KNOWN, ZOMBIE, LaneReplica
from kafka_chaos.reference_model.protocol import eligible as elr
from kafka_chaos.reference_model.protocol.isr import may_leave_isr
from kafka_chaos.reference_model.protocol.leaders import isr_of_elected
from kafka_chaos.reference_model.protocol.rules import rules_of

Replicas = tuple[LaneReplica, ...]


class Election(NamedTuple):
    """The broker elected, what made it electable, and the replicas with the ISR and standings of the new epoch."""

    broker: int
    standing: elr.Standing
    replicas: Replicas


def without_failed(replicas: Replicas, lane: Lane, broker: int, *, clean: bool) -> Replicas:
    """The replicas after the controller has found a broker dead.

    `clean`: the broker shut down cleanly, or still runs. After an unclean shutdown it is not eligible.
    """
    leaves = rules_of(lane).elects_eligible or may_leave_isr(len(_members(replicas)))
    isr = _members(replicas) - {broker} if leaves else _members(replicas)
    return _with_isr(replicas, lane, isr, unclean=frozenset() if clean else frozenset([broker]))


def without_slow(replicas: Replicas, lane: Lane, broker: int) -> Replicas:
    """The replicas after the leader has dropped a follower from the ISR."""
    return _with_isr(replicas, lane, _members(replicas) - {broker})


def with_caught_up(replicas: Replicas, lane: Lane, broker: int) -> Replicas:
    """The replicas after the leader has taken a follower into the ISR."""
    return _with_isr(replicas, lane, _members(replicas) | {broker})


def elections(replicas: Replicas, lane: Lane) -> Iterator[Election]:
    """Every leader that the controller may elect now; of brokers in equal states, the first stands for all."""
    live = [broker for broker, replica in enumerate(replicas) if replica.role in (FOLLOWER, ZOMBIE)]
    # The controller may not know yet that a deposed broker is back: each election is also tried without it.
    not_deposed = [b for b in live if replicas[b].role == FOLLOWER or not (replicas[b].in_isr or replicas[b].standing)]
    elected: dict[tuple[LaneReplica, elr.Standing], int] = {}
    for candidates in (live, not_deposed):
        brokers, standing = elr.electable(
            frozenset(candidates),
            _members(replicas),
            _with_standing(replicas, ELIGIBLE),
            _with_standing(replicas, LAST_KNOWN),
            unclean=lane.unclean_leader_election,
        )
        for broker in sorted(brokers):
            elected.setdefault((replicas[broker], standing), broker)
    for (_, standing), broker in elected.items():
        yield Election(broker, standing, _after_election(replicas, broker, live, standing))


def _after_election(replicas: Replicas, elected: int, live: Iterable[int], standing: elr.Standing) -> Replicas:
    isr = isr_of_elected(elected, live, _members(replicas), clean=standing is elr.Standing.IN_SYNC)
    eligible = elr.eligible_after_election(elected, _with_standing(replicas, ELIGIBLE), standing)
    return tuple(
        replica._replace(in_isr=broker in isr, standing=ELIGIBLE if broker in eligible else 0)
        for broker, replica in enumerate(replicas)
    )


def _members(replicas: Replicas) -> frozenset[int]:
    return frozenset(broker for broker, replica in enumerate(replicas) if replica.in_isr)


def _with_standing(replicas: Replicas, standing: int) -> frozenset[int]:
    return frozenset(broker for broker, replica in enumerate(replicas) if replica.standing & standing)


def _with_isr(replicas: Replicas, lane: Lane, isr: frozenset[int], unclean: frozenset[int] = frozenset()) -> Replicas:
    """The replicas with another ISR, and with the standings that follow from the change."""
    if not rules_of(lane).elects_eligible:
        return tuple([replica._replace(in_isr=broker in isr) for broker, replica in enumerate(replicas)])
    before = _members(replicas)
    eligible = elr.eligible_replicas(_with_standing(replicas, ELIGIBLE), before, isr, lane.min_insync_replicas, unclean)
    return tuple(
        replica._replace(
            in_isr=broker in isr,
            standing=(ELIGIBLE if broker in eligible else 0)
            | (LAST_KNOWN if elr.is_last_known_leader(broker, before, isr) else 0)
            | replica.standing & LAST_KNOWN,
        )
        for broker, replica in enumerate(replicas)
    )
