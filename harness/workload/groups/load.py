"""The members of one group under load: begun, crashed, frozen, joined and left as planned, replaced when they end.

At the end, every member leaves in order, and what the group has committed is asked for.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kafka_chaos.contract.groups import Group
from kafka_chaos.contract.transactions import transactional_id
from kafka_chaos.harness.child import command_of
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.workload.clients.recorded_consumer import not_at_the_end
from kafka_chaos.harness.workload.groups.client_process import ClientProcess
from kafka_chaos.harness.workload.groups.configs import committed_by, member_configs
from kafka_chaos.harness.workload.groups.plan import Action, Planned, planned
from kafka_chaos.harness.workload.groups.rows import GroupTables, MemberRows, Progress
from kafka_chaos.harness.workload.groups.settings import (
    ORDER_CRASH,
    ORDER_FREEZE,
    ORDER_LEAVE,
    REPLACE_ME,
    MemberSettings,
    OutputSettings,
)
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess

_MODULE = "kafka_chaos.harness.workload.groups.process"
_TICK = 0.05
_CRASHES_WITHIN = 30.0
_FROZEN_LONGER = 2.0
_LEAVES_WITHIN = 30.0
_MOST_REPLACED = 20
_NEVER = float("inf")

OnChange = Callable[[str, str, str], None]
"""Learns what became of a member: its group, its name, and a change of `MemberChanged`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """A group and what it reads: `group_id` of the members in `settings`, partitions 0 to `partitions` of `lane`.

    `output`: what a loop writes; its `configs` get a `transactional.id` of each member's own if it uses transactions.
    """

    group_id: str
    settings: Group
    lane: str
    topic: str
    partitions: int
    isolation: str
    bootstrap_servers: str
    client_configs: Mapping[str, str]
    duration: float
    output: OutputSettings | None = None


def consumer_configs(work: GroupWork, place: int) -> dict[str, Any]:
    """librdkafka's configs of the member in this place."""
    group = work.settings
    return {
        **member_configs(group),
        "group.id": work.group_id,
        **({"group.instance.id": f"{work.group_id}-{place}"} if group.static else {}),
        "isolation.level": work.isolation,
        # In a loop, the member itself commits.
        **({} if work.output is None else {"enable.auto.commit": False}),
        **work.client_configs,
        "bootstrap.servers": work.bootstrap_servers,
    }


class GroupLoad:
    """The members of one group, looked after by a thread of their own."""

    def __init__(
        self, work: GroupWork, tables: GroupTables, *, on_notice: Callable[[str], None], on_change: OnChange
    ) -> None:
        self.progress = Progress()
        self._work = work
        self._tables = tables
        self._on_notice = on_notice
        self._on_change = partial(on_change, work.group_id)
        self._numbers = itertools.count()
        self._members: dict[int, SupervisedProcess] = {}
        self._leaving: list[SupervisedProcess] = []
        self._dying: dict[int, float] = {}
        self._replaced = 0
        self._down: dict[str, bool] = {}
        """Members that a fault has ended, by name: whether they stay down."""
        self._plan: list[Planned] = []
        self._ending = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"group-{work.group_id}", daemon=True)
        for place in range(work.settings.members):
            self._begin(place)
        self._thread.start()

    @property
    def lane(self) -> str:
        """The lane that it reads."""
        return self._work.lane

    def starts(self) -> None:
        """The load has begun: from now on, members crash, freeze, join and leave as planned."""
        self._began = time.monotonic()
        self._plan = planned(self._work.settings, self._work.duration)

    def raise_error(self) -> None:
        """Raise what went wrong with a member."""
        if self._error is not None:
            raise self._error

    def drain(self, ends: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until the members have processed all partitions to their ends, at most `timeout` seconds.

        If they do not get there, the run continues: the verdict says what can't be judged.
        """
        self._plan = []
        deadline = time.monotonic() + timeout
        while behind := self.progress.behind(ends):
            self.raise_error()
            if time.monotonic() > deadline or cancelled.is_set():
                self._on_notice(not_at_the_end(f"the group {self._work.group_id}", behind))
                break
            time.sleep(_TICK)

    def leave(self) -> None:
        """Let every member leave in order; one that does not is killed. No member is replaced any more."""
        self._end_thread()
        leaving = [*self._members.values(), *self._leaving]
        for member in leaving:
            member.order(ORDER_LEAVE)
        deadline = time.monotonic() + _LEAVES_WITHIN
        for member in leaving:
            if not member.join(max(0.0, deadline - time.monotonic())):
                self._on_notice(f"{member.name} did not leave within {_LEAVES_WITHIN:g} s: it was killed")
                member.kill()
                member.join()
        self._members, self._leaving = {}, []

    def processes(self) -> list[ClientProcess]:
        """The members that run, for faults to hit."""
        return [
            ClientProcess(member, place, is_down=self._takes_down, replace=self._replace)
            for place, member in sorted(self._members.items())
            if member.exit_code is None
        ]

    def _takes_down(self, member: SupervisedProcess) -> None:
        self._down[member.name] = True
        self._on_change(member.name, "is killed")

    def _replace(self, member: SupervisedProcess) -> None:
        if member.name in self._down:
            self._down[member.name] = False

    def committed(self) -> dict[str, dict[int, int]]:
        """What the group has committed, by its id and by partition; raises `ClusterFailure` if nobody tells."""
        work = self._work
        offsets = committed_by(
            work.group_id,
            work.topic,
            work.partitions,
            bootstrap_servers=work.bootstrap_servers,
            configs=work.client_configs,
        )
        return {work.group_id: offsets}

    def close(self) -> None:
        """End every member at once, and the thread."""
        self._end_thread()
        for member in (*self._members.values(), *self._leaving):
            member.kill()
            member.join()

    def _end_thread(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ending.wait(_TICK):
                while self._plan and time.monotonic() - self._began >= self._plan[0].at:
                    self._act(self._plan.pop(0))
                self._look_after()
        except Exception as error:  # noqa: BLE001 - raised by raise_error()
            self._error = error

    def _act(self, planned: Planned) -> None:
        place = planned.place
        member = self._members.get(place)
        if planned.action is Action.JOIN:
            self._on_change(self._begin(place).name, "joins")
        elif member is None:
            return
        elif planned.action is Action.LEAVE:
            self._on_change(member.name, "leaves")
            del self._members[place]
            member.order(ORDER_LEAVE)
            self._leaving.append(member)
        elif planned.action is Action.FREEZE:
            member.order(ORDER_FREEZE)
        else:
            member.order(ORDER_CRASH)
            self._dying[place] = time.monotonic() + _CRASHES_WITHIN

    def _look_after(self) -> None:
        for place, member in list(self._members.items()):
            if member.problem is not None:
                raise ClusterFailure(f"{member.name} failed: {member.problem}")
            if self._dying.get(place, _NEVER) < time.monotonic():
                self._on_notice(f"{member.name} did not crash amid a batch within {_CRASHES_WITHIN:g} s: it was killed")
                member.kill()
                member.join()
            code = member.exit_code
            if code is None:
                continue
            if self._down.get(member.name):
                continue
            member.join()
            if self._down.pop(member.name, None) is not None:
                self._dying.pop(place, None)
            elif self._dying.pop(place, None) is not None:
                self._on_change(member.name, "crashes")
            else:
                self._count_replaced(member, code)
            self._begin(place)

    def _count_replaced(self, member: SupervisedProcess, code: int) -> None:
        """A member has ended by itself: raises `ClusterFailure` unless it asked to be replaced, or if many do."""
        if code != REPLACE_ME:
            raise ClusterFailure(f"{member.name} ended unexpectedly, with exit code {code}: {member.problem}")
        self._replaced += 1
        if self._replaced > _MOST_REPLACED:
            raise ClusterFailure(f"the members of {self._work.group_id} lose their clients again and again")

    def _begin(self, place: int) -> SupervisedProcess:
        """Begin a member in this place."""
        work, number = self._work, next(self._numbers)
        name = f"{work.group_id}-{number}"
        output = work.output
        if output is not None:
            configs = dict(output.configs)
            if "transactional.id" in configs:
                configs["transactional.id"] = transactional_id(output.lane, place)
            output = replace(output, configs=configs, producer_id=number, seed=f"{output.seed}/{number}")
        settings = MemberSettings(
            group=work.group_id,
            name=name,
            lane=work.lane,
            topic=work.topic,
            configs=consumer_configs(work, place),
            commits=work.settings.commits,
            freeze_seconds=work.settings.max_poll_interval_ms / 1000 + _FROZEN_LONGER,
            output=output,
        )
        rows = MemberRows(
            group=work.group_id,
            lane=work.lane,
            isolation=work.isolation,
            output=None
            if output is None
            else (output.lane, output.producer_id, output.configs.get("transactional.id")),
            tables=self._tables,
            progress=self.progress,
            on_change=partial(self._on_change, name),
        )
        member = self._members[place] = SupervisedProcess(
            command_of(_MODULE), settings.to_json(), rows, name=name, on_notice=self._on_notice, may_end=True
        )
        return member


class GroupClients:
    """The members of the groups of a load, by the lane that has the group or the loop."""

    def __init__(self, groups: Mapping[str, Sequence[GroupLoad]]) -> None:
        self._groups = groups

    def members(self, lane: str) -> Sequence[ClientProcess]:
        """Those that run: of the lane's group, or else of its loop."""
        return [member for group in self._groups.get(lane, ())[:1] for member in group.processes()]

    def start_again(self, members: Sequence[object]) -> None:
        """Let new ones take the places of those that a fault has ended."""
        for member in members:
            if isinstance(member, ClientProcess):
                member.start()
