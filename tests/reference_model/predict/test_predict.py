"""The documented truth tables, as oracles for what the model derives by exploring."""

from dataclasses import replace

import pytest

from kafka_chaos.reference_model import Anomaly, Lane, LockstepStep, ScopeNotExhausted, Status, predict
from kafka_chaos.reference_model import predict as predict_function
from kafka_chaos.reference_model.lane.lockstep_phase import CUT_THEN_KILL
from tests.reference_model.answers import answer

pytestmark = pytest.mark.xdist_group("answers")
"""In one process, which asks for each answer once (`answers.py`)."""


def lane(acks: str, *faults: str, idempotence: bool = False, **settings: object) -> Lane:
    return replace(Lane(lane="oracle", acks=acks, idempotence=idempotence, faults=faults), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fault", "status"), [("kill", Status.FORBIDDEN), ("power-loss", Status.PERMITTED)])
def test_only_a_loss_of_power_shortens_a_log_within_a_leader_epoch(fault: str, status: Status) -> None:
    anomalies = answer(lane("all", fault, replication_factor=2)).anomalies
    for anomaly in (Anomaly.HIGH_WATERMARK_REGRESSION, Anomaly.UNSEEN):
        assert anomalies[anomaly].status is status
        assert "without leaving the ISR" in anomalies[anomaly].why[-1]


@pytest.mark.parametrize("minimum", [1, 2, 3])
def test_one_power_loss_of_the_last_replica_standing_loses_at_any_minimum(minimum: int) -> None:
    """The weakness that KIP-966 names: the ISR may shrink below the minimum after the acknowledgement."""
    lost = answer(lane("all", "power-loss", min_insync_replicas=minimum)).anomalies[Anomaly.LOST_WRITE]
    assert lost.status is Status.PERMITTED
    story = " ".join(lost.why)
    assert story.index("acknowledges record 0") < story.index("loses power")
    assert story.count("drops it from the ISR") == 2


def test_beside_the_record_that_a_lock_step_phase_loses_two_others_may_change_their_order() -> None:
    """The lost one shows nothing but its loss, so the scope has one more."""
    prediction = answer(lane("1"), lockstep=CUT_THEN_KILL)
    assert prediction.bounds["records"] == 3
    assert prediction.status(Anomaly.REORDERED) is Status.PERMITTED
    assert answer(lane("1", max_in_flight=1), lockstep=CUT_THEN_KILL).status(Anomaly.REORDERED) is Status.FORBIDDEN
    assert answer(lane("all"), lockstep=CUT_THEN_KILL).bounds["records"] == 2


def test_order_is_promised_to_idempotent_producers_or_with_one_request_in_flight() -> None:
    """Without a fault, too: a new partition's leader refused the request that came first (producer configs)."""
    lanes = lane("all"), lane("all", max_in_flight=1), lane("all", idempotence=True)
    assert [answer(one).status(Anomaly.REORDERED) for one in lanes] == ["permitted", "forbidden", "forbidden"]


def test_a_later_record_may_hide_what_a_lock_step_phase_loses_in_a_compacted_lane() -> None:
    for policy, status in (("delete", Status.REQUIRED), ("compact", Status.PERMITTED)):
        lost = answer(lane("1", cleanup_policy=policy), lockstep=CUT_THEN_KILL).status(Anomaly.LOST_WRITE)
        assert lost is status


@pytest.mark.parametrize(
    "lockstep",
    [
        tuple(step for step in CUT_THEN_KILL if step is not LockstepStep.APPEND),
        (CUT_THEN_KILL[0], CUT_THEN_KILL[1], LockstepStep.HEAL_REPLICATION, *CUT_THEN_KILL[2:]),
    ],
    ids=["without its append", "with a healed cut"],
)
def test_a_lock_step_phase_that_requires_nothing(lockstep: tuple[LockstepStep, ...]) -> None:
    assert answer(lane("1"), lockstep=lockstep).status(Anomaly.LOST_WRITE) is Status.PERMITTED


def test_a_scope_that_was_not_exhausted_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = __import__("sys").modules[predict_function.__module__]
    monkeypatch.setattr(module, "MAX_STATES", 10)
    with pytest.raises(ScopeNotExhausted, match="more than 10 states"):
        predict(lane("all", "kill"))
