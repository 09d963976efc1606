"""The replication core's state, packed: five small integers per state at three brokers.

It covers what the public TLA+ specification of Kafka replication by hachikuji covers: one partition, a log, a
high watermark, a leader epoch, a leader and an ISR per replica, the partition's state in ZooKeeper, and every
LeaderAndIsr request ever sent, which a replica may receive late, again or never.

A replica's whole local state is interned to one integer, and so is the controller's; what an action does to a
pair of locals is worked out once and remembered. A state is the tuple of the replicas' numbers, the
controller's, and that of what the scope still allows (records, faults).
"""

from typing import NamedTuple

from kafka_chaos.reference_model.protocol import Protocol
from kafka_chaos.reference_model.protocol.entries import leader_epoch_of
from kafka_chaos.reference_model.protocol.isr import lags
from kafka_chaos.reference_model.protocol.leaders import serves

NO_LEADER = -1
NO_EPOCH = -1


class Local(NamedTuple):
    """One replica: entries hold record ids (`protocol/entries.py`); `isr` is a bit set of brokers."""

    log: tuple[int, ...]
    high_watermark: int
    leader_epoch: int
    leader: int
    isr: int


class Controller(NamedTuple):
    """`requests[epoch]` is the (leader, isr) of the LeaderAndIsr of that epoch; the last one is also what
    ZooKeeper holds, but for the ISR, which leaders change in place: `isr`."""

    requests: tuple[tuple[int, int], ...]
    isr: int

    @property
    def leader(self) -> int:
        """The leader in ZooKeeper, or `NO_LEADER`."""
        return self.requests[-1][0] if self.requests else NO_LEADER

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in ZooKeeper, or `NO_EPOCH`."""
        return len(self.requests) - 1


class Budget(NamedTuple):
    """The rest of the scope: the next record's id, and the faults that may still strike."""

    next_record: int
    faults: tuple[str, ...]


CoreState = tuple[int, ...]
"""The replicas' locals, the controller, the budget: each a number that `Core` gave it."""


class Pair(NamedTuple):
    """One broker in its local state and another in its own.

    `follows`: the first counts the second as following it; `fetched`: the second's state after its next fetch,
    or None if it gets nothing; `lags`, `may_join_isr`, `holds_next`: the grounds for shrinking and expanding
    the ISR and advancing the high watermark; `agrees`: the second holds all below the first's high watermark;
    `prefix`: in one leader epoch, the follower's log is the beginning of the leader's; `matching`: entries of
    one epoch at one offset have the same past in both logs.
    """

    follows: bool
    fetched: Local | None
    lags: bool
    may_join_isr: bool
    holds_next: bool
    agrees: bool
    prefix: bool
    matching: bool


def examine(protocol: Protocol, broker: int, leader: Local, follower: Local) -> Pair:
    """The interactions of `broker`, in the local state `leader`, with a replica in the local state `follower`."""
    presumes = leader.leader == broker
    follows = presumes and follower.leader == broker
    follows = follows and serves(leader.leader_epoch, follower.leader_epoch, fenced=protocol.fenced)
    watermark = leader.high_watermark
    end = len(follower.log)
    return Pair(
        follows=follows,
        fetched=fetch(leader, follower) if follows and end < len(leader.log) else None,
        lags=not follows or lags(end, len(leader.log)),
        may_join_isr=follows and end >= watermark and (not protocol.fenced or reached_own_epoch(leader)),
        holds_next=follows and end > watermark,
        agrees=follower.log[:watermark] == leader.log[:watermark],
        prefix=not (presumes and follower.leader == broker and follower.leader_epoch == leader.leader_epoch)
        or follower.log == leader.log[:end],
        matching=logs_match(leader.log, follower.log),
    )


def logs_match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two entries of one leader epoch at one offset always are one record with one past."""
    for offset in range(min(len(one), len(other)) - 1, -1, -1):
        if leader_epoch_of(one[offset]) == leader_epoch_of(other[offset]):
            return one[: offset + 1] == other[: offset + 1]
    return True


def fetch(leader: Local, follower: Local) -> Local:
    """The follower takes the leader's next record, and the leader's high watermark up to its own log end."""
    end = len(follower.log)
    log = (*follower.log, leader.log[end])
    return follower._replace(log=log, high_watermark=min(leader.high_watermark, end + 1))


def reached_own_epoch(leader: Local) -> bool:
    """Whether the high watermark has reached the start of the leader's own epoch.

    Before, it does not know how far its predecessor's went, and must not let anyone into the ISR.
    """
    watermark = leader.high_watermark
    return watermark == len(leader.log) or leader_epoch_of(leader.log[watermark]) == leader.leader_epoch
