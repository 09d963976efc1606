"""An outer bound of what a lane can do, much smaller than the lane itself: the producer is let off its leash.

Every state of the lane maps to one of these by forgetting what the producer knows, and every step of the lane to
steps of these: any record may be appended at any moment by whoever takes itself for the leader, as often as the
lane's attempts allow, and counts as acknowledged as soon as any producer could have been told so. What no state
here shows, no state of the lane shows; what some state here shows, the lane itself still has to show.

Consequences for the state: a frozen leader that keeps its leadership is one that does nothing, requests in
sockets and pending answers are appends and acknowledgements of some other moment. `LaneState.reads` holds the
acknowledgements in its upper bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.interning import Numbers
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_anomalies import Ending, diverged, pairs, shown
from kafka_chaos.reference_model.lane_effects import Step, observe, too_few_in_sync
from kafka_chaos.reference_model.lane_faults import strike
from kafka_chaos.reference_model.lane_idempotence import append_outdated, check_sequence
from kafka_chaos.reference_model.lane_replication import (
    depose,
    elect,
    expand_isr,
    fetch,
    learn,
    restart,
    shrink_isr,
)
from kafka_chaos.reference_model.lane_state import (
    FROZEN_LEADER,
    LEADER,
    NOWHERE,
    OK,
    ZOMBIE,
    LaneState,
    Record,
    Replica,
    attempts,
    canonical,
    entry,
    entry_record,
    high_watermark,
    initial_state,
    leader_index,
    read_bit,
    replace_at,
    replace_record,
)

ACKNOWLEDGED = 16
"""The first bit of the acknowledgements in `LaneState.reads`."""
READ = (1 << ACKNOWLEDGED) - 1
LEADING = (LEADER, ZOMBIE, FROZEN_LEADER)
"""The roles in which a replica's leader epoch counts."""


def kept_observations(lane: Lane, open_questions: Set[Anomaly]) -> int:
    """The bits of `LaneState.reads` that an answer to one of the questions may depend on."""
    keep = ~READ if lane.idempotence and lane.min_insync_replicas > 1 else 0
    told_apart = lane.acks == "1" or lane.min_insync_replicas > 1
    if open_questions & {Anomaly.LOST_WRITE, Anomaly.OFFSET_MISMATCH, Anomaly.INCONSISTENT_OFFSET}:
        keep |= ~READ if told_apart else READ
    if open_questions & {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET}:
        keep |= READ
    return keep


Environment = tuple[tuple[Replica, ...], int, tuple[str, ...]]
"""Replicas, leader epoch, faults left."""
FreeState = tuple[int, int, int, int]
"""The numbers of the environment and of the records in a `FreeBound`, the observations, the producer epoch."""


class FreeBound:
    """The bound as a search takes it: `canonical`, packed, without the observations that no question looks at.

    What brokers and faults do depends on the environment alone, what a producer appends on the records, the
    producer epoch and whether the first record may be acknowledged besides; both add what they show to the
    observations. Each is worked out once for all states that agree in those, and so is what an ending shows.
    Of leader epochs only their order counts, so states are told apart by that alone (`renumbered`).
    """

    def __init__(self, lane: Lane, keep: int) -> None:
        self.lane = lane
        self.keep = keep
        self.environments = Numbers[Environment]()
        self.records = Numbers[tuple[Record, ...]]()
        self._moves: dict[int, list[tuple[int, int]]] = {}
        self._appends: dict[tuple[int, int, int, bool], list[FreeState]] = {}
        self._shown: dict[tuple[int, int], frozenset[Anomaly]] = {}

    def initial(self) -> FreeState:
        """The lane's own initial state."""
        return self._pack(canonical(initial_state(self.lane), self.lane))

    def successors(self, state: FreeState) -> list[FreeState]:
        """The states after every step that is possible in a state."""
        environment, records, reads, producer_epoch = state
        moves = self._moves.get(environment)
        if moves is None:
            moves = self._moves[environment] = self._brokers_and_faults(state)
        reached = [(after, records, reads | more, producer_epoch) for after, more in moves]
        told = self.lane.idempotence and may_be_told(self._unpack(state), self.lane)
        key = (environment, records, producer_epoch, told)
        appends = self._appends.get(key)
        if appends is None:
            appends = self._appends[key] = self._of_the_producer(state, told)
        reached += [(after, left, reads | more, renewed) for after, left, more, renewed in appends]
        return reached

    def shown(self, state: FreeState) -> frozenset[Anomaly]:
        """What a run that ends in this state leaves behind."""
        key = state[0], state[2]
        found = self._shown.get(key)
        if found is None:
            found = self._shown[key] = shown(free_ending(self._unpack(state), self.lane))
        return found

    def _brokers_and_faults(self, state: FreeState) -> list[tuple[int, int]]:
        afters = [self._pack(raw) for raw in _brokers_and_faults(self._unpack(state, reads=0), self.lane)]
        return list(dict.fromkeys((environment, reads) for environment, _, reads, _ in afters))

    def _of_the_producer(self, state: FreeState, told: bool) -> list[FreeState]:
        return [self._pack(raw) for raw in append_anything(self._unpack(state, reads=0), self.lane, told=told)]

    def _pack(self, raw: LaneState) -> FreeState:
        state = canonical(_acknowledge(raw, self.lane), self.lane)
        environment = self.environments.of((*renumbered(state.replicas, state.leader_epoch), state.faults))
        return environment, self.records.of(state.records), state.reads & self.keep, state.producer_epoch

    def _unpack(self, state: FreeState, reads: int | None = None) -> LaneState:
        replicas, leader_epoch, faults = self.environments.values[state[0]]
        observed = state[2] if reads is None else reads
        return LaneState(replicas, leader_epoch, self.records.values[state[1]], observed, faults, state[3], 0, 0)


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


def free_steps(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """Every next state with all observations kept; not yet `canonical`."""
    for raw in (
        *append_anything(state, lane, told=may_be_told(state, lane)),
        *_brokers_and_faults(state, lane),
    ):
        yield _acknowledge(raw, lane)


def _brokers_and_faults(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    for step in _of_the_brokers(state, lane):
        yield step[1]
    for _, struck in strike(state, lane):
        frozen = next((i for i, r in enumerate(struck.replicas) if r.role == FROZEN_LEADER), None)
        yield struck if frozen is None else depose(struck, lane, frozen)


def _acknowledge(state: LaneState, lane: Lane) -> LaneState:
    """Note what a leader with enough replicas in sync may acknowledge by now.

    With a minimum of one that is all that consumers may read, and needs no note of its own.
    """
    if lane.acks != "all" or lane.min_insync_replicas == 1:
        return state
    leader = leader_index(state.replicas)
    if leader < 0 or too_few_in_sync(state, lane, state.replicas[leader]):
        return state
    reads = state.reads
    log = state.replicas[leader].log
    for offset in range(high_watermark(state.replicas)):
        reads |= read_bit(entry_record(log[offset]), offset) << ACKNOWLEDGED
    return state if reads == state.reads else state._replace(reads=reads)


def _of_the_brokers(state: LaneState, lane: Lane) -> Iterator[Step]:
    if leader_index(state.replicas) >= 0:
        yield from fetch(state)
        yield from shrink_isr(state)
        yield from expand_isr(state)
        yield from learn(state)
    else:
        yield from elect(state, lane)
    yield from restart(state)


def append_anything(state: LaneState, lane: Lane, *, told: bool) -> Iterator[LaneState]:
    """Whoever takes itself for the leader appends any record that has an attempt left.

    `told`: an idempotent producer may have been told that its first record is written.
    """
    for broker, replica in enumerate(state.replicas):
        if replica.role not in (LEADER, ZOMBIE) or (lane.acks == "all" and too_few_in_sync(state, lane, replica)):
            continue
        for index, record in enumerate(state.records):
            if record.attempts == 0:
                continue
            spent = Record(record.status, record.attempts - 1, NOWHERE)
            left = state._replace(records=replace_record(state.records, index, spent))
            if lane.idempotence:
                yield from _append_in_sequence(state, left, told, broker, index)
            else:
                yield _append(left, lane, broker, index)


def _append(state: LaneState, lane: Lane, broker: int, index: int) -> LaneState:
    replica = state.replicas[broker]
    log = (*replica.log, entry(index, replica.leader_epoch, state.producer_epoch if index else 0))
    appended = replica._replace(log=log)
    reads = state.reads
    if lane.acks == "1":
        reads |= read_bit(index, len(log) - 1) << ACKNOWLEDGED
    return observe(state._replace(replicas=replace_at(state.replicas, broker, appended), reads=reads))


def _append_in_sequence(state: LaneState, left: LaneState, told: bool, broker: int, index: int) -> Iterator[LaneState]:
    """The idempotent producer's appends, and its renewal of the producer epoch behind what may be gone."""
    seen = state._replace(records=replace_record(state.records, 0, state.records[0]._replace(status=OK)))
    known, checked = check_sequence(seen if told else state, broker, index)
    if known is None:
        if checked.producer_epoch != state.producer_epoch:
            yield state._replace(producer_epoch=checked.producer_epoch)
    elif known == NOWHERE:
        replica = left.replicas[broker]
        log = (*replica.log, entry(index, replica.leader_epoch, left.producer_epoch if index else 0))
        yield observe(left._replace(replicas=replace_at(left.replicas, broker, replica._replace(log=log))))
    if index == 1 and state.producer_epoch == 1:
        for _, appended in append_outdated(left, broker):
            yield appended


def may_be_told(state: LaneState, lane: Lane) -> bool:
    """Whether any producer could have been told by now that its first record is written."""
    if lane.min_insync_replicas == 1:
        return state.records[0].attempts < attempts(lane)[0]
    return any(record == 0 for record, _ in pairs(state.reads >> ACKNOWLEDGED))


def free_ending(state: LaneState, lane: Lane) -> Ending | None:
    """What the most talkative run that ends in this state leaves behind."""
    leader = leader_index(state.replicas)
    if leader < 0:
        return None
    log = state.replicas[leader].log
    read = pairs(state.reads & READ)
    if lane.acks == "0":
        acknowledged = [(index, NOWHERE) for index in range(len(state.records))]
    elif lane.acks == "1" or lane.min_insync_replicas > 1:
        acknowledged = pairs(state.reads >> ACKNOWLEDGED)
    else:
        acknowledged = read
    return Ending([entry_record(value) for value in log], acknowledged, read, diverged(state, log))
