import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.fault import Fault, Nodes, Proof
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.faults.target import Target, TargetError
from tests.faults.fakes import FakeCluster, FakeFault, FakeNode, Notes


def injector(notes: Notes) -> Injector:
    return Injector(FakeCluster(), notes, seed=1)


def cancelled_after(line: str, did: list[str]) -> threading.Event:
    """It is set once a fault has noted this."""
    cancelled = threading.Event()

    def watch() -> None:
        wait_until(lambda: line in did, line, timeout=60, interval=0.01)
        cancelled.set()

    threading.Thread(target=watch, daemon=True).start()
    return cancelled


def test_faults_are_injected_and_healed_in_the_order_of_their_times() -> None:
    notes, did = Notes(), []
    faults = [FakeFault(did, "late", at=0.1), FakeFault(did, "early", at=0.0, duration=1.0)]
    start = time.monotonic()
    injector(notes).run(faults, start=start, cancelled=threading.Event())
    assert did == [
        "early inject", "early proof", "late inject", "late proof", "late heal", "late healed",
        "early heal", "early healed",
    ]  # fmt: skip
    assert time.monotonic() - start >= 1.0
    assert notes.lines == [
        "fake-1 requested broker-1", "fake-1 proven", "fake-2 requested broker-1", "fake-2 proven", "fake-2 healed",
        "fake-1 healed",
    ]  # fmt: skip


def test_a_fault_neither_waits_for_the_proof_nor_for_the_healing_of_another() -> None:
    notes, did = Notes(), []
    faults = [
        FakeFault(did, "slow", heals_after="late inject", bites_at=4),
        FakeFault(did, "other", at=0.1, target=Target.parse("broker:2")),
        FakeFault(did, "late", at=0.6, target=Target.parse("broker:2")),
    ]
    injector(notes).run(faults, start=time.monotonic(), cancelled=threading.Event())
    assert did.index("other heal") < did.index("late inject") < did.index("slow healed")


@pytest.mark.parametrize("keys", [{"heal_seconds": 0.5}, {"bites_at": 6}], ids=["heals slowly", "is proven late"])
def test_a_fault_waits_while_another_changes_its_container_and_how_late_it_is_is_told(keys: dict[str, Any]) -> None:
    notes, did = Notes(), []
    faults = [FakeFault(did, "slow", **keys), FakeFault(did, "next", at=0.2)]
    injector(notes).run(faults, start=time.monotonic(), cancelled=threading.Event())
    assert did.index("slow healed") < did.index("next inject")
    assert notes.late[1] > 0.2


def test_a_fault_that_never_had_its_turn_changes_nothing() -> None:
    notes, did = Notes(), []
    faults = [FakeFault(did, "slow", bites_at=10**6), FakeFault(did, "next", at=0.1)]
    with injector(notes) as broken:
        broken.run(faults, start=time.monotonic(), cancelled=cancelled_after("slow proof", did))
    assert [line for line in did if line.startswith("next")] == []
    assert did[-1] == "slow healed"


class AppliedAgain(FakeFault):
    """It bites only once a restart has ended what its first injection did."""

    def proof(self, cluster: Any, nodes: Nodes) -> Proof:
        self._note("proof")
        return Proof(self.notes.count(f"{self.name} inject") > 1, {}, "ended by a restart")


def test_a_fault_that_a_restart_has_ended_is_proven_and_lasts_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeFault, "proof_timeout", 0.2)
    notes, did = Notes(), []
    faults: list[Fault] = [
        FakeFault(did, "process", heal_seconds=0.5),
        AppliedAgain(did, "network", at=0.1, duration=0.3, ends_with_process=True),
    ]
    start = time.monotonic()
    injector(notes).run(faults, start=start, cancelled=threading.Event())
    assert "fake-2 proven" in notes.lines
    assert did.index("process healed") < len(did) - did[::-1].index("network inject")
    assert notes.applied[1] >= notes.applied[0] + 0.5
    assert time.monotonic() - start >= 0.8


def test_an_error_in_a_schedule_ends_it_and_is_raised() -> None:
    notes, did = Notes(), []
    faults = [FakeFault(did, "long", duration=60.0), FakeFault(did, "bad", at=0.1, fails="inject")]
    with pytest.raises(RuntimeError, match="bad can't inject"), injector(notes) as broken:
        broken.run(faults, start=time.monotonic(), cancelled=threading.Event())
    assert did[-4:] == ["bad heal", "bad healed", "long heal", "long healed"]


def test_a_fault_is_applied_when_its_proof_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    notes, kill, node = Notes(), Kill(target=Target.parse("broker:1")), FakeNode("broker-1", 1)
    ended: list[float] = []

    def slow_kill() -> None:
        node.running, node.exit_code = False, 137
        ended.append(time.time())
        time.sleep(0.3)

    monkeypatch.setattr(node, "kill", slow_kill)

    def state() -> dict[str, Any]:
        finished = f"{datetime.fromtimestamp(ended[0], UTC):%Y-%m-%dT%H:%M:%S.%f}789Z"
        return {"Running": False, "ExitCode": 137, "FinishedAt": finished}

    monkeypatch.setattr(node, "state", state)
    started = time.monotonic()
    Injector(FakeCluster({1: node}), notes, seed=1).inject(kill)
    assert started <= notes.applied[0] < time.monotonic() - 0.3

    # A broker that was down before is no effect of this kill.
    ended[0] -= 60
    again = time.monotonic()
    Injector(FakeCluster({1: node}), notes, seed=1).inject(kill)
    assert notes.applied[1] > again + 0.3


def test_a_fault_without_proof_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeFault, "proof_timeout", 0.2)
    notes, did = Notes(), []
    with injector(notes) as broken:
        broken.inject(FakeFault(did, "blunt", bites_at=10_000))
    assert notes.lines[1:] == ["fake-1 not proven: not yet", "fake-1 healed"]


def test_leaving_heals_everything_the_latest_first_and_once() -> None:
    notes, did = Notes(), []
    with injector(notes) as broken:
        first = broken.inject(FakeFault(did, "first"))
        broken.inject(FakeFault(did, "second"))
        broken.inject(FakeFault(did, "third"))
        broken.heal(first)
    assert [line for line in did if line.endswith("heal")] == ["first heal", "third heal", "second heal"]


def test_one_failing_heal_does_not_keep_the_others_from_being_healed() -> None:
    notes, did = Notes(), []
    broken = injector(notes)
    broken.inject(FakeFault(did, "good"))
    broken.inject(FakeFault(did, "bad", fails="heal"))
    with pytest.raises(RuntimeError, match="bad can't heal"):
        broken.heal_all()
    assert did[-3:] == ["bad heal", "good heal", "good healed"]


def test_a_role_that_nobody_holds_at_its_time_is_waited_for() -> None:
    notes, did, cluster = Notes(), [], FakeCluster()
    start = time.monotonic()
    threading.Timer(0.5, cluster.coordinators.update, [{("group", "orders"): 2}]).start()
    fault = FakeFault(did, "late", target=Target.parse("group-coordinator(orders)"))
    Injector(cluster, notes, seed=1).run([fault], start=start, cancelled=threading.Event())
    assert notes.lines == ["fake-1 requested broker-2", "fake-1 proven", "fake-1 healed"]
    assert notes.late[0] > 0.4


@dataclass(frozen=True)
class Needy(FakeFault):
    """It can begin after so many questions."""

    can_begin_at: int = 3

    def can_begin(self, cluster: Any, nodes: Nodes) -> bool:
        self._note("asked")
        return self.notes.count(f"{self.name} asked") >= self.can_begin_at


def test_what_a_fault_needs_is_waited_for() -> None:
    notes, did = Notes(), []
    fault = Needy(did, "needy")
    injector(notes).run([fault], start=time.monotonic(), cancelled=threading.Event())
    assert did[:4] == [*["needy asked"] * 3, "needy inject"]
    assert notes.late[0] > 0.2


def test_waiting_for_what_a_fault_needs_ends_with_the_schedule() -> None:
    notes, did = Notes(), []
    needy = Needy(did, "needy", can_begin_at=10**6)
    with injector(notes) as waiting:
        waiting.run([needy], start=time.monotonic(), cancelled=cancelled_after("needy asked", did))
    assert set(did) == {"needy asked"}


def test_waiting_for_a_role_ends_with_the_schedule() -> None:
    notes, did, cancelled = Notes(), [], threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    fault = FakeFault(did, "never", target=Target.parse("leader(none)"))
    injector(notes).run([fault], start=time.monotonic(), cancelled=cancelled)
    assert (notes.lines, did) == ([], [])


def test_a_target_that_the_cluster_does_not_have_is_not_waited_for() -> None:
    notes = Notes()
    cluster = FakeCluster(leaders={("orders", 0): 1}, brokers={1: FakeNode("broker-1", 1)})
    with pytest.raises(TargetError, match="no followers"):
        Injector(cluster, notes, seed=1).inject(FakeFault([], "x", target=Target.parse("follower(orders)")))
    assert "not proven" in notes.lines[1]


def test_a_role_that_nobody_holds_for_long_is_told_before_it_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_chaos.faults.injector.ROLE_TIMEOUT", 0.3)
    notes = Notes()
    with pytest.raises(TargetError, match="nobody holds"):
        injector(notes).inject(FakeFault([], "x", target=Target.parse("leader(none)")))
    assert notes.lines[0] == "fake-1 requested "
    assert "not proven" in notes.lines[1]


def test_cancelling_ends_the_schedule_and_leaving_heals() -> None:
    notes, did = Notes(), []
    with injector(notes) as broken:
        faults = [FakeFault(did, "now", duration=600.0), FakeFault(did, "never", at=500.0)]
        broken.run(faults, start=time.monotonic(), cancelled=cancelled_after("now proof", did))
        assert did == ["now inject", "now proof"]
    assert did[-1] == "now healed"
