"""The state of the replication core, packed: for three brokers, a tuple of five small integers.

It covers as much as the public TLA+ specification of Kafka replication by hachikuji: one partition; per replica a log,
a high watermark, a leader epoch, a leader and an ISR; the partition's state in ZooKeeper; and every LeaderAndIsr
request ever sent, which a replica may receive late, again or never.

Each replica's local state is interned to one integer, and so are the controller's state and what remains of the scope
(records, faults). What two replicas in their local states can do with each other is worked out once and remembered.
"""

from typing import NamedTuple

from kafka_chaos.reference_model.protocol import Protocol
from kafka_chaos.reference_model.protocol.entries import leader_epoch_of
from kafka_chaos.reference_model.protocol.isr import lags
from kafka_chaos.reference_model.protocol.leaders import serves

NO_LEADER = -1
NO_EPOCH = -1


class Local(NamedTuple):
    """The local state of a replica. Its log's entries hold record ids (`protocol/entries.py`); `isr` is a bit set."""

    log: tuple[int, ...]
    high_watermark: int
    leader_epoch: int
    leader: int
    isr: int


class Controller(NamedTuple):
    """The state of the controller and of ZooKeeper.

    `requests`: by leader epoch, the (leader, isr) of its LeaderAndIsr. ZooKeeper has the leader of the last one, and
    the present `isr`, which leaders change without a request.
    """

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


class Remainder(NamedTuple):
    """What remains of the scope: the next record's id, and the faults that may still strike."""

    next_record: int
    faults: tuple[str, ...]


CoreState = tuple[int, ...]
"""The numbers that `Core` has for each replica's local state, then for the `Controller`, and last the `Remainder`."""


class Relation(NamedTuple):
    """How two replicas relate in their local states: a first one that may lead, and a second one that may follow it.

    `follows`: the first counts the second as its follower. `fetched`: the second's state after its next fetch, or None
    if it gets nothing. `lags`, `may_join_isr`, `holds_next`: the grounds for shrinking and expanding the ISR and for
    advancing the high watermark. `agrees`: the second holds all records below the first's high watermark. `is_prefix`:
    the follower's log is a prefix of the leader's, if both are in one leader epoch. `logs_match`: as defined below.
    """

    follows: bool
    fetched: Local | None
    lags: bool
    may_join_isr: bool
    holds_next: bool
    agrees: bool
    is_prefix: bool
    logs_match: bool


def examine(protocol: Protocol, broker: int, leader: Local, follower: Local) -> Relation:
    """The interactions of `broker`, in the local state `leader`, with a replica in the local state `follower`."""
    takes_itself_for_leader = leader.leader == broker
    follows = takes_itself_for_leader and follower.leader == broker
    follows = follows and serves(leader.leader_epoch, follower.leader_epoch, checks_epoch=protocol.fenced)
    watermark = leader.high_watermark
    end = len(follower.log)
    return Relation(
        follows=follows,
        fetched=fetch(leader, follower) if follows and end < len(leader.log) else None,
        lags=not follows or lags(end, len(leader.log)),
        may_join_isr=follows and end >= watermark and (not protocol.fenced or reached_own_epoch(leader)),
        holds_next=follows and end > watermark,
        agrees=follower.log[:watermark] == leader.log[:watermark],
        is_prefix=not (
            takes_itself_for_leader and follower.leader == broker and follower.leader_epoch == leader.leader_epoch
        )
        or follower.log == leader.log[:end],
        logs_match=logs_match(leader.log, follower.log),
    )


def logs_match(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether two logs are equal up to each offset at which their entries have the same leader epoch."""
    for offset in range(min(len(first), len(second)) - 1, -1, -1):
        if leader_epoch_of(first[offset]) == leader_epoch_of(second[offset]):
            return first[: offset + 1] == second[: offset + 1]
    return True


def fetch(leader: Local, follower: Local) -> Local:
    """The follower after a fetch of the leader's next record, and of its high watermark up to its own log end."""
    end = len(follower.log)
    log = (*follower.log, leader.log[end])
    return follower._replace(log=log, high_watermark=min(leader.high_watermark, end + 1))


def reached_own_epoch(leader: Local) -> bool:
    """Whether a leader's high watermark has reached the start of its own epoch.

    Before that, the leader does not know how far its predecessor's high watermark went, and lets nobody into the ISR.
    """
    watermark = leader.high_watermark
    return watermark == len(leader.log) or leader_epoch_of(leader.log[watermark]) == leader.leader_epoch
