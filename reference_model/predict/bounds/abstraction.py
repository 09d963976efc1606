"""An outer bound of what a lane can do, much smaller than the lane itself: the producer is unconstrained.

The bound forgets which request lies where and which answer is owed; it knows only in which sockets there may be any.
Whoever takes itself for the leader may append any record that has an attempt left, at any moment. A record may be
acknowledged wherever its broker could answer now. Brokers, controller and faults act by the lane's own functions
(`predict/replication.py`, `predict/faults.py`).

Every state of the lane has an image here (`FreeBound.image`). Of two states that have the rest in common, the one with
more means (`FreeBound.parted`: attempts, sockets that may hold requests, brokers that the producer may address) can do
all that the other can. So no step only takes means away, and the bound keeps ahead of the lane: wherever a run of the
lane gets to, the bound gets to the image or to a state with more means, in at most one step for each of the lane's and
any number of idle ones (`bounds/abstraction_steps.py`):

- Brokers, controller and faults: the same functions on the same replicas. A zombie that `canonical` makes a
  follower, with clean elections, becomes one by `settle`. A broker that was frozen may hold requests until its
  connections break.
- An attempt counts until its record is appended: those the producer may still start, and the requests in sockets.
  What ends one without an append takes means away, no more.
- An acknowledgement needs the broker that holds the record at its offset, and what `exchanges.answer` requires of
  it. It ends the attempts, except for requests in sockets.
- A broker that holds no requests appends only what is sent to it: it leads in the known leader epoch or a later one,
  which is known from then on, and the record is not acknowledged.
- A producer epoch is renewed where a broker that leads refuses the second record after the first was acknowledged,
  and the second was not, and the producer awaits the answer.

So what no state shows here, no state of the lane shows. And a state of the lane is no nearer to an anomaly than the
nearest state here with its rest and no fewer means (`bounds/heuristic.py`). Tests compare every step of small lanes
with their images, and every distance with the true one.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.interning import Numbers
from kafka_chaos.reference_model.predict.anomalies import OBSERVED, shown
from kafka_chaos.reference_model.predict.bounds.abstraction_steps import free_ending
from kafka_chaos.reference_model.predict.bounds.environments import Environment, Environments, Means, Move
from kafka_chaos.reference_model.predict.state import NEW, NOWHERE, OK, LaneState, Record

Load = tuple[tuple[Record, ...], int]
"""The records (attempts that may still reach a log; `OK` and the offset once acknowledged), the producer epoch."""
FreeState = tuple[int, int, int]
"""The numbers of the environment and of the load in a `FreeBound`, and what consumers have read."""
Rest = tuple[Environment, tuple[tuple[int, int], ...], int, int]
"""A state without its means: the environment, status and offset of each record, the producer epoch, what consumers
have read."""


class Kept(NamedTuple):
    """What distinguishes a bound's states, besides logs, roles, faults and attempts."""

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


class FreeBound:
    """The bound as a search takes it: packed, without what no question depends on."""

    def __init__(self, environments: Environments, keep: Kept) -> None:
        self._environments = environments
        self._keep = keep
        self._loads = Numbers[Load]()
        self._loads_with: dict[tuple[int, int, Record, int], int] = {}
        self._without_requests: dict[int, int] = {}
        self._shown: dict[tuple[object, int, int], frozenset[Anomaly]] = {}

    def image(self, state: LaneState) -> FreeState:
        """A lane's state without what the bound forgets."""
        move, queued = self._environments.image(state)
        records = [
            Record(OK if record.status == OK else NEW, record.attempts + more, record.offset)
            for record, more in zip(state.records, queued, strict=True)
        ]
        return self._after(move, self._loads.of((self._kept(records), state.producer_epoch)), state.reads)

    def steps(self, state: FreeState) -> list[FreeState]:
        """The states after every step that is possible in a state."""
        environment, load, reads = state
        stay, moves, _, answers, _ = self._environments.prospects(environment)
        records, epoch = self._loads.values[load]
        reached = [self._after(move, load, reads) for move in moves]
        for index, record in enumerate(records):
            if record.attempts:
                statuses = tuple([record.status for record in records[: index + 1]])
                spent = record._replace(attempts=record.attempts - 1)
                for append in self._environments.appends(environment, statuses, epoch):
                    left = self._load_with(load, index, spent if append.is_spent else record, append.producer_epoch)
                    reached.append(self._after(append.move, left, reads))
        for index, offset in answers:
            record = records[index]
            if record.status != OK:
                known = self._load_with(load, index, Record(OK, record.attempts, offset), epoch)
                reached.append(self._after(stay, known, reads))
        return reached

    def settled(self, state: FreeState) -> list[FreeState]:
        """The states after a zombie counts as a follower: idle."""
        environment, load, reads = state
        return [self._after(move, load, reads) for move in self._environments.prospects(environment).settled]

    def shown(self, state: FreeState) -> frozenset[Anomaly]:
        """What a run that ends in this state leaves behind."""
        environment, load, reads = state
        key = self._environments.prospects(environment).ending, load, reads
        found = self._shown.get(key)
        if found is None:
            found = self._shown[key] = shown(free_ending(self.unpack(state), self._environments.lane))
        return found

    def parted(self, state: FreeState) -> tuple[Rest, Means]:
        """What states that can do alike have in common, and what lets one of them do more than another: the attempts
        that are left, the sockets that requests may lie in, and how little the producer knows of leader epochs."""
        environment, load, reads = state
        rest, means = self._environments.parted(environment)
        records, producer_epoch = self._loads.values[load]
        known = tuple([(record.status, record.offset) for record in records])
        return (rest, known, producer_epoch, reads), (*means, *[record.attempts for record in records])

    def unpack(self, state: FreeState) -> LaneState:
        """The state in the lane's form."""
        environment, load, reads = state
        return self._environments.unpack(environment, *self._loads.values[load], reads)

    def _after(self, move: Move, load: int, reads: int) -> FreeState:
        """The state after a move, without requests for acknowledged records that lie in no socket any more."""
        environment, more, may_hold_requests = move
        if not may_hold_requests:
            load = self._load_without_requests(load)
        return environment, load, reads | more if self._keep.reads else 0

    def _load_without_requests(self, load: int) -> int:
        found = self._without_requests.get(load)
        if found is None:
            records, producer_epoch = self._loads.values[load]
            left = [Record(OK, 0, record.offset) if record.status == OK else record for record in records]
            found = self._without_requests[load] = self._loads.of((tuple(left), producer_epoch))
        return found

    def _load_with(self, load: int, index: int, record: Record, producer_epoch: int) -> int:
        key = load, index, record, producer_epoch
        found = self._loads_with.get(key)
        if found is None:
            records = self._loads.values[load][0]
            records = (*records[:index], record, *records[index + 1 :])
            found = self._loads_with[key] = self._loads.of((self._kept(records), producer_epoch))
        return found

    def _kept(self, records: Sequence[Record]) -> tuple[Record, ...]:
        if self._keep.acknowledgements:
            return tuple(records)
        return tuple([Record(r.status if self._keep.outcomes else NEW, r.attempts, NOWHERE) for r in records])
