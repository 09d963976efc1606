"""The eligible leader replicas (ELR) and the last known leader, in KRaft mode since 4.0.

A replica is eligible if it left an ISR that has been smaller than min.insync.replicas ever since. While the ISR is that
small, the high watermark stands still (KAFKA-15583), so an eligible replica holds all records below it. An unclean
shutdown makes a broker ineligible, since its log may have lost its end: the broker names the broker epoch of its last
clean shutdown when it registers, and the controller compares that with the epoch that it knows (KAFKA-15582,
KAFKA-15586).

Sources: KIP-966, part 1; Kafka's documentation, "Eligible Leader Replicas". Part 2 of the KIP, with
`unclean.recovery.strategy`, is in no release.
"""

from collections.abc import Set
from enum import StrEnum


class Standing(StrEnum):
    """What makes a replica electable. The controller prefers replicas in this order, `IN_SYNC` first."""

    IN_SYNC = "in sync"
    ELIGIBLE = "eligible"
    LAST_KNOWN = "last known leader"
    ANY = "any"


def eligible_replicas(
    eligible: Set[int], isr_before: Set[int], isr: Set[int], min_insync_replicas: int, returning: Set[int] = frozenset()
) -> frozenset[int]:
    """The eligible replicas after a change of the ISR (KIP-966).

    There are none while the ISR is large enough. Otherwise they are the replicas that were eligible before or have just
    left the ISR, except those `returning` from an unclean shutdown.
    """
    if len(isr) >= min_insync_replicas:
        return frozenset()
    return frozenset((eligible | isr_before) - isr - returning)


def is_last_known_leader(broker: int, isr_before: Set[int], isr: Set[int]) -> bool:
    """Whether a broker is the last known leader, because the ISR became empty when it left (KIP-966).

    Only clusters with eligible leader replicas let the ISR become empty.
    """
    return not isr and broker in isr_before


def electable(
    live: Set[int],
    isr: Set[int],
    eligible: Set[int] = frozenset(),
    last_known: Set[int] = frozenset(),
    *,
    unclean: bool,
) -> tuple[frozenset[int], Standing]:
    """The live replicas out of which the controller elects a leader, and what makes them electable.

    Members of the ISR come first. If the ISR is empty, the eligible replicas come next. If there are none either, the
    last known leader leads as soon as it is back, whatever `unclean.leader.election.enable` says (KIP-966). Any live
    replica comes last, where `unclean.leader.election.enable` allows it. Clusters without eligible leader replicas have
    only the first case and the last.
    """
    if live & isr:
        return frozenset(live & isr), Standing.IN_SYNC
    if not isr and live & eligible:
        return frozenset(live & eligible), Standing.ELIGIBLE
    if not isr and not eligible and live & last_known:
        return frozenset(live & last_known), Standing.LAST_KNOWN
    return frozenset(live if unclean else ()), Standing.ANY


def eligible_after_election(elected: int, eligible: Set[int], standing: Standing) -> frozenset[int]:
    """The eligible replicas after an election; none if the leader was neither in the ISR nor eligible (KIP-966)."""
    return frozenset(eligible - {elected}) if standing in (Standing.IN_SYNC, Standing.ELIGIBLE) else frozenset()
