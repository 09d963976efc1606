"""The members of one group under load: they join, crash, freeze and leave as planned, and are replaced when they end.

At the end of the load, every member leaves cleanly.
"""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, Self

from kafka_chaos.contract.events import MemberChanged
from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.contract.lane.share import Share
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.client_process import SupervisedProcess
from kafka_chaos.harness.workload.clients.consumed import Readers
from kafka_chaos.harness.workload.clients.producers import WrittenRecords
from kafka_chaos.harness.workload.groups.settings import ORDER_CRASH, ORDER_FREEZE, ORDER_JOIN, ORDER_LEAVE, REPLACE_ME
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.worker import Worker

_CRASH_TIMEOUT_S = 30.0
_LEAVE_TIMEOUT_S = 30.0
_MAX_REPLACED = 20
_NEVER = float("inf")


class PlannedOrder(NamedTuple):
    """An order to the member in a slot. The order to join makes the slot's member."""

    at: float  # Seconds after the load began.
    order: str
    slot: int


def plan_orders(group: Group | Share, duration: float) -> list[PlannedOrder]:
    """The orders to a group in a load of `duration` seconds, by time: spread evenly, and to each member in turn.

    Members join in the first half of the load and leave in the second; members that joined leave before the others.
    """

    def times(count: int, span: float, first: float = 0.0) -> list[float]:
        return [first + (turn + 1) * span / (count + 1) for turn in range(count)]

    # Crashes begin with the first member and freezes with the second, so that they hit different members.
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
    """The members of one group, which a thread starts, gives planned orders, and replaces when they end.

    The group `group_id`, with the settings `group`, reads `read_lane`. `lane` is the one whose keys ask for the group:
    the lane that is read or, for a loop, the lane that the loop writes. A member that fails is ended, and no other
    takes its slot.
    """

    group_id: str

    def __init__(
        self, lane: LaneSpec, read_lane: LaneSpec, load: LoadSettings, group: Group | Share, group_id: str
    ) -> None:
        super().__init__(load, read_lane, group_id)
        self.lane, self.group = lane, group
        self.output = WrittenRecords()  # The records that the members of a loop write.
        self._on_notice, self._calls = load.on_notice, load.calls
        self._join_call: int | None = None
        self._numbers = itertools.count()
        self._members: dict[int, SupervisedProcess] = {}
        self._former: list[SupervisedProcess] = []  # They leave as planned, or have failed.
        self._crash_deadlines: dict[int, float] = {}
        self._replaced = 0
        self._plan: list[PlannedOrder] = []
        self._worker: Worker = Worker(self._run, name=f"group-{group_id}")

    def begin(self) -> Self:
        """Start the members, and the thread that checks on them."""
        if isinstance(self.group, Group):
            # Not for a share group: its members report no assignment, which ends the call `join`.
            self._join_call = self._calls.note_begin(self.lane.lane, self.group_id, "join")
        for slot in range(self.group.members):
            self._start_slot(slot)
        self._worker.start()
        return self

    def begin_load(self) -> None:
        """Let members crash, freeze, join and leave as planned from now on: the load has begun."""
        self._began = time.monotonic()
        self._plan = plan_orders(self.group, self.load.workload.duration - (self.lane.created_at or 0.0))

    def note_assigned(self) -> None:
        """Learn that a member was assigned partitions: the first time, this ends the group's call `join`."""
        with self._lock:
            call, self._join_call = self._join_call, None
        if call is not None:
            self._calls.note_end(call)

    @property
    def problem(self) -> str:
        """The problems of the members that failed, once no member is left; else empty."""
        return "" if self._members else "; ".join(member.problem for member in self._former if member.problem)

    def note_problem(self, problem: str) -> None:
        """Note a problem of every member."""
        for member in list(self._members.values()):
            member.note_problem(problem)

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float) -> None:
        """Wait until the members have processed all partitions to their ends, at most `timeout` seconds."""
        self._plan = []
        super().drain(end_offsets, timeout=timeout)

    def may_read_more(self) -> bool:
        """Whether members may still read: the thread runs, and `problem` is empty. Raises the thread's error."""
        return super().may_read_more() and not self.problem

    def report_unread(self, problem: str) -> None:
        """Report that the group did not reach the end, which is a problem of every member."""
        self._on_notice(f"the group {self.group_id} {problem}")
        self.note_problem(problem)

    def leave(self) -> None:
        """Let every member leave cleanly; a member that does not is killed. No member is replaced any more."""
        self._worker.end()
        members = [*self._members.values(), *self._former]
        for member in members:
            member.order(ORDER_LEAVE)
        deadline = time.monotonic() + _LEAVE_TIMEOUT_S
        for member in members:
            if not member.join(max(0.0, deadline - time.monotonic())):
                self._on_notice(f"{member.name} did not leave within {_LEAVE_TIMEOUT_S:g} s: it was killed")
                member.kill_quietly()
        self._members, self._former = {}, []

    def processes(self) -> list[SupervisedProcess]:
        """The members, for faults to hit."""
        return [member for _, member in sorted(self._members.items())]

    @abstractmethod
    def start_member(self, slot: int, number: int) -> SupervisedProcess:
        """Start a member in a slot of the group. `number`: how many members the group has had before."""

    def close(self) -> None:
        """End every member at once, and the thread."""
        self._worker.end()
        for member in (*self._members.values(), *self._former):
            member.kill_quietly()

    def note_change(self, member: str, change: str) -> None:
        """Emit that a member begins, joins, freezes, thaws, crashes, is killed or leaves."""
        self.load.emit(MemberChanged(group=self.group_id, member=member, change=change))

    def _run(self) -> None:
        while not self._worker.ending.wait(0.05):
            while self._plan and time.monotonic() - self._began >= self._plan[0].at:
                self._give_order(self._plan.pop(0))
            self._check_members()

    def _give_order(self, planned: PlannedOrder) -> None:
        order, slot = planned.order, planned.slot
        member = self._members.get(slot)  # None if it has left or failed.
        if order == ORDER_JOIN:
            self.note_change(self._start_slot(slot).name, "joins")
        elif member is not None:
            member.order(order)
            if order == ORDER_LEAVE:
                self.note_change(member.name, "leaves")
                self._former.append(self._members.pop(slot))
            elif order == ORDER_CRASH:
                self._crash_deadlines[slot] = time.monotonic() + _CRASH_TIMEOUT_S

    def _check_members(self) -> None:
        """Replace members that crashed, were killed by a fault, or whose client failed; end members that failed."""
        for slot, member in list(self._members.items()):
            if member.problem is None:
                if self._crash_deadlines.get(slot, _NEVER) < time.monotonic():
                    within = f"within {_CRASH_TIMEOUT_S:g} s"
                    self._on_notice(f"{member.name} did not crash amid a batch {within}: it was killed")
                    member.kill_quietly()
                # While a fault keeps it down, no other member starts.
                if member.exit_code is None or member.is_down:
                    continue
                member.join()
                was_ordered_to_crash = self._crash_deadlines.pop(slot, None) is not None
                if was_ordered_to_crash and not member.ended_by_fault:
                    self.note_change(member.name, "crashes")
                elif not member.ended_by_fault and member.exit_code != REPLACE_ME:
                    member.note_problem(f"ended unexpectedly, with exit code {member.exit_code}")
                elif not member.ended_by_fault and self._replaced == _MAX_REPLACED:
                    member.note_problem(f"failed for good, as {_MAX_REPLACED} earlier members of its group did")
                elif not member.ended_by_fault:
                    self._replaced += 1
            if member.problem is None:
                self._start_slot(slot)
            else:
                self._former.append(self._members.pop(slot))
                member.kill_quietly()

    def _start_slot(self, slot: int) -> SupervisedProcess:
        """Start a member in this slot."""
        member = self.start_member(slot, next(self._numbers))
        member.before_kill = partial(self.note_change, member.name, "is killed")
        self._members[slot] = member
        return member
