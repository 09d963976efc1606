"""The model predicts for lanes what Kafka's documentation says of them (`truth_table.yaml`), row by row."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.lanes import ACKS
from kafka_chaos.reference_model import Anomaly, Lane, Lockstep, Status, parse_lockstep
from kafka_chaos.reference_model.lane.anomalies import CHECKS
from tests.reference_model.answers import answer

pytestmark = pytest.mark.xdist_group("answers")
"""In one process, which asks for each answer once (`answers.py`)."""

TABLE = YAML(typ="safe").load(Path(__file__).with_name("truth_table.yaml"))
"""Loading refuses a lane that names an anomaly twice."""


class Row(NamedTuple):
    """One anomaly of one lane: the status that the documentation leads to, and the name of the reason."""

    lane: Lane
    lockstep: Lockstep | None
    anomaly: Anomaly
    status: Status
    reason: str
    known_defects: tuple[str, ...]


def lane_of(settings: dict[str, Any]) -> tuple[Lane, Lockstep | None]:
    settings = dict(settings)
    steps = settings.pop("lockstep", None)
    return Lane.from_json({"lane": "documented", **settings}), None if steps is None else parse_lockstep(steps)


def rows() -> Iterator[Row]:
    for entry in TABLE["lanes"]:
        lane, lockstep = lane_of(entry["lane"])
        for anomaly, words in entry.items():
            if anomaly != "lane":
                status, reason, *defects = words.split()
                yield Row(lane, lockstep, Anomaly(anomaly), Status(status), reason, tuple(defects))


ROWS = list(rows())
LANES = [lane_of(entry["lane"]) for entry in TABLE["lanes"]]


def name_of(row: Row) -> str:
    settings = {k: v for k, v in row.lane.to_json().items() if k != "acks" and v != getattr(Lane(lane="documented"), k)}
    faults = "+".join(row.lockstep or settings.pop("faults", ()))
    said = "-".join(f"{key}={value}" for key, value in settings.items() if key != "faults")
    return f"{row.anomaly}-acks={row.lane.acks}-{said}-{faults}"


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_the_model_says_what_the_documentation_says(row: Row) -> None:
    found = answer(row.lane, row.lockstep).anomalies[row.anomaly]
    source = TABLE["reasons"][row.reason]
    assert found.status == row.status, f"{source['source']}: {source['why']} The model: {' '.join(found.why)}"
    for defect in row.known_defects:
        assert defect in ["+".join(trace.ids) for trace in found.known_defects]


def test_every_row_has_a_source_and_an_argument() -> None:
    assert {row.reason for row in ROWS} == set(TABLE["reasons"])
    for name, reason in TABLE["reasons"].items():
        assert set(reason) == {"source", "why"}, name
        assert len(reason["source"]) > 4, name
        assert len(reason["why"].split()) > 5, name
        assert reason["why"].endswith("."), name


def test_no_lane_is_there_twice() -> None:
    def whole(lane: Lane, lockstep: Lockstep | None) -> tuple[Any, ...]:
        return replace(lane, faults=tuple(sorted(lane.faults))), lockstep

    counts = Counter(whole(*lane) for lane in LANES)
    assert [lane for lane, count in counts.items() if count > 1] == []


def test_the_table_covers_every_setting_and_both_statuses_of_every_anomaly() -> None:
    assert {row.anomaly for row in ROWS} == set(Anomaly)
    for acks in ACKS:
        assert {fault for lane, _ in LANES if lane.acks == acks for fault in lane.faults} == set(FAULT_KINDS)
    for anomaly in CHECKS.keys() - {Anomaly.REPLICA_DIVERGENCE}:
        assert {Status.FORBIDDEN, Status.PERMITTED} <= {row.status for row in ROWS if row.anomaly is anomaly}
    assert Status.REQUIRED in {row.status for row in ROWS}
    for size in (1, 2, 3):
        assert any(lane.min_insync_replicas == size for lane, _ in LANES)
        assert any(lane.replication_factor == size for lane, _ in LANES)
    assert {lane.unclean_leader_election for lane, _ in LANES if lane.idempotence} == {False, True}
