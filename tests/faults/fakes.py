"""A cluster without containers, for tests of targets, rules and the injector."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.cluster import ClusterControl, Leadership, NodeControl, PartitionId, Registration
from kafka_chaos.faults.fault import Fault, Nodes, Proof
from kafka_chaos.faults.target import Target


@dataclass
class FakeDisk:
    """A disk that is as it was left."""

    frozen: bool = False
    cut: bool = False
    filled: bool = False
    read_only: bool = False
    free: int = 4096
    loss: dict[str, int] | None = None
    slow: int | None = None
    refusing: dict[str, bool] = field(default_factory=dict)

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False

    def is_frozen(self) -> bool:
        return self.frozen

    def refuse_appends(self, topic: str | None) -> None:
        self.refusing = {f"log-directory-1/{topic or 'any'}-0/0.log": True}

    def failing_segments(self) -> dict[str, bool]:
        return self.refusing

    def slow_down(self, pid: int, writes_per_second: int) -> None:
        self.slow = writes_per_second

    def speed_up(self) -> None:
        self.slow = None

    def cut_power(self) -> None:
        self.cut = True

    def power_back(self) -> None:
        assert self.cut
        self.cut = False
        self.loss = {"lost_bytes": 100, "shorter_files": 1, "kept_bytes": 0}

    def fill(self) -> None:
        self.filled, self.free = True, 0

    def is_filled(self) -> bool:
        return self.filled

    def free_bytes(self) -> int:
        return self.free

    def fail(self) -> None:
        self.read_only = True

    def is_read_only(self) -> bool:
        return self.read_only

    def repair(self) -> None:
        self.frozen = self.filled = self.read_only = self.cut = False
        self.free, self.loss, self.refusing = 4096, None, {}


@dataclass
class FakeLink:
    """A link that notes its rules; a test says how many frames they matched and took."""

    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    lifted: list[tuple[str, bool]] = field(default_factory=list)
    matched: int = 0
    told: list[dict[str, Any]] = field(default_factory=list)

    def apply(self, rule_id: str, **frames: Any) -> None:
        self.rules.setdefault(rule_id, frames)

    def lift(self, rule_id: str, *, release: bool) -> None:
        if self.rules.pop(rule_id, None) is not None:
            self.lifted.append((rule_id, release))

    def tally(self, rule_id: str) -> dict[str, Any] | None:
        if rule_id not in self.rules:
            return None
        return {"matched": self.matched, "taken": len(self.told), "told": self.told}


@dataclass
class FakeClock:
    """A clock that is where its shifts put it; a test lets `passed` seconds go by, or the process lag behind."""

    shifts: dict[str, tuple[float, float]] = field(default_factory=dict)
    passed: float = 0.0
    lags: float = 0.0
    silent: bool = False
    down: bool = False

    def shift(self, name: str, *, seconds: float = 0.0, per_second: float = 0.0) -> None:
        self.shifts.setdefault(name, (seconds, per_second))

    def end(self, name: str) -> None:
        self.shifts.pop(name, None)

    def reading(self, name: str) -> dict[str, float] | None:
        if self.silent:
            raise EnvironmentFailure("process 7 does not tell its time")
        if self.down or name not in self.shifts:
            return None
        moved = {one: at + rate * self.passed for one, (at, rate) in self.shifts.items()}
        wanted = sum(moved.values())
        return {"by_this_shift": moved[name], "by_all_shifts": wanted, "ahead": wanted - self.lags}


@dataclass
class FakeNode:
    name: str
    number: int
    address: str = "10.0.0.1"
    running: bool = True
    paused: bool = False
    exit_code: int = 0
    commands: list[tuple[str, ...]] = field(default_factory=list)
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)

    ends: bool = False
    disk: FakeDisk | None = None
    link: FakeLink | None = None
    clock: FakeClock | None = None
    pid: int = 0
    suspended: bool = False
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def shell(self) -> FakeNode:
        return self

    def suspend(self) -> None:
        self.suspended = True

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        raise NotImplementedError

    def file_size(self, path: str) -> int | None:
        return self.sizes.get(path)

    def state(self) -> dict[str, Any]:
        status = "paused" if self.paused else "running" if self.running else "exited"
        return {
            "Status": status, "Running": self.running, "Paused": self.paused,
            "ExitCode": self.exit_code, "Pid": self.pid if self.running else 0,
        }  # fmt: skip

    def is_running(self) -> bool:
        return self.running

    def kill(self) -> None:
        self.running, self.exit_code = False, 137

    def stop(self) -> None:
        self.running, self.exit_code = False, 143

    def pause(self) -> None:
        self.paused = True

    def unpause(self) -> None:
        self.paused = False

    def execute(self, *command: str, in_network: bool = False) -> tuple[int, str]:
        self.commands.append(command)
        if command[0] == "sh":
            # A script works, unless the test says otherwise; with `ends` the container ends at that moment.
            self.running = self.running and not self.ends
            return self.answers.get("sh", (1, "") if self.ends else (0, ""))
        return self.answers.get(" ".join(command), (1, ""))

    def installed(self) -> list[tuple[str, ...]]:
        """The commands that installed packet filter rules, over all starts."""
        return [command for command in self.commands if "iptables-restore" in command[-1]]

    def must_execute(self, *command: str, in_network: bool = False) -> str:
        code, output = self.execute(*command)
        if command[0] == "sh" and code != 0:
            raise RuntimeError(output)
        return output


@dataclass
class FakeCluster:
    brokers: dict[int, FakeNode] = field(
        default_factory=lambda: {n: FakeNode(f"broker-{n}", n, f"10.0.0.{n}") for n in (1, 2, 3)}
    )
    zookeepers: dict[int, FakeNode] = field(default_factory=lambda: {1: FakeNode("zookeeper-1", 1)})
    controllers: dict[int, FakeNode] = field(default_factory=dict)
    leaders: dict[tuple[str, int], int | None] = field(default_factory=dict)
    coordinators: dict[tuple[str, str], int] = field(default_factory=dict)
    controller_id: int | None = 3
    noted: dict[str, Any] = field(default_factory=dict)
    processes: dict[str, list[FakeNode]] = field(default_factory=dict)
    log_directories: tuple[str, ...] = ("/var/lib/kafka",)
    led: dict[PartitionId, Leadership] = field(default_factory=dict)
    registrations: dict[int, Registration] = field(default_factory=dict)
    registers_again: bool = True
    epoch: int | None = 1
    next_controllers: list[int] = field(default_factory=list)
    topics: tuple[str, ...] = ("topic-of-orders", "topic-of-payments")
    ongoing: dict[PartitionId, tuple[int, ...]] = field(default_factory=dict)
    cancelled: list[PartitionId] = field(default_factory=list)
    silent_about_moves: bool = False

    def leader(self, lane: str, partition: int) -> int | None:
        return self.leaders.get((lane, partition))

    def replicas(self, lane: str, partition: int) -> tuple[int, ...]:
        return tuple(self.brokers)

    def group_coordinator(self, lane: str) -> int | None:
        return self.coordinators.get(("group", lane))

    def transaction_coordinator(self, lane: str) -> int | None:
        return self.coordinators.get(("transaction", lane))

    def share_coordinator(self, lane: str) -> int | None:
        return self.coordinators.get(("share", lane))

    def clients(self, lane: str, role: str) -> list[FakeNode]:
        return self.processes.get(lane, [])

    def topic(self, lane: str) -> str:
        return f"topic-of-{lane}"

    def controller(self) -> int | None:
        return self.controller_id

    def controller_epoch(self) -> int | None:
        return self.epoch

    def depose_controller(self) -> None:
        if self.next_controllers and self.epoch is not None:
            self.epoch, self.controller_id = self.epoch + 1, self.next_controllers.pop(0)

    def leadership(self) -> dict[PartitionId, Leadership]:
        return dict(self.led)

    def transfer(self, new_leaders: Mapping[PartitionId, int]) -> None:
        for place, heir in new_leaders.items():
            if self.brokers[heir].paused:
                continue
            state = self.led[place]
            self.led[place] = replace(state, leader=heir, leader_epoch=state.leader_epoch + 1)

    def moving_partitions(self) -> set[PartitionId] | None:
        return None if self.silent_about_moves else set(self.ongoing)

    def move_replicas(self, replicas: Mapping[PartitionId, tuple[int, ...]]) -> None:
        """Until a test lets a move end, all brokers are replicas, new ones out of the ISR."""
        for place, wanted in replicas.items():
            self.ongoing[place] = wanted
            state = self.led[place]
            self.led[place] = replace(state, replicas=tuple(dict.fromkeys((*wanted, *state.replicas))))

    def move_on(self) -> None:
        """Let all moves end."""
        for place, wanted in self.ongoing.items():
            state = self.led[place]
            leader = state.leader if state.leader in wanted else wanted[0]
            self.led[place] = Leadership(leader, state.leader_epoch + 1, wanted, wanted)
        self.ongoing.clear()

    def end_moves(self, partitions: Collection[PartitionId]) -> None:
        for place in [place for place in partitions if place in self.ongoing]:
            self.cancelled.append(place)
            del self.ongoing[place]

    def add_partitions(self, replicas: Mapping[PartitionId, tuple[int, ...]]) -> None:
        """The first replica leads; one that is frozen is not in sync."""
        for place, wanted in replicas.items():
            assert place not in self.led
            isr = tuple(number for number in wanted if not self.brokers[number].paused)
            self.led[place] = Leadership(wanted[0], 0, wanted, isr)

    def registration(self, broker: int) -> Registration | None:
        return self.registrations.get(broker)

    def expire_session(self, session: int) -> None:
        """Who had it registers again in a session of a higher id, unless the test says otherwise."""
        for broker, state in list(self.registrations.items()):
            if state.session == session:
                del self.registrations[broker]
                if self.registers_again:
                    self.registrations[broker] = Registration(state.broker_epoch + 10, session + 1)

    def await_registered(self, nodes: Sequence[NodeControl]) -> None:
        assert all(node.number in self.registrations for node in nodes)

    def start_again(self, nodes: Sequence[NodeControl]) -> None:
        for node in nodes:
            everyone = [*self.brokers.values(), *(one for of in self.processes.values() for one in of)]
            broker = next(one for one in everyone if one.name == node.name)
            if broker.disk is not None and not broker.running:
                broker.disk.repair()
            broker.running = True


@dataclass(frozen=True)
class FakeFault(Fault):
    """A fault that notes what is asked of it in `notes`, and bites from the `bites_at`th proof on.

    Healing takes `heal_seconds`, or until `heals_after` is noted.
    """

    notes: list[str]
    name: str
    target: Target = field(kw_only=True, default_factory=lambda: Target.parse("broker:1"))
    bites_at: int = 1
    fails: str | None = None
    heal_seconds: float = 0.0
    heals_after: str | None = None
    ends_with_process: bool = field(default=False, kw_only=True)  # type: ignore[misc]
    kind = "fake"
    counts_as = "kill"

    def inject(self, cluster: Any, nodes: Nodes) -> None:
        self._note("inject")

    def proof(self, cluster: Any, nodes: Nodes) -> Proof:
        self._note("proof")
        asked = self.notes.count(f"{self.name} proof")
        return Proof(asked >= self.bites_at, {"asked": asked}, "not yet")

    def heal(self, cluster: Any, nodes: Nodes) -> None:
        self._note("heal")
        time.sleep(self.heal_seconds)
        if self.heals_after is not None:
            wait_until(lambda: self.heals_after in self.notes, self.heals_after, timeout=60, interval=0.01)
        self._note("healed")

    def _note(self, what: str) -> None:
        self.notes.append(f"{self.name} {what}")
        if self.fails == what:
            raise RuntimeError(f"{self.name} can't {what}")


class Notes:
    """An observer that records its calls."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.late: list[float] = []
        self.applied: list[float] = []
        """In seconds."""

    def requested(self, fault_id: str, fault: Any, resolved: tuple[str, ...], *, late: float | None) -> None:
        self.lines.append(f"{fault_id} requested {','.join(resolved)}")
        if late is not None:
            self.late.append(late)

    def proven(self, fault_id: str, evidence: Any, *, applied_ns: int) -> None:
        self.lines.append(f"{fault_id} proven")
        self.applied.append(applied_ns / 1e9)

    def not_proven(self, fault_id: str, reason: str) -> None:
        self.lines.append(f"{fault_id} not proven: {reason}")

    def healed(self, fault_id: str) -> None:
        self.lines.append(f"{fault_id} healed")


def hit_by(fault: Fault, cluster: ClusterControl) -> Nodes:
    """The nodes that a fault hits, which is injected."""
    nodes = fault.target.resolve(cluster, 0)
    fault.inject(cluster, nodes)
    return nodes


def hit_twice_by(fault: Fault, cluster: ClusterControl) -> Nodes:
    """The nodes that a fault hits, which had no effect before; it is injected twice, as where the first try failed."""
    nodes = fault.target.resolve(cluster, 0)
    assert not fault.proof(cluster, nodes).took_effect
    fault.inject(cluster, nodes)
    fault.inject(cluster, nodes)
    return nodes
