from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.reference_model.forecast.lane_runs import append, faults_of, read_record, settings_of, shipped
from tests.reference_model.forecast.lanes import lane_run


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "record.jsonl"
    first, second = lane_run(3), lane_run(client="java 3.9.1", gap_s=None, not_judged=["duplicate"])
    first = replace(first, not_judged=[])
    append(path, [first])
    append(path, [second])
    assert read_record(path) == [first, second]


def test_a_record_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_record(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "not an object"),
        ('{"run": "a"}', "missing"),
        ("COMPLETE", "records: '1000'"),
        ("MORE", "unexpected keyword argument 'more'"),
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "record.jsonl"
    append(path, [lane_run()])
    entry = json.loads(path.read_text())
    line = line.replace("COMPLETE", json.dumps({**entry, "records": "1000"}))
    line = line.replace("MORE", json.dumps({**entry, "more": 1}))
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UsageFailure, match=f"record.jsonl:2: .*{reason}"):
        read_record(path)


def test_settings_are_what_differs_from_the_defaults() -> None:
    lane = {"lane": "a", "topic": "t", "acks": "1", "replication_factor": 3, "faults": ["kill"]}
    assert settings_of({**lane, "kafka_version": "3.9.1", "metadata_mode": "zookeeper"}) == '{"acks":"1"}'


def test_partitions_are_settings_of_lanes_with_transactions_only() -> None:
    transactional = {"lane": "a", "idempotence": True, "partitions": 3, "transactional": {"producers": 2}}
    assert '"partitions":3' in settings_of(transactional)
    assert settings_of({"lane": "a", "acks": "1", "partitions": 3}) == '{"acks":"1"}'


def test_faults_are_named_once_and_in_order() -> None:
    assert faults_of(["pause", "kill", "pause"]) == "kill+pause"
    assert faults_of([]) == "no fault"


def test_the_shipped_record_can_be_read() -> None:
    assert all(run.records >= run.acknowledged for run in shipped())
