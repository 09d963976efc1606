"""An outer bound of what a lane can do, much smaller than the lane itself: the producer is let off its leash.

Forgotten is which request lies where: what waits in a socket, which answer is owed, which leader epoch the
producer has addressed. Whoever takes itself for the leader may append any record that has an attempt left, at any
moment; any attempt may come to nothing; a record may be acknowledged wherever its broker could answer just now.
What brokers, controller and faults do is the lane's own (`lane_replication`, `lane_faults`).

Every state of the lane has an image here (`FreeBound.image`), and every step of the lane leads from image to image
by one step of the bound or none, and any number of idle ones (`lane_free_steps`):

- brokers, controller and faults: the same functions on the same replicas. A zombie that `canonical` makes a
  follower, with clean elections, becomes one by `settle`.
- An attempt counts until its record is appended or can't be any more: those the producer may still start, and the
  requests that lie in sockets. An append takes one; whatever else ends one is `forget`.
- An acknowledgement needs the broker that holds the record at its offset, and what `lane_protocol.answer` asks of
  it. It ends the attempts, except for requests in the socket of a broker that was frozen at some time.
- A producer epoch is renewed where a broker that leads refuses the second record after the first was acknowledged.

So what no state here shows, no state of the lane shows; a lane's state whose image leads to no state here that
shows an anomaly leads to none in the lane, and one whose image is so many steps from it is no fewer from it in the
lane (`lane_guide`). Tests compare every step of small lanes with their images.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import chain
from typing import NamedTuple

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.interning import Numbers
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_anomalies import OBSERVED, shown
from kafka_chaos.reference_model.lane_free_steps import (
    acknowledge,
    append_anything,
    environment_steps,
    forget,
    free_ending,
    settle,
)
from kafka_chaos.reference_model.lane_state import (
    FROZEN_LEADER,
    LEADER,
    NEW,
    NO_PENDING,
    NOWHERE,
    OK,
    OUTDATED,
    ZOMBIE,
    LaneState,
    Record,
    Replica,
    canonical,
    initial_state,
)

LEADING = (LEADER, ZOMBIE, FROZEN_LEADER)
"""The roles in which a replica's leader epoch counts."""

Environment = tuple[tuple[Replica, ...], int, tuple[str, ...]]
"""Replicas, leader epoch, faults left."""
Load = tuple[tuple[Record, ...], int]
"""The records (attempts that may still reach a log; `OK` and the offset once acknowledged), the producer epoch."""
FreeState = tuple[int, int, int]
"""The numbers of the environment and of the load in a `FreeBound`, and what consumers have read."""


class Kept(NamedTuple):
    """What a bound tells states apart by, besides logs, roles, faults and attempts."""

    reads: bool
    acknowledgements: bool
    first_is_acknowledged: bool


def kept(lane: Lane, questions: Set[Anomaly]) -> Kept:
    """What an answer to one of the questions may depend on."""
    return Kept(
        bool(questions & {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET}),
        lane.acks != "0" and bool(questions & OBSERVED - {Anomaly.TRUNCATED_READ}),
        lane.idempotence,
    )


class FreeBound:
    """The bound as a search takes it: `canonical`, packed, without what no question depends on.

    What brokers and faults do depends on the environment alone, what the producer does on the load besides; both
    add to what consumers have read. Each is worked out once for all states that agree in those, and so is what an
    ending shows. Of leader epochs only their order counts, so states are told apart by that alone (`renumbered`).
    """

    def __init__(self, lane: Lane, keep: Kept) -> None:
        self.lane = lane
        self.keep = keep
        self.environments = Numbers[Environment]()
        self.loads = Numbers[Load]()
        self._moves: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        self._loaded: dict[tuple[int, int], tuple[list[FreeState], list[FreeState]]] = {}
        self._images: dict[Environment, tuple[int, tuple[int, int]]] = {}

    def initial(self) -> FreeState:
        """The image of the lane's initial state."""
        return self.image(canonical(initial_state(self.lane), self.lane))

    def image(self, state: LaneState) -> FreeState:
        """A lane's state without what the bound forgets."""
        key = state.replicas, state.leader_epoch, state.faults
        found = self._images.get(key)
        if found is None:
            replicas = tuple(sorted([_without_requests(replica) for replica in state.replicas]))
            environment = self.environments.of((*renumbered(replicas, state.leader_epoch), state.faults))
            found = self._images[key] = environment, (_in_sockets(state.replicas, 0), _in_sockets(state.replicas, 1))
        environment, queued = found
        records = [
            Record(OK if record.status == OK else NEW, record.attempts + more, record.offset)
            for record, more in zip(state.records, queued, strict=True)
        ]
        load = self.loads.of((self._kept(records), state.producer_epoch))
        return environment, load, state.reads if self.keep.reads else 0

    def successors(self, state: FreeState) -> tuple[list[FreeState], list[FreeState]]:
        """The states after every step that is possible in a state, and those after every idle one."""
        environment, load, reads = state
        moves = self._moves.get(environment)
        if moves is None:
            moves = self._moves[environment] = self._of_the_environment(state)
        loaded = self._loaded.get((environment, load))
        if loaded is None:
            loaded = self._loaded[environment, load] = self._of_the_load(state)
        reached, idle = (
            [(after, load, reads | more) for after, more in of_brokers]
            + [(after, left, reads | more) for after, left, more in of_producer]
            for of_brokers, of_producer in zip(moves, loaded, strict=True)
        )
        return reached, idle

    def shown(self, state: FreeState) -> frozenset[Anomaly]:
        """What a run that ends in this state leaves behind."""
        return shown(free_ending(self._unpack(state, state[2]), self.lane))

    def _of_the_environment(self, state: FreeState) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        unpacked = self._unpack(state, 0)
        reached, idle = (
            list(dict.fromkeys((environment, reads) for environment, _, reads in map(self.image, steps)))
            for steps in (environment_steps(unpacked, self.lane), settle(unpacked, self.lane))
        )
        return reached, idle

    def _of_the_load(self, state: FreeState) -> tuple[list[FreeState], list[FreeState]]:
        unpacked = self._unpack(state, 0)
        taken = chain(append_anything(unpacked, self.lane), acknowledge(unpacked, self.lane))
        reached, idle = (list(dict.fromkeys(map(self.image, steps))) for steps in (taken, forget(unpacked)))
        return reached, idle

    def _kept(self, records: Sequence[Record]) -> tuple[Record, ...]:
        if self.keep.acknowledgements:
            return tuple(records)
        first, *others = (Record(NEW, record.attempts, NOWHERE) for record in records)
        if self.keep.first_is_acknowledged:
            first = first._replace(status=records[0].status)
        return first, *others

    def _unpack(self, state: FreeState, reads: int) -> LaneState:
        replicas, leader_epoch, faults = self.environments.values[state[0]]
        records, producer_epoch = self.loads.values[state[1]]
        return LaneState(replicas, leader_epoch, records, reads, faults, producer_epoch, 0, 0)


def renumbered(replicas: tuple[Replica, ...], leader_epoch: int) -> tuple[tuple[Replica, ...], int]:
    """The replicas and the leader epoch with the epochs that are in use counted from 0 on.

    Epochs are compared with each other and raised by one, nothing else: an order-preserving renumbering changes
    no step. One that no log and no leader knows of is as good as none; the next is larger in either case.
    """
    used = {value >> 2 for replica in replicas for value in replica.log}
    used.update(replica.leader_epoch for replica in replicas if replica.role in LEADING)
    if leader_epoch < len(used) or not used:
        return replicas, leader_epoch if used else 0
    numbers = {epoch: number for number, epoch in enumerate(sorted(used))}
    exchanged = (
        replica._replace(
            log=tuple([numbers[value >> 2] << 2 | value & 3 for value in replica.log]),
            leader_epoch=numbers[replica.leader_epoch] if replica.role in LEADING else 0,
        )
        for replica in replicas
    )
    return tuple(sorted(exchanged)), len(used) - 1


def _without_requests(replica: Replica) -> Replica:
    role, in_isr, log, _, _, _, leader_epoch, believed_isr = replica
    return Replica(role, in_isr, log, NO_PENDING, 0, 0, leader_epoch, believed_isr)


def _in_sockets(replicas: tuple[Replica, ...], index: int) -> int:
    """The number of requests for a record that lie unread in sockets."""
    bits = 1 << index | (OUTDATED if index == 1 else 0)
    return sum((r.socket >> index & 1) + (r.abandoned & bits).bit_count() for r in replicas)
