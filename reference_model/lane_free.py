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
  requests that lie in sockets. An append takes one; whatever else ends one is an idle step.
- An acknowledgement needs the broker that holds the record at its offset, and what `lane_protocol.answer` asks of
  it. It ends the attempts, except for requests in the socket of a broker that was frozen at some time.
- A producer epoch is renewed where a broker that leads refuses the second record after the first was acknowledged,
  and the second was not.

So what no state here shows, no state of the lane shows; a lane's state whose image leads to no state here that
shows an anomaly leads to none in the lane, and one whose image is so many steps from it is no fewer from it in the
lane (`lane_guide`). Tests compare every step of small lanes with their images.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.interning import Numbers
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_anomalies import OBSERVED, shown
from kafka_chaos.reference_model.lane_free_steps import (
    acknowledge,
    append_anything,
    environment_steps,
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
    RECORDS,
    ZOMBIE,
    LaneState,
    Record,
    Replica,
    canonical,
    initial_state,
    replace_record,
)

LEADING = (LEADER, ZOMBIE, FROZEN_LEADER)
"""The roles in which a replica's leader epoch counts."""

Environment = tuple[tuple[Replica, ...], int, tuple[str, ...]]
"""Replicas, leader epoch, faults left."""
Load = tuple[tuple[Record, ...], int]
"""The records (attempts that may still reach a log; `OK` and the offset once acknowledged), the producer epoch."""
FreeState = tuple[int, int, int]
"""The numbers of the environment and of the load in a `FreeBound`, and what consumers have read."""


NOTHING_SENT = (Record(NEW, 0, NOWHERE),) * RECORDS


class Kept(NamedTuple):
    """What a bound tells states apart by, besides logs, roles, faults and attempts."""

    reads: bool
    acknowledgements: bool
    outcomes: bool


def kept(lane: Lane, questions: Set[Anomaly]) -> Kept:
    """What an answer to one of the questions may depend on."""
    return Kept(
        bool(questions & {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET}),
        lane.acks != "0" and bool(questions & OBSERVED - {Anomaly.TRUNCATED_READ}),
        lane.idempotence,
    )


class Append(NamedTuple):
    """What comes of an attempt for a record: the environment, what consumers read by it, the producer epoch, and
    whether the attempt is over."""

    environment: int
    reads: int
    producer_epoch: int
    is_spent: bool


class FreeBound:
    """The bound as a search takes it: `canonical`, packed, without what no question depends on.

    What brokers and faults do depends on the environment alone, what an attempt comes to on little besides; both
    add to what consumers have read. Each is worked out once for all states that agree in those. Of leader epochs only
    their order counts, so states are told apart by that alone (`renumbered`).
    """

    def __init__(self, lane: Lane, keep: Kept) -> None:
        self.lane = lane
        self.keep = keep
        self.environments = Numbers[Environment]()
        self.loads = Numbers[Load]()
        self._numbers: dict[Environment, int] = {}
        self._images: dict[Environment, tuple[int, tuple[int, int]]] = {}
        self._moves: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        self._appends: dict[tuple[int, int, tuple[int, ...], int], list[Append]] = {}
        self._answers: dict[int, list[tuple[int, int, bool]]] = {}
        self._loads_with: dict[tuple[int, int, Record, int], int] = {}

    def initial(self) -> FreeState:
        """The image of the lane's initial state."""
        return self.image(canonical(initial_state(self.lane), self.lane))

    def image(self, state: LaneState) -> FreeState:
        """A lane's state without what the bound forgets."""
        key = state.replicas, state.leader_epoch, state.faults
        found = self._images.get(key)
        if found is None:
            stripped = tuple([_without_requests(replica) for replica in state.replicas])
            queued = _in_sockets(state.replicas, 0), _in_sockets(state.replicas, 1)
            found = self._images[key] = self._number(stripped, state.leader_epoch, state.faults), queued
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
            moves = self._moves[environment] = self._of_the_environment(environment)
        reached, idle = ([(after, load, reads | more) for after, more in some] for some in moves)
        records, epoch = self.loads.values[load]
        statuses = tuple([record.status if self.keep.outcomes else NEW for record in records])
        for index, record in enumerate(records):
            if record.attempts:
                spent = Record(record.status, record.attempts - 1, record.offset)
                for append in self._appended(environment, index, statuses, epoch):
                    left = self._load_with(load, index, spent if append.is_spent else record, append.producer_epoch)
                    reached.append((append.environment, left, reads | append.reads))
                idle.append((environment, self._load_with(load, index, spent, epoch), reads))
        for index, offset, may_try_on in self._answered(environment):
            record = records[index]
            if record.status != OK:
                known = Record(OK, record.attempts if may_try_on else 0, offset)
                reached.append((environment, self._load_with(load, index, known, epoch), reads))
        return reached, idle

    def shown(self, state: FreeState) -> frozenset[Anomaly]:
        """What a run that ends in this state leaves behind."""
        environment, load, reads = state
        return shown(free_ending(self._unpack(environment, *self.loads.values[load], reads), self.lane))

    def _of_the_environment(self, environment: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        unpacked = self._unpack(environment, NOTHING_SENT)
        reached, idle = (
            list(dict.fromkeys((self._environment_of(after), self._reads_of(after)) for after in steps))
            for steps in (environment_steps(unpacked, self.lane), settle(unpacked, self.lane))
        )
        return reached, idle

    def _appended(self, environment: int, index: int, statuses: tuple[int, ...], producer_epoch: int) -> list[Append]:
        """What may come of an attempt for a record: its appends, or a producer epoch that is renewed."""
        key = environment, index, statuses, producer_epoch
        found = self._appends.get(key)
        if found is None:
            records = tuple([Record(status, int(at == index), NOWHERE) for at, status in enumerate(statuses)])
            trying = self._unpack(environment, records, producer_epoch)
            appends = (
                Append(
                    self._environment_of(after),
                    self._reads_of(after),
                    after.producer_epoch,
                    after.records[index].attempts == 0,
                )
                for after in append_anything(trying, self.lane)
            )
            found = self._appends[key] = list(dict.fromkeys(appends))
        return found

    def _answered(self, environment: int) -> list[tuple[int, int, bool]]:
        """(record, offset, whether an attempt may still come after it) for every acknowledgement that is possible."""
        found = self._answers.get(environment)
        if found is None:
            sent = (Record(NEW, 1, NOWHERE),) * RECORDS
            found = self._answers[environment] = [
                (index, record.offset, record.attempts > 0)
                for after in acknowledge(self._unpack(environment, sent), self.lane)
                for index, record in enumerate(after.records)
                if record.status == OK
            ]
        return found

    def _load_with(self, load: int, index: int, record: Record, producer_epoch: int) -> int:
        key = load, index, record, producer_epoch
        found = self._loads_with.get(key)
        if found is None:
            records = replace_record(self.loads.values[load][0], index, record)
            found = self._loads_with[key] = self.loads.of((self._kept(records), producer_epoch))
        return found

    def _kept(self, records: Sequence[Record]) -> tuple[Record, ...]:
        if self.keep.acknowledgements:
            return tuple(records)
        return tuple([Record(r.status if self.keep.outcomes else NEW, r.attempts, NOWHERE) for r in records])

    def _environment_of(self, after: LaneState) -> int:
        return self._number(after.replicas, after.leader_epoch, after.faults)

    def _reads_of(self, after: LaneState) -> int:
        return after.reads if self.keep.reads else 0

    def _number(self, replicas: tuple[Replica, ...], leader_epoch: int, faults: tuple[str, ...]) -> int:
        key = replicas, leader_epoch, faults
        found = self._numbers.get(key)
        if found is None:
            ordered = tuple(sorted(replicas))
            found = self._numbers[key] = self.environments.of((*renumbered(ordered, leader_epoch), faults))
        return found

    def _unpack(
        self, environment: int, records: tuple[Record, ...], producer_epoch: int = 0, reads: int = 0
    ) -> LaneState:
        replicas, leader_epoch, faults = self.environments.values[environment]
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
