"""An outer bound of what a lane can do, much smaller than the lane itself: the producer is let off its leash.

Forgotten is which request lies where: what waits in a socket, which answer is owed, which leader epoch the
producer has addressed. Whoever takes itself for the leader may append any record that has an attempt left, at any
moment; any attempt may come to nothing; a record may be acknowledged wherever its broker could answer just now.
What brokers, controller and faults do is the lane's own (`lane_replication`, `lane_faults`).

Every state of the lane has an image here (`FreeBound.image`), and every step of the lane leads from image to image
by steps of the bound, or stays:

- brokers, controller and faults: the same functions on the same replicas. A zombie that `canonical` makes a
  follower, with clean elections, becomes one by `_settle`.
- An attempt counts until its record is appended or can't be any more: those the producer may still start, and the
  requests that lie in sockets. An append takes one; whatever else ends one is `_forget`.
- An acknowledgement needs the broker that holds the record at its offset, and what `lane_protocol.answer` asks of
  it. It ends the attempts, except for requests in the socket of a broker that was frozen at some time.
- A producer epoch is renewed where a broker that leads refuses the second record after the first was acknowledged.

So what no state here shows, no state of the lane shows; and a lane's state whose image leads to no state here that
shows an anomaly leads to none in the lane (`lane_guide`). Tests compare every step of small lanes with their images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.interning import Numbers
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_anomalies import OBSERVED, Ending, diverged, pairs, shown
from kafka_chaos.reference_model.lane_effects import observe, too_few_in_sync
from kafka_chaos.reference_model.lane_faults import strike
from kafka_chaos.reference_model.lane_idempotence import append_outdated, check_sequence
from kafka_chaos.reference_model.lane_protocol import answerable
from kafka_chaos.reference_model.lane_replication import (
    elect,
    expand_isr,
    expire,
    fetch,
    learn,
    restart,
    shrink_isr,
    thaw,
)
from kafka_chaos.reference_model.lane_state import (
    FOLLOWER,
    FROZEN_LEADER,
    LEADER,
    NEW,
    NO_PENDING,
    NOWHERE,
    OK,
    OUTDATED,
    SHORT,
    ZOMBIE,
    LaneState,
    Record,
    Replica,
    canonical,
    entry,
    entry_record,
    follow_leader,
    initial_state,
    leader_index,
    replace_at,
    replace_record,
    with_replicas,
)

LEADING = (LEADER, ZOMBIE, FROZEN_LEADER)
"""The roles in which a replica's leader epoch counts."""
FREEZING = ("pause", "partition")
"""The fault kinds that leave requests unread in a socket."""

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
        self._moves: dict[int, list[tuple[int, int]]] = {}
        self._loaded: dict[tuple[int, int], list[FreeState]] = {}
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

    def successors(self, state: FreeState) -> list[FreeState]:
        """The states after every step that is possible in a state."""
        environment, load, reads = state
        moves = self._moves.get(environment)
        if moves is None:
            moves = self._moves[environment] = self._of_the_environment(state)
        loaded = self._loaded.get((environment, load))
        if loaded is None:
            loaded = self._loaded[environment, load] = self._of_the_load(state)
        reached = [(after, load, reads | more) for after, more in moves]
        reached += [(after, left, reads | more) for after, left, more in loaded]
        return reached

    def shown(self, state: FreeState) -> frozenset[Anomaly]:
        """What a run that ends in this state leaves behind."""
        return shown(free_ending(self._unpack(state, state[2]), self.lane))

    def _of_the_environment(self, state: FreeState) -> list[tuple[int, int]]:
        images = [self.image(after) for after in _environment_steps(self._unpack(state, 0), self.lane)]
        return list(dict.fromkeys((environment, reads) for environment, _, reads in images))

    def _of_the_load(self, state: FreeState) -> list[FreeState]:
        images = [self.image(after) for after in _load_steps(self._unpack(state, 0), self.lane)]
        return list(dict.fromkeys(images))

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


def _environment_steps(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """What brokers, the controller and faults do."""
    for actions in (
        fetch(state),
        shrink_isr(state),
        expand_isr(state),
        learn(state),
        elect(state, lane),
        restart(state),
        thaw(state),
        expire(state, lane),
        strike(state, lane),
    ):
        for _, after in actions:
            yield after
    if not lane.unclean_leader_election:
        yield from _settle(state)


def _settle(state: LaneState) -> Iterator[LaneState]:
    """With clean elections, a zombie outside the ISR may count as a follower (`lane_state.canonical`)."""
    for broker, replica in enumerate(state.replicas):
        if replica.role == ZOMBIE and not replica.in_isr:
            follower = Replica(FOLLOWER, False, replica.log, NO_PENDING, 0, 0, 0, SHORT)
            yield with_replicas(state, follow_leader(replace_at(state.replicas, broker, follower)))


def _load_steps(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """What becomes of the producer's requests."""
    yield from append_anything(state, lane)
    yield from _acknowledge(state, lane)
    yield from _forget(state)


def append_anything(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """Whoever takes itself for the leader appends any record that has an attempt left."""
    for broker, replica in enumerate(state.replicas):
        if replica.role not in (LEADER, ZOMBIE) or (lane.acks == "all" and too_few_in_sync(state, lane, replica)):
            continue
        for index, record in enumerate(state.records):
            if record.attempts == 0:
                continue
            spent = record._replace(attempts=record.attempts - 1)
            left = state._replace(records=replace_record(state.records, index, spent))
            if lane.idempotence:
                yield from _append_in_sequence(state, left, broker, index)
            else:
                yield _append(left, broker, index)


def _append(state: LaneState, broker: int, index: int) -> LaneState:
    replica = state.replicas[broker]
    log = (*replica.log, entry(index, replica.leader_epoch, state.producer_epoch if index else 0))
    return observe(state._replace(replicas=replace_at(state.replicas, broker, replica._replace(log=log))))


def _append_in_sequence(state: LaneState, left: LaneState, broker: int, index: int) -> Iterator[LaneState]:
    """The idempotent producer's appends, and its renewal of the producer epoch behind what may be gone."""
    known, checked = check_sequence(state, broker, index)
    if known is None and checked.producer_epoch != state.producer_epoch:
        yield checked
    elif known == NOWHERE:
        yield _append(left, broker, index)
    if index == 1 and state.producer_epoch == 1:
        for _, appended in append_outdated(left, broker):
            yield appended


def _acknowledge(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """A broker that holds a record may have answered for it just now; the producer tries no more."""
    if lane.acks == "0":
        return
    thawing = sum(kind in FREEZING for kind in lane.faults) > sum(kind in FREEZING for kind in state.faults)
    for replica in state.replicas:
        if replica.role not in (LEADER, ZOMBIE) or (lane.acks == "all" and too_few_in_sync(state, lane, replica)):
            continue
        for offset, value in enumerate(replica.log):
            record = state.records[entry_record(value)]
            if record.status != OK and answerable(state, lane, replica, offset):
                known = Record(OK, record.attempts if thawing else 0, offset)
                yield state._replace(records=replace_record(state.records, entry_record(value), known))


def _forget(state: LaneState) -> Iterator[LaneState]:
    """An attempt comes to nothing: lost, refused, recognised, or not made at all."""
    for index, record in enumerate(state.records):
        if record.attempts:
            spent = record._replace(attempts=record.attempts - 1)
            yield state._replace(records=replace_record(state.records, index, spent))


def free_ending(state: LaneState, lane: Lane) -> Ending | None:
    """What a run that ends in this state leaves behind, requests in sockets or not.

    With acks=0 every record may count as acknowledged.
    """
    leader = leader_index(state.replicas)
    if leader < 0:
        return None
    log = state.replicas[leader].log
    if lane.acks == "0":
        acknowledged = [(index, NOWHERE) for index in range(len(state.records))]
    else:
        acknowledged = [(index, record.offset) for index, record in enumerate(state.records) if record.status == OK]
    return Ending([entry_record(value) for value in log], acknowledged, pairs(state.reads), diverged(state, log))
