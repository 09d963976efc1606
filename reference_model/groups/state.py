"""The state of a consumer group that reads one partition, and the scope of a search."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kafka_chaos.contract.lane.groups import GROUP_ANOMALIES, GroupAnomaly
from kafka_chaos.reference_model.groups.rules import Rules
from kafka_chaos.reference_model.tuples import with_item

NONE = -1  # Stands for no generation, incarnation, slot or offset.

# The phase of a member: not there, at work, dead without having left.
ABSENT, ACTIVE, DEAD = range(3)

# The stage of a member's record: GIVEN to the member, then the first and the second of two steps done. The steps are
# processing and commit, in the order that the setup's `commits` says; in a transaction, output and offset. EXPELLED:
# the coordinator has aborted the member's transaction.
GIVEN, FIRST_DONE, SECOND_DONE, EXPELLED = range(4)

LOSSES = ("offsets_may_be_lost", "source_may_lose", "output_may_lose", "ends_may_tear")
"""The fields of `Setup` that allow a loss."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The rules and the scope of a prediction, or of one of the `searches` that it consists of.

    `commits`: when members commit (`contract/lane/groups.py`); of a loop, when it commits offsets. At most `slots`
    members exist at once, and they read `records` records. `crashes`, `removals` of a live member that does not notice,
    `joins` of further members, `leaves`, `failovers` of the coordinator and `losses` limit how often these happen.

    A loss takes acknowledged records from a log: the coordinator's (`offsets_may_be_lost`), the log that is read
    (`source_may_lose`), or the log of a loop's output (`output_may_lose`). `ends_may_tear`: a transaction may be
    committed for its output or for its offsets alone. `resets_to_end`: `auto.offset.reset` is `latest`.
    """

    rules: Rules
    commits: str
    is_loop: bool = False
    is_static: bool = False
    slots: int = 2
    records: int = 2
    crashes: int = 0
    removals: int = 0
    joins: int = 1
    leaves: int = 0
    failovers: int = 0
    losses: int = 0
    offsets_may_be_lost: bool = False
    source_may_lose: bool = False
    output_may_lose: bool = False
    ends_may_tear: bool = False
    resets_to_end: bool = False

    @property
    def anomalies(self) -> frozenset[GroupAnomaly]:
        """The anomalies that a group, or a loop, can show."""
        return frozenset(GroupAnomaly if self.is_loop else GROUP_ANOMALIES)

    def with_loss(self, *losses: str) -> Setup:
        """The scope without failovers in which each of these losses, and no other, may happen once."""
        may_lose: dict[str, Any] = {name: name in losses for name in LOSSES}
        return replace(self, failovers=0, losses=len(losses), **may_lose)

    def searches(self) -> Iterator[tuple[Setup, Set[GroupAnomaly]]]:
        """Each search, with the anomalies to search for. No search has losses of two kinds, or losses and failovers."""
        yield self.with_loss(), self.anomalies
        if self.failovers:
            yield replace(self.with_loss(), failovers=self.failovers), self.anomalies
        for loss in LOSSES:
            if getattr(self, loss):
                yield self.with_loss(loss), self.anomalies


class Member(NamedTuple):
    """A member's process.

    `number`: its incarnation. `generation`: the last it heard of. `owns`: whether it has the partition. `position`:
    the next offset that it fetches, NONE before it has asked for the committed offset. `promised`: the last
    acknowledged offset when it asked, below which it must not begin; NONE once it has a record. `record`: the offset
    that it is working on, NONE between batches. `stage`: how far it is with that record.
    """

    phase: int = ABSENT
    number: int = NONE
    generation: int = NONE
    owns: bool = False
    position: int = NONE
    promised: int = NONE
    record: int = NONE
    stage: int = GIVEN


class Coordinator(NamedTuple):
    """What the log of the group's coordinator holds.

    `generations`: by slot, the generation of the member, NONE if it is not in the group. `owner`: the slot that has the
    partition. `committed`: the committed offset. `pending`: by slot, the offset in an open transaction. `decided`: the
    bit set of slots whose transaction was acknowledged as committed, while its marker is not written here yet.
    """

    generation: int
    generations: tuple[int, ...]
    owner: int
    committed: int
    pending: tuple[int, ...]
    decided: int = 0


class State(NamedTuple):
    """The state of a group, its partition, and the events that are left to happen.

    `log_end`: the partition's log end offset. `preparing`: a rebalance is due. `joined`: the bit set of slots that have
    joined it. `earlier`: what the coordinator's log held before, kept only where a loss may bring it back. `processed`:
    the bit set of records that some member processed. `outputs`: by record, the number of committed outputs of a loop.
    `acknowledged`: the offset of the last acknowledged commit. `readers`: each (generation, incarnation) of a
    member that was given a record. `incarnations`: how many members have existed. `is_commit_lost` and so on: a step in
    `members.py` showed the anomaly `commit_lost`, `commit_regressed` or `owned_twice`.
    """

    members: tuple[Member, ...]
    coordinator: Coordinator
    log_end: int
    preparing: bool = False
    joined: int = 0
    earlier: tuple[Coordinator, ...] = ()
    processed: int = 0
    outputs: tuple[int, ...] = ()
    acknowledged: int = 0
    readers: frozenset[tuple[int, int]] = frozenset()
    incarnations: int = 1
    is_commit_lost: bool = False
    is_commit_regressed: bool = False
    is_owned_twice: bool = False
    crashes: int = 0
    removals: int = 0
    joins: int = 0
    leaves: int = 0
    failovers: int = 0
    losses: int = 0

    def is_present(self, slot: int) -> bool:
        """Whether the coordinator has a member in the generation that the member knows."""
        generation = self.coordinator.generations[slot]
        return generation != NONE and generation == self.members[slot].generation

    def with_member(self, slot: int, member: Member) -> State:
        """The state with one member replaced."""
        return self._replace(members=with_item(self.members, slot, member))

    def with_coordinator(self, setup: Setup, coordinator: Coordinator) -> State:
        """The state after the coordinator's log was appended to."""
        may_return = (self.losses and setup.offsets_may_be_lost) or (self.failovers and not setup.rules.replays)
        earlier = (*self.earlier, self.coordinator) if may_return else ()
        return self._replace(coordinator=coordinator, earlier=earlier)

    def without_member(self, setup: Setup, slot: int) -> State:
        """The state once the coordinator has taken a member out of the group: a rebalance is due."""
        coordinator = self.coordinator
        owner = NONE if coordinator.owner == slot else coordinator.owner
        changed = coordinator._replace(generations=with_item(coordinator.generations, slot, NONE), owner=owner)
        return self.with_coordinator(setup, changed)._replace(preparing=True, joined=self.joined & ~(1 << slot))


class Action(NamedTuple):
    """The action of a step. `slot`: the member; `offset` and `detail`: what its sentence in a story also says."""

    name: str
    slot: int = NONE
    offset: int = NONE
    detail: str = ""


Step = tuple[Action, State]


def initial_state(setup: Setup) -> State:
    """The state in which one member has the partition, and has read nothing of it yet."""
    first = Member(ACTIVE, 0, 1, owns=True)
    absent = (NONE,) * (setup.slots - 1)
    return State(
        members=(first, *(Member(),) * (setup.slots - 1)),
        coordinator=Coordinator(1, (1, *absent), 0, 0, (NONE,) * setup.slots),
        log_end=setup.records,
        outputs=(0,) * setup.records,
        crashes=setup.crashes,
        removals=setup.removals,
        joins=setup.joins,
        leaves=setup.leaves,
        failovers=setup.failovers,
        losses=setup.losses,
    )


def slots_in(state: State) -> list[int]:
    """The slots of the members that are in the group according to its coordinator."""
    return [slot for slot, generation in enumerate(state.coordinator.generations) if generation != NONE]
