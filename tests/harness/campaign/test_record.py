import json
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.campaign.record import append, faults_of, read_lane_runs, settings_of
from tests.harness.campaign.lanes import lane_run


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "record.jsonl"
    assert read_lane_runs(path) == []
    first, second = lane_run(3, not_judged=[]), lane_run(client="java 3.9.1", gap_s=None, not_judged=["duplicate"])
    append(path, [first])
    with path.open("a") as file:
        file.write('{"run": "its writer d')
    assert read_lane_runs(path) == [first]
    append(path, [second])
    assert read_lane_runs(path) == [first, second]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Invalid JSON"), ("[]", "should be an object"), ('{"run": "a"}', "client: Field required"),
        ("COMPLETE", "records: Input should be a valid integer"), ("MORE", "more: Unexpected keyword argument"),
    ],
)  # fmt: skip
def test_a_line_that_is_none_is_refused_with_its_number(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "record.jsonl"
    append(path, [lane_run()])
    entry = json.loads(path.read_text())
    line = line.replace("COMPLETE", json.dumps({**entry, "records": "1000"}))
    line = line.replace("MORE", json.dumps({**entry, "more": 1}))
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UsageFailure, match=f"record.jsonl:2: .*{reason}"):
        read_lane_runs(path)


def test_settings_are_what_differs_from_the_defaults_and_partitions_count_in_lanes_with_transactions() -> None:
    lane = {"lane": "a", "topic": "t", "acks": "1", "replication_factor": 3, "partitions": 3, "faults": ["kill"]}
    cell = {"kafka_version": "3.9.1", "metadata_mode": "zookeeper", "client": {"name": "java", "version": "3.9.1"}}
    assert settings_of({**lane, **cell}) == '{"acks":"1"}'
    transactional = {"lane": "a", "idempotence": True, "partitions": 3, "transactional": {"producers": 2}}
    assert '"partitions":3' in settings_of(transactional)
    assert [faults_of(kinds) for kinds in (["pause", "kill", "pause"], [])] == ["kill+pause", "no fault"]


def test_the_record_that_the_guide_s_table_is_from_can_be_read() -> None:
    record = read_lane_runs(Path(__file__).parents[3] / "benchmarks/atlas.jsonl")
    assert record
    assert all(run.records >= run.acknowledged for run in record)
