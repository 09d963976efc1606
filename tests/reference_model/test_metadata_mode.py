"""What docs/decisions/0039-kraft.md says of predictions in KRaft mode."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lanes import Lane, LaneError
from kafka_chaos.reference_model.predict.prediction import predict

STOCK = Lane(lane="orders", acks="1", min_insync_replicas=2)
KRAFT = {"metadata_mode": "kraft", "kafka_version": "4.3.1", "elr": True}


@pytest.mark.parametrize("faults", [("kill",), ("pause",), ("stop",), ("partition",)])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_the_prediction_is_the_same_in_both_modes(faults: tuple[str, ...], acks: str) -> None:
    lane = replace(STOCK, acks=acks, faults=faults)
    in_kraft = replace(lane, **KRAFT)  # type: ignore[arg-type]
    assert predict(in_kraft) == predict(lane)


@pytest.mark.parametrize(
    "faults", list(product(("stop", "pause", "partition"), ("kill", "stop", "pause", "partition")))
)
def test_what_an_eligible_former_leader_can_cost_is_permitted_to_acks_1(faults: tuple[str, str]) -> None:
    """It comes back from anything but a crash, and its successor is hit: its log wins over its successor's."""
    found = predict(replace(STOCK, faults=faults))
    revived = (
        Anomaly.LOST_WRITE, Anomaly.DUPLICATE, Anomaly.INCONSISTENT_OFFSET, Anomaly.OFFSET_MISMATCH, Anomaly.REORDERED,
    )  # fmt: skip
    assert {found.status(anomaly) for anomaly in revived} == {Status.PERMITTED}


def test_a_lane_says_what_it_ran_on_where_that_is_known() -> None:
    assert not {"metadata_mode", "kafka_version", "elr"} & STOCK.to_json().keys()
    lane = replace(STOCK, **KRAFT)  # type: ignore[arg-type]
    assert {key: lane.to_json()[key] for key in KRAFT} == KRAFT
    assert Lane.from_json(lane.to_json()) == lane


@pytest.mark.parametrize(("key", "value"), [("metadata_mode", "raft"), ("kafka_version", 4), ("elr", 1)])
def test_other_values_are_refused(key: str, value: object) -> None:
    with pytest.raises(LaneError, match=key):
        Lane.from_json({"lane": "orders", key: value})
