"""A lock-step phase reports each condition of its prediction that was not kept."""

import threading
import time
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import PartitionState
from kafka_chaos.harness.run.lockstep_phase import RECORDS_PER_APPEND, LockstepRun
from kafka_chaos.harness.workload.lane_load import Counts
from kafka_chaos.reference_model import LockstepStep

FULL = PartitionState(1, (1, 2, 3), (1, 2, 3))
STEPS = [LockstepStep.CUT_REPLICATION, LockstepStep.APPEND, LockstepStep.KILL_LEADER, LockstepStep.RESTART]


class FakeAdmin:
    """Partition states in the order in which they are asked for; the last one stays."""

    def __init__(self, *states: PartitionState) -> None:
        self.states = list(states)

    def await_leader(self, topic: str, partition: int, **_: object) -> int:
        return 1

    def await_partitions(self, topic: str) -> dict[int, PartitionState]:
        return {0: self.states.pop(0) if len(self.states) > 1 else self.states[0]}


def executed(
    admin: FakeAdmin, *, lag_time_max: float = 30.0, steps: Sequence[LockstepStep] = STEPS
) -> tuple[str | None, list[str], int]:
    """Why the phase was broken, if it was, the kinds of the faults that it injected, and how many it healed."""
    injector = Mock()
    injector.inject.side_effect = lambda fault: Mock(injected_at=time.monotonic())
    sent = iter(range(0, 100 * RECORDS_PER_APPEND, RECORDS_PER_APPEND))

    def counts() -> dict[str, Counts]:
        number = next(sent)
        return {"orders": Counts(number, number, number)}

    stand_in: Any = admin
    run = LockstepRun(
        target=Target.parse("leader(orders)"), lanes=["orders"], acks={"orders": "all"},
        step_seconds=0.0, lag_time_max=lag_time_max, injector=injector, admin=stand_in,
        counts=counts, say=lambda text: None, cancelled=threading.Event(),
    )  # fmt: skip
    broken = run.run(steps)
    return broken, [call.args[0].kind for call in injector.inject.call_args_list], injector.heal.call_count


def test_a_phase_whose_conditions_hold_is_kept() -> None:
    assert executed(FakeAdmin(FULL)) == (None, ["partition", "kill"], 1)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([PartitionState(1, (1, 2, 3), (1, 2)), FULL], "the ISR of orders-0 was [1, 2] of [1, 2, 3]"),
        ([FULL, PartitionState(1, (1, 2, 3), (1, 3))], "the ISR of orders-0 was [1, 3] of [1, 2, 3]"),
        ([PartitionState(2, (1, 2, 3), (1, 2, 3)), FULL], "orders-0 was led by broker 2 instead of 1"),
        ([FULL, PartitionState(None, (1, 2, 3), (1, 2, 3))], "orders-0 was led by broker None instead of 1"),
    ],
    ids=["ISR at the start", "ISR at the kill", "leader at the start", "leader at the kill"],
)
def test_a_broken_condition_is_the_reason(states: list[PartitionState], expected: str) -> None:
    # The steps go on, and the fault is healed.
    assert executed(FakeAdmin(*states)) == (expected, ["partition", "kill"], 1)


@pytest.mark.parametrize("ending", [LockstepStep.KILL_LEADER, LockstepStep.PAUSE_LEADER])
def test_a_cut_that_outlasts_the_lag_time_is_the_reason(ending: LockstepStep) -> None:
    broken, *_ = executed(FakeAdmin(FULL), lag_time_max=0.0, steps=[LockstepStep.CUT_REPLICATION, ending])
    assert broken is not None
    assert broken.startswith("the cut lasted 0.0 s, longer than replica.lag.time.max.ms")
