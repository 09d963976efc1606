"""Neither a hanging transaction nor a follower that stays behind holds up a run: waits are bounded, and say where."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import WaitTimeout
from kafka_chaos.contract.events import ClientNotice, Event
from kafka_chaos.harness.cluster.admin import ClusterAdmin, PartitionState
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.experiment.specs import PhaseSpec
from kafka_chaos.harness.run.phase import ABORT_DELAY, PhaseRun


class Offsets(ClusterAdmin):
    """An admin client without a cluster: of two partitions, one has a last stable offset that moves as it is asked."""

    def __init__(self, stable: Sequence[int]) -> None:
        self.stable = list(stable)

    def partition_numbers(self, topic: str, *, timeout: float = 30) -> range:
        return range(2)

    def end_offsets(
        self, topic: str, partitions: Sequence[int], *, committed: bool = False, timeout: float = 30
    ) -> dict[int, int]:
        if not committed:
            return {0: 9, 1: 4}
        return {0: self.stable.pop(0) if len(self.stable) > 1 else self.stable[0], 1: 4}


def test_the_end_is_stable_once_no_transaction_is_open() -> None:
    admin = Offsets([3, 7, 9])
    admin.await_stable_end("pay", [0, 1], timeout=10)
    assert admin.stable == [9]


def test_an_open_transaction_is_named_by_its_place() -> None:
    with pytest.raises(WaitTimeout, match="the last stable offset stands still in partition 0 at offset 3 of 9"):
        Offsets([3]).await_stable_end("pay", [0, 1], timeout=0.2)


class Lagging(Offsets):
    """One whose only partition is never in sync."""

    def __init__(self, leader: int | None) -> None:
        self.leader = leader

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        return {0: PartitionState(self.leader, (1, 2, 3), (1, 2))}


def test_a_run_goes_on_without_a_follower_that_stays_behind_but_not_without_a_leader(tmp_path: Path) -> None:
    phase, seen = PhaseSpec(phase="main", lanes=(LaneSpec(lane="pay"),)), list[Event]()

    def wait(leader: int | None) -> None:
        run = PhaseRun(phase, Lagging(leader), "nobody:1", tmp_path, EventBus(seen.append), threading.Event(), seed=0)
        run._await_full_isr(0.2)

    wait(1)
    (notice,) = [event.text for event in seen if isinstance(event, ClientNotice)]
    assert "gave up waiting for all replicas of 1 topics to be in sync" in notice
    assert "isr=(1, 2)" in notice
    with pytest.raises(WaitTimeout, match="leader=None"):
        wait(None)


@pytest.mark.parametrize("transactional", [None, {"timeout_ms": 4_000}])
def test_a_run_goes_on_past_a_hanging_transaction(transactional: Any, tmp_path: Path) -> None:
    waited: list[float] = []
    seen: list[Event] = []

    class Hanging(Offsets):
        def await_stable_end(self, topic: str, partitions: Sequence[int], *, timeout: float) -> None:
            waited.append(timeout)
            raise WaitTimeout("gave up waiting for all transactions in pay to end")

    lane = LaneSpec(lane="pay", transactional=transactional)
    phase = PhaseSpec(phase="main", lanes=(lane,))
    run = PhaseRun(phase, Hanging([3]), "nobody:1", tmp_path, EventBus(seen.append), threading.Event(), seed=0)
    run._await_transactions(lane)
    notices = [event.text for event in seen if isinstance(event, ClientNotice)]
    if transactional is None:
        assert (waited, notices) == ([], [])
    else:
        assert waited == [4 + ABORT_DELAY]
        assert len(notices) == 1
        assert "all transactions in pay to end" in notices[0]
