"""The ISR of a new leader, and whom followers and clients take for the leader.

Sources: Kafka's documentation ("Unclean leader election"), KIP-320 (fencing by leader epoch, for followers and
clients).
"""

from collections.abc import Container, Iterable


def isr_of_elected(leader: int, live: Iterable[int], isr: Container[int], *, clean: bool) -> list[int]:
    """The ISR in a new epoch: the live members of the former ISR, or the leader alone after an unclean election."""
    return [broker for broker in live if broker in isr] if clean else [leader]


def serves(leader_epoch: int, asking_epoch: int, *, checks_epoch: bool) -> bool:
    """Whether a leader answers a follower. If it `checks_epoch` (KIP-320), both must be in the same leader epoch."""
    return not checks_epoch or leader_epoch == asking_epoch


def may_be_addressed(leader_epoch: int, newest_seen_epoch: int) -> bool:
    """Whether a client takes a broker for the leader: not if the client has seen a newer leader epoch (KIP-320)."""
    return leader_epoch >= newest_seen_epoch
