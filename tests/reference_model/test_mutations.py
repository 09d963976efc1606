"""A model with one rule removed is caught: the invariants and predictions see what the rules prevent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafka_chaos.reference_model import (
    Anomaly,
    Lane,
    Status,
    lane_free_steps,
    lane_logs,
    lane_protocol,
    lane_state,
    predict,
)
from kafka_chaos.reference_model.core import Core, CoreScope, CoreStep
from kafka_chaos.reference_model.core_state import CoreState
from kafka_chaos.reference_model.explore import Exploration, explore
from kafka_chaos.reference_model.protocols import PROTOCOLS

SCOPE = CoreScope(brokers=2, records=2, leader_epochs=3)
KIP320 = PROTOCOLS["kip320"]


def broken(exploration: Exploration) -> set[str]:
    return {name for name, (holds, _) in exploration.invariants.items() if holds is False}


class CommitsWithoutTheIsr(Core):
    def leader_advance_high_watermark(self, state: CoreState, broker: int) -> Iterator[CoreStep]:
        local = self.tables.locals[state[broker]]
        if local.high_watermark < len(local.log):
            after = local._replace(high_watermark=local.high_watermark + 1)
            action = next(self.leader_write(self.initial(), broker))[0]
            yield action, self._with(state, broker, after)


class ForgetsItsHighWatermark(Core):
    def leader_write(self, state: CoreState, broker: int) -> Iterator[CoreStep]:
        for action, after in super().leader_write(state, broker):
            local = self.tables.locals[after[broker]]
            yield action, self._with(after, broker, local._replace(high_watermark=0))


def test_the_unmutated_model_holds() -> None:
    assert broken(explore(KIP320, SCOPE)) == set()


def test_committing_without_the_isr_is_caught() -> None:
    core = CommitsWithoutTheIsr(KIP320, SCOPE)
    assert {"weak_isr", "strong_isr", "committed_records_kept"} <= broken(explore(KIP320, SCOPE, core=core))


def test_a_falling_high_watermark_is_caught() -> None:
    core = ForgetsItsHighWatermark(KIP320, SCOPE)
    assert "high_watermark_monotonic" in broken(explore(KIP320, SCOPE, core=core))


def test_a_follower_that_never_truncates_is_caught() -> None:
    careless = replace(KIP320, truncation=lambda log, watermark, leader_log: len(log))
    assert "followers_agree" in broken(explore(careless, SCOPE))


def test_electing_from_outside_the_isr_is_caught() -> None:
    assert "strong_isr" in broken(explore(KIP320, replace(SCOPE, unclean_leader_election=True)))


def test_acks_all_without_waiting_for_the_isr_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(lane="mutated", acks="all", faults=("kill",), replication_factor=2)
    assert predict(lane).status(Anomaly.LOST_WRITE) is Status.FORBIDDEN
    for module in (lane_protocol, lane_free_steps):
        monkeypatch.setattr(module, "answerable", lambda *_: True)
    assert predict(lane).status(Anomaly.LOST_WRITE) is Status.PERMITTED


def test_a_broker_without_the_sequence_check_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(lane="mutated", acks="all", idempotence=True, faults=("kill",), replication_factor=2)
    assert predict(lane).status(Anomaly.DUPLICATE) is Status.FORBIDDEN
    for module in (lane_protocol, lane_free_steps):
        monkeypatch.setattr(module, "check_sequence", lambda state, *_: (lane_state.NOWHERE, state))
    assert predict(lane).status(Anomaly.DUPLICATE) is Status.PERMITTED


def test_a_lane_whose_followers_never_truncate_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(lane="mutated", acks="1", faults=("kill",), replication_factor=2)
    assert predict(lane).status(Anomaly.REPLICA_DIVERGENCE) is Status.FORBIDDEN
    for module in (lane_state, lane_logs):
        monkeypatch.setattr(module, "truncated", lambda log, _: log)
    assert predict(lane).status(Anomaly.REPLICA_DIVERGENCE) is Status.PERMITTED
