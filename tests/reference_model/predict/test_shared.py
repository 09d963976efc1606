"""What the model says of share groups: what is promised, and what costs it."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import OF_DEAD_LETTERS, Share
from kafka_chaos.contract.lane.share import ShareAnomaly as A
from kafka_chaos.reference_model import parse_lockstep
from kafka_chaos.reference_model.predict.prediction import predict
from kafka_chaos.reference_model.predict.result import Prediction
from tests.reference_model.answers import of_family, shown

LANE = Lane(
    lane="a", min_insync_replicas=2, idempotence=True, kafka_version="4.4.0",
    metadata_mode="kraft", client="java 4.2.2", share=Share(delivery_limit=10),
)  # fmt: skip
UNCLEAN = {"unclean_leader_election": True, "min_insync_replicas": 1}
LATEST = Share(delivery_limit=10, start="latest")
OF_THE_LOG = {A.NEVER_DELIVERED, A.REDELIVERED_AFTER_ACCEPT, A.ARCHIVED_EARLY, A.SHARE_START_WENT_BACK}


@pytest.mark.parametrize(
    ("changes", "permitted"),
    [
        ({}, set()),
        ({"faults": ("kill",)}, {A.DELIVERED_TO_TWO}),
        ({"faults": ("pause",)}, {A.DELIVERED_TO_TWO, A.REDELIVERED_AFTER_ACCEPT, A.SHARE_START_WENT_BACK}),
        # Each crash may cost two deliveries: with one that was seen, nine lost ones reach the limit.
        ({"share": Share(delivery_limit=10, crashes=4)}, set()),
        ({"share": Share(delivery_limit=9, crashes=4)}, {A.ARCHIVED_EARLY}),
        ({"share": Share(delivery_limit=10, crashes=5)}, {A.NEVER_DELIVERED, A.ARCHIVED_EARLY}),
        ({"share": LATEST, "flushes": True, "faults": ("power-loss",) * 3}, {A.DELIVERED_TO_TWO, *OF_THE_LOG}),
        pytest.param(
            {**UNCLEAN, "faults": ("pause", "kill")}, {A.DELIVERED_TO_TWO, *OF_THE_LOG}, marks=pytest.mark.slow
        ),
        # The state topic has two replicas in sync at least: two brokers have to lose their power.
        (
            {"replication_factor": 1, "min_insync_replicas": 1, "faults": ("power-loss",)},
            {A.DELIVERED_TO_TWO, *OF_THE_LOG},
        ),
    ],
)
def test_what_may_be_lost_costs_a_share_group(changes: dict[str, object], permitted: set[A]) -> None:
    found = predict(replace(LANE, **changes))  # type: ignore[arg-type]
    assert shown(found, A) == permitted
    assert {*of_family(found, A)} == {*A} - {*OF_DEAD_LETTERS}
    assert Prediction.from_json(found.to_json()) == found


LETTERS = Share(delivery_limit=10, dead_letters="copies", crashes=1)


@pytest.mark.parametrize(
    ("changes", "permitted"),
    [
        ({}, {A.DEAD_LETTER_MISSING, A.DEAD_LETTER_DOUBLED}),
        ({"replication_factor": 1, "min_insync_replicas": 1, "faults": ("power-loss",)}, {*OF_DEAD_LETTERS}),
    ],
)
def test_letters_are_written_at_best_effort(changes: dict[str, Any], permitted: set[A]) -> None:
    assert shown(predict(replace(LANE, share=LETTERS, **changes)), A) & {*OF_DEAD_LETTERS} == permitted


@pytest.mark.parametrize(
    ("steps", "fault"), [("kill-leader,elect,restart", "kill"), ("pause-leader,expire-session,elect,thaw", "pause")]
)
def test_the_steps_of_a_phase_cost_a_share_group_what_their_faults_do(steps: str, fault: str) -> None:
    in_steps, timed = predict(LANE, lockstep=parse_lockstep(steps.split(","))), predict(replace(LANE, faults=(fault,)))
    assert shown(in_steps, A) == shown(timed, A) != set()
