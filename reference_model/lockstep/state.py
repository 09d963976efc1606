"""The state of one partition's replicas in full, as brokers and their files hold it: the base of scenarios.

Unlike the packed state of `explore/`, it is meant to be read, and to be compared with real brokers field by field.
Broker ids are Kafka's (any positive numbers), and 0 means nobody. All values are immutable and hashable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafka_chaos.reference_model.lockstep.producers import Entry, ProducerState
from kafka_chaos.reference_model.protocol import PROTOCOLS, Protocol
from kafka_chaos.reference_model.protocol.quorum import has_majority

NOBODY = 0

# Roles. "none": no LeaderAndIsr yet since its start; "offline": its log directory has failed.
NONE, LEADER, FOLLOWER, OFFLINE = "none", "leader", "follower", "offline"

# Channels a cut can close: follower → leader fetches, controller → broker requests, clients → broker, and between two
# dedicated controllers, both ways.
REPLICATION, CONTROL, CLIENTS, QUORUM = "replication", "control", "clients", "quorum"
HELD_FETCHES = "held"
"""A cut of replication that lets the answer to a follower's present fetch through: only its next fetch is held."""
ANY_CLIENT = -1
"""Stands for the clients as one end of a cut on their channel."""


class ActionError(ValueError):
    """An action that is impossible in this state, or whose arguments name nothing that exists."""


class EpochStart(NamedTuple):
    """A line of leader-epoch-checkpoint: a leader epoch, and the offset at which it starts."""

    epoch: int
    start: int


class Replica(NamedTuple):
    """One broker's replica of the partition, in memory and on disk.

    The broker's process is `up` or not, and may be `frozen`. `registered`: the controller takes the broker for live.

    In memory: `role`; the `leader`, `leader_epoch`, `partition_epoch` and `isr` of the last LeaderAndIsr accepted; the
    highest `controller_epoch` seen; the `high_watermark`. A leader has `fetched`, the (follower, log end offset) pairs
    that its followers' fetches have shown. A follower is `truncating` until it has found its truncation offset, and
    `parked` while its fetch waits at the leader.

    On disk: whether its process `ended_cleanly`; the `log` from `log_start` on, with the base offset of its
    `active_segment` and the `flushed` log end offset; `checkpointed_high_watermark`; `epochs`, the lines of
    leader-epoch-checkpoint; `producers`, what it remembers of idempotent producers.
    """

    broker: int
    up: bool = True
    frozen: bool = False
    registered: bool = True
    ended_cleanly: bool = True
    role: str = NONE
    leader: int = NOBODY
    leader_epoch: int = -1
    partition_epoch: int = -1
    controller_epoch: int = 0
    isr: tuple[int, ...] = ()
    high_watermark: int = 0
    fetched: tuple[tuple[int, int], ...] = ()
    truncating: bool = False
    parked: bool = False
    log: tuple[Entry, ...] = ()
    log_start: int = 0
    log_end: int = 0
    active_segment: int = 0
    flushed: int = 0
    checkpointed_high_watermark: int = 0
    epochs: tuple[EpochStart, ...] = ()
    producers: tuple[ProducerState, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether the process runs and is not frozen."""
        return self.up and not self.frozen


class Partition(NamedTuple):
    """The partition in the metadata; `replicas` is its assignment, the preferred leader first.

    While a reassignment adds or removes replicas (KIP-455), `target` is the assignment afterwards, and `replicas` has
    the replicas before and after. `eligible` has the eligible leader replicas, and `last_known` the last known leader
    (KIP-966).
    """

    replicas: tuple[int, ...]
    leader: int = NOBODY
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    controller_epoch: int = 0
    target: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


class LeaderAndIsr(NamedTuple):
    """A LeaderAndIsr request on its way to a broker; with `stop`, a StopReplica that deletes the broker's replica."""

    to: int
    controller: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    stop: bool = False


class Produce(NamedTuple):
    """A record whose producer has no final answer yet. `error`: the last retriable error, if there was one."""

    record: str
    producer: str = "p"
    acks: str = "all"
    idempotent: bool = False
    sequence: int | None = None
    key: str | None = None
    error: str | None = None
    tombstone: bool = False


class Pending(NamedTuple):
    """A produce request with acks=all that was appended and waits for the high watermark."""

    produce: Produce
    broker: int
    offset: int


class Quorum(NamedTuple):
    """Dedicated controllers (KRaft, not brokers), by node id: all `voters`, and the voters that are `down`.

    `rival`: a controller elected behind a cut. No broker hears it: all still hear the old one, which stays active.
    `campaigned`: controllers that tried to be elected without a majority. `behind`: controllers that lack what another
    one has written meanwhile. `interrupted`: for a while there was no active controller. `former_was_reachable`:
    brokers still reached the former active controller when it was replaced. `doubted`: brokers that the new controller
    may fence. `returning`: brokers that it has fenced, and that register again.
    """

    voters: tuple[int, ...]
    down: tuple[int, ...] = ()
    rival: int = NOBODY
    campaigned: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    interrupted: bool = False
    former_was_reachable: bool = False
    doubted: tuple[int, ...] = ()
    returning: tuple[int, ...] = ()


class ClusterState(NamedTuple):
    """The state of a cluster: the replicas of one partition, its metadata, the controller, and requests on their way.

    `requests`: in the order in which they were sent. `cuts`: each (channel, from, to). `outgoing`: records to send.
    `pending`: records that wait for their answer. `acknowledged`: each (record, offset), with the offset None for
    acks=0. `quorum`: None where the controller is a broker, or one that never fails.
    """

    replicas: tuple[Replica, ...]
    partition: Partition
    controller: int
    controller_epoch: int
    requests: tuple[LeaderAndIsr, ...] = ()
    cuts: tuple[tuple[str, int, int], ...] = ()
    outgoing: tuple[Produce, ...] = ()
    pending: tuple[Pending, ...] = ()
    acknowledged: tuple[tuple[str, int | None], ...] = ()
    quorum: Quorum | None = None

    def replica(self, broker: int) -> Replica:
        """The replica on a broker; raises `ActionError` if there is no such broker."""
        for replica in self.replicas:
            if replica.broker == broker:
                return replica
        raise ActionError(f"no broker {broker}; the brokers are {[replica.broker for replica in self.replicas]}")

    @property
    def controller_runs(self) -> bool:
        """Whether brokers have a controller that can decide. In a quorum, it needs a majority that follows it.

        A `rival` has the majority, but no broker hears it. A single dedicated controller always runs.
        """
        if not self.controller:
            return False
        if self.quorum is not None and self.quorum.rival:
            return False
        if self.quorum is not None:
            return has_majority(len(self.reached_by(self.controller)), len(self.quorum.voters))
        return all(replica.runs for replica in self.replicas if replica.broker == self.controller)

    def reached_by(self, controller: int) -> tuple[int, ...]:
        """The controllers of the quorum that run and reach this one, itself among them; none if it does not run."""
        if self.quorum is None or controller in self.quorum.down:
            return ()
        running = [voter for voter in self.quorum.voters if voter not in self.quorum.down]
        cut = {frozenset((source, target)) for channel, source, target in self.cuts if channel == QUORUM}
        return tuple(voter for voter in running if frozenset((voter, controller)) not in cut)

    def with_replica(self, replica: Replica) -> ClusterState:
        """The state with one replica replaced."""
        replicas = tuple(replica if old.broker == replica.broker else old for old in self.replicas)
        return self._replace(replicas=replicas)

    def is_cut(self, channel: str, source: int, target: int) -> bool:
        """Whether requests from `source` to `target` are cut off on a channel."""
        return (channel, source, target) in self.cuts


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The configuration: brokers in the partition's assignment order, and the topic's and brokers' settings.

    `controller` is the first replica's broker by default; it may also be a node that is none of `brokers` and never
    fails. `assignment` is for a partition that has replicas on some of the brokers only, the preferred leader first.
    `lag_is_short`: `replica.lag.time.max.ms` passes within a step, so that a follower that does not fetch leaves the
    ISR; otherwise only the action `expire_lag` makes it leave. `watermark_waits_for_min_isr` is false for brokers
    before 3.7 (KAFKA-15583). `kraft`: the metadata is a log that brokers replay, by the rules since 3.6, and the
    controller is none of `brokers`. `elects_eligible`: leaders are elected from the eligible leader replicas, too
    (KIP-966).

    `controllers` are the controllers of KRaft where they may fail, and `controller` is the active one at first. Without
    a majority it resigns (`resigns_without_majority`, since 3.7: KAFKA-15489). Before an election, a controller asks
    the others whether it could win (`asks_before_election`, since 4.0: KIP-996).
    """

    brokers: tuple[int, ...] = (1, 2, 3)
    controller: int = 0
    protocol: Protocol = PROTOCOLS["kip320"]
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    lag_is_short: bool = False
    watermark_waits_for_min_isr: bool = True
    kraft: bool = False
    elects_eligible: bool = False
    assignment: tuple[int, ...] = ()
    controllers: tuple[int, ...] = ()
    resigns_without_majority: bool = True
    asks_before_election: bool = True

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, which never asks for more replicas than there are."""
        return min(self.min_insync_replicas, len(self.assignment or self.brokers))

    def initial(self, controller_epoch: int = 1) -> ClusterState:
        """The state in which the first broker leads in epoch 0, and every broker has handled that LeaderAndIsr."""
        assignment = self.assignment or self.brokers
        first = assignment[0]
        isr = tuple(sorted(assignment))
        partition = Partition(assignment, first, 0, 0, isr, controller_epoch)
        shared = {"leader": first, "leader_epoch": 0, "partition_epoch": 0, "controller_epoch": controller_epoch}
        followers = tuple((broker, 0) for broker in isr if broker != first)
        replicas = tuple(
            Replica(broker, role=LEADER, isr=isr, fetched=followers, epochs=(EpochStart(0, 0),), **shared)  # type: ignore[arg-type]
            if broker == first
            else Replica(broker, role=FOLLOWER, isr=isr, parked=True, **shared)  # type: ignore[arg-type]
            if broker in isr
            else Replica(broker, controller_epoch=controller_epoch)
            for broker in sorted(self.brokers)
        )
        quorum = Quorum(self.controllers) if self.controllers else None
        return ClusterState(replicas, partition, self.controller or first, controller_epoch, quorum=quorum)
