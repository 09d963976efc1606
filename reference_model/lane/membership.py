"""Who is in a lane's ISR, who is eligible beside it (KIP-966), and whom the controller may elect.

In clusters without eligible leader replicas, the last member of the ISR stays in it, dead or alive. With them, whoever
is gone leaves the ISR, which may become empty, and its former members keep a standing.
"""

from collections.abc import Iterable, Iterator

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.state import ELIGIBLE, FOLLOWER, LAST_KNOWN, ZOMBIE, LaneReplica, isr_size
from kafka_chaos.reference_model.protocol.eligible import (
    Standing,
    electable_by_standing,
    eligible_after_election,
    eligible_replicas,
    is_last_known_leader,
)
from kafka_chaos.reference_model.protocol.isr import may_leave_isr
from kafka_chaos.reference_model.protocol.leaders import electable, isr_of_elected
from kafka_chaos.reference_model.protocol.rules import rules_of
from kafka_chaos.reference_model.tuples import exchanged

Replicas = tuple[LaneReplica, ...]
Election = tuple[int, Standing, Replicas]
"""The broker elected, what made it electable, and the replicas with their membership in the new leader epoch."""


def without_failed(replicas: Replicas, lane: Lane, broker: int, *, clean: bool) -> Replicas:
    """The replicas once the controller has found a broker dead; `clean`: it will not come back from an unclean
    shutdown."""
    if rules_of(lane).elects_eligible:
        isr = _members(replicas)
        return _changed(replicas, lane, isr - {broker}, frozenset() if clean else frozenset({broker}))
    stays = replicas[broker].in_isr and not may_leave_isr(isr_size(replicas))
    return exchanged(replicas, broker, replicas[broker]._replace(in_isr=stays))


def without_slow(replicas: Replicas, lane: Lane, broker: int) -> Replicas:
    """The replicas once the leader has dropped a follower from the ISR."""
    if rules_of(lane).elects_eligible:
        return _changed(replicas, lane, _members(replicas) - {broker})
    return exchanged(replicas, broker, replicas[broker]._replace(in_isr=False))


def with_caught_up(replicas: Replicas, lane: Lane, broker: int) -> Replicas:
    """The replicas once the leader has taken a follower into the ISR."""
    if rules_of(lane).elects_eligible:
        return _changed(replicas, lane, _members(replicas) | {broker})
    return exchanged(replicas, broker, replicas[broker]._replace(in_isr=True))


def elections(replicas: Replicas, lane: Lane) -> Iterator[Election]:
    """Every way in which the controller may elect a leader.

    Whether it already sees a deposed broker as back is open, so both are taken.
    """
    live = [broker for broker, replica in enumerate(replicas) if replica.role in (FOLLOWER, ZOMBIE)]
    surely = [b for b in live if replicas[b].role == FOLLOWER or not (replicas[b].in_isr or replicas[b].standing)]
    if rules_of(lane).elects_eligible:
        found = (_by_standing(replicas, lane, seen) for seen in (live, surely))
    else:
        found = (_from_isr(replicas, lane, seen) for seen in (live, surely))
    # Of brokers in equal states the first stands for all.
    elected: dict[tuple[LaneReplica, Standing], int] = {}
    for broker, standing in (candidate for candidates in found for candidate in candidates):
        elected.setdefault((replicas[broker], standing), broker)
    for (_, standing), broker in elected.items():
        yield broker, standing, _after_election(replicas, lane, broker, live, standing)


def _from_isr(replicas: Replicas, lane: Lane, live: Iterable[int]) -> list[tuple[int, Standing]]:
    brokers, clean = electable(live, _members(replicas), unclean=lane.unclean_leader_election)
    return [(broker, Standing.IN_SYNC if clean else Standing.ANY) for broker in brokers]


def _by_standing(replicas: Replicas, lane: Lane, live: Iterable[int]) -> list[tuple[int, Standing]]:
    brokers, standing = electable_by_standing(
        frozenset(live),
        _members(replicas),
        _with(replicas, ELIGIBLE),
        _with(replicas, LAST_KNOWN),
        unclean=lane.unclean_leader_election,
    )
    return [(broker, standing) for broker in sorted(brokers)]


def _after_election(replicas: Replicas, lane: Lane, elected: int, live: Iterable[int], standing: Standing) -> Replicas:
    isr = isr_of_elected(elected, live, _members(replicas), clean=standing is Standing.IN_SYNC)
    kept = eligible_after_election(elected, _with(replicas, ELIGIBLE), standing)
    return tuple(
        replica._replace(in_isr=broker in isr, standing=ELIGIBLE * (broker in kept))
        for broker, replica in enumerate(replicas)
    )


def _members(replicas: Replicas) -> frozenset[int]:
    return frozenset(broker for broker, replica in enumerate(replicas) if replica.in_isr)


def _with(replicas: Replicas, standing: int) -> frozenset[int]:
    return frozenset(broker for broker, replica in enumerate(replicas) if replica.standing & standing)


def _changed(replicas: Replicas, lane: Lane, isr: frozenset[int], unclean: frozenset[int] = frozenset()) -> Replicas:
    """The replicas with another ISR, and with the standings that follow from it."""
    before = _members(replicas)
    eligible = eligible_replicas(_with(replicas, ELIGIBLE), before, isr, lane.min_insync_replicas, unclean)
    return tuple(
        replica._replace(
            in_isr=broker in isr,
            standing=ELIGIBLE * (broker in eligible)
            | LAST_KNOWN * is_last_known_leader(broker, before, isr)
            | replica.standing & LAST_KNOWN,
        )
        for broker, replica in enumerate(replicas)
    )
