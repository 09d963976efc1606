"""The members of one group under load: they join, crash, freeze and leave as planned, and are replaced when they end.

At the end of the load, every member leaves in order, and brokers are asked what the group has committed.
"""

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, Self

from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.contract.lane.share import Share
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.consumed import Readers
from kafka_chaos.harness.workload.clients.producers import WrittenRecords
from kafka_chaos.harness.workload.groups.settings import ORDER_CRASH, ORDER_FREEZE, ORDER_JOIN, ORDER_LEAVE, REPLACE_ME
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.worker import Worker

_TICK = 0.05
_CRASHES_WITHIN = 30.0
_LEAVES_WITHIN = 30.0
_MOST_REPLACED = 20
_NEVER = float("inf")


class PlannedOrder(NamedTuple):
    """An order to the member in a `slot`, given `at` so many seconds after the load began; a join makes the member."""

    at: float
    order: str
    slot: int


def plan_orders(group: Group | Share, duration: float) -> list[PlannedOrder]:
    """The orders to a group in a load of `duration` seconds, by time: spread evenly, and to each member in turn.

    Joins come in the first half of the load and leaves in the second: members that joined leave before the others.
    """

    def times(count: int, span: float, first: float = 0.0) -> list[float]:
        return [first + (turn + 1) * span / (count + 1) for turn in range(count)]

    orders = [
        PlannedOrder(at, order, (turn + shift) % group.members)
        for shift, (order, count) in enumerate({ORDER_CRASH: group.crashes, ORDER_FREEZE: group.freezes}.items())
        for turn, at in enumerate(times(count, duration))
    ]
    joined = range(group.members, group.members + group.joins)
    half = duration / 2
    orders += [PlannedOrder(at, ORDER_JOIN, slot) for slot, at in zip(joined, times(group.joins, half), strict=True)]
    leaving = [*reversed(joined), *reversed(range(group.members))]
    orders += [PlannedOrder(at, ORDER_LEAVE, leaving[turn]) for turn, at in enumerate(times(group.leaves, half, half))]
    return sorted(orders)


class GroupLoad(Readers, ABC):
    """The members of one group, looked after by a thread of their own; the members of a loop write its lane.

    The group `group_id`, with the settings `group`, reads the lane `read`; the `lane` asks for it. A member that has a
    problem is ended, and no other takes its slot.
    """

    def __init__(self, lane: LaneSpec, read: LaneSpec, load: LoadSettings, group: Group | Share, group_id: str) -> None:
        super().__init__()
        self.lane, self.read, self.load = lane, read, load
        self.group, self.group_id = group, group_id
        self.output = WrittenRecords()
        """The records that the members of a loop write."""
        self.reads = read.lane
        """The lane that the group reads."""
        self._on_notice, self._calls = load.on_notice, load.calls
        self._on_change = partial(load.on_change, group_id)
        self._joining: int | None = None
        self._numbers = itertools.count()
        self._members: dict[int, SupervisedProcess] = {}
        self._leaving: list[SupervisedProcess] = []
        self._failed: list[SupervisedProcess] = []
        self._dying: dict[int, float] = {}
        self._replaced = 0
        self._plan: list[PlannedOrder] = []
        self._worker: Worker = Worker(self._run, name=f"group-{group_id}")

    def begin(self) -> Self:
        """Start the members, and the thread that looks after them."""
        if isinstance(self.group, Group):
            # Members of share groups are given no partitions.
            self._joining = self._calls.begins(self.lane.lane, self.group_id, "join")
        for slot in range(self.group.members):
            self._begin(slot)
        self._worker.start()
        return self

    def starts(self) -> None:
        """The load has begun: from now on, members crash, freeze, join and leave as planned."""
        self._began = time.monotonic()
        self._plan = plan_orders(self.group, self.load.workload.duration - (self.lane.created_at or 0.0))

    def note_joined(self) -> None:
        """A member was given partitions: the first time, the group's wait for them is over."""
        with self._lock:
            joining, self._joining = self._joining, None
        if joining is not None:
            self._calls.ends(joining)

    @property
    def failed_for_good(self) -> str:
        """The problems of all members, if none is left without a problem; else empty."""
        return "" if self._members else "; ".join(member.problem or "" for member in self._failed)

    def note_problem(self, problem: str) -> None:
        """Give every member this problem."""
        for member in list(self._members.values()):
            member.note_problem(problem)

    def drain(self, ends: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until the members have processed all partitions to their ends, at most `timeout` seconds."""
        self._plan = []
        super().drain(ends, timeout=timeout, cancelled=cancelled)

    def may_read_more(self) -> bool:
        """Whether some member has no problem; raises what went wrong in the thread that looks after them."""
        return super().may_read_more() and not self.failed_for_good

    def report_unread(self, problem: str) -> None:
        """Report the problem, and give it to every member."""
        self._on_notice(f"the group {self.group_id} {problem}")
        self.note_problem(problem)

    def leave(self) -> None:
        """Let every member leave in order; a member that does not is killed. No member is replaced any more."""
        self._worker.end()
        leaving = [*self._members.values(), *self._leaving]
        for member in leaving:
            member.order(ORDER_LEAVE)
        deadline = time.monotonic() + _LEAVES_WITHIN
        for member in leaving:
            if not member.join(max(0.0, deadline - time.monotonic())):
                self._on_notice(f"{member.name} did not leave within {_LEAVES_WITHIN:g} s: it was killed")
                member.end()
        self._members, self._leaving = {}, []

    def processes(self) -> list[SupervisedProcess]:
        """The members, for faults to hit."""
        return [member for _, member in sorted(self._members.items())]

    def committed(self) -> dict[str, dict[int, int]]:
        """The group's committed offsets, by its id and by partition; raises `ClusterFailure` if no broker answers."""
        return {}

    @abstractmethod
    def start_member(self, slot: int, number: int) -> SupervisedProcess:
        """Start the member of this number in this slot of the group."""

    def close(self) -> None:
        """End every member at once, and the thread."""
        self._worker.end()
        for member in (*self._members.values(), *self._leaving):
            member.end()

    def _run(self) -> None:
        while not self._worker.ending.wait(_TICK):
            while self._plan and time.monotonic() - self._began >= self._plan[0].at:
                self._act(self._plan.pop(0))
            self._look_after()

    def _act(self, planned: PlannedOrder) -> None:
        order, slot = planned.order, planned.slot
        member = self._members.get(slot)
        if order == ORDER_JOIN:
            self._on_change(self._begin(slot).name, "joins")
        elif member is not None:
            member.order(order)
            if order == ORDER_LEAVE:
                self._on_change(member.name, "leaves")
                self._leaving.append(self._members.pop(slot))
            elif order == ORDER_CRASH:
                self._dying[slot] = time.monotonic() + _CRASHES_WITHIN

    def _look_after(self) -> None:
        for slot, member in list(self._members.items()):
            if member.problem is not None:
                self._fails(slot, member, member.problem)
                continue
            if self._dying.get(slot, _NEVER) < time.monotonic():
                self._on_notice(f"{member.name} did not crash amid a batch within {_CRASHES_WITHIN:g} s: it was killed")
                member.end()
            code = member.exit_code
            if code is None or member.is_down:
                continue
            member.join()
            if member.ended_by_fault:
                self._dying.pop(slot, None)
            elif self._dying.pop(slot, None) is not None:
                self._on_change(member.name, "crashes")
            elif code == REPLACE_ME and self._replaced < _MOST_REPLACED:
                self._replaced += 1
            else:
                lost = "lost its client, as others of its group did again and again"
                self._fails(slot, member, lost if code == REPLACE_ME else f"ended unexpectedly, with exit code {code}")
                continue
            self._begin(slot)

    def _fails(self, slot: int, member: SupervisedProcess, problem: str) -> None:
        """End a member because of its problem."""
        del self._members[slot]
        self._failed.append(member)
        member.end()
        member.note_problem(problem)

    def _begin(self, slot: int) -> SupervisedProcess:
        """Start a member in this slot."""
        member = self.start_member(slot, next(self._numbers))
        member.before_kill = partial(self._on_change, member.name, "is killed")
        self._members[slot] = member
        return member
