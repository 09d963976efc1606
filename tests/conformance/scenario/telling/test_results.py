"""Results as JSON: written whole, read back as they were, counted, and refused with the place that is wrong."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from scenario_pages import read_results

from kafka_chaos.conformance.scenario.record import json_value
from kafka_chaos.conformance.scenario.runner import results_json
from kafka_chaos.contract.command.errors import UsageFailure
from tests.conformance.scenario.samples import planted_difference, scenario_record, sharing, truncation


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    records = [truncation(), planted_difference(), sharing()]
    file = written(tmp_path / "results.json", results_json(records, seconds=30))
    read = read_results(file)
    assert not read.index
    assert [json.dumps(one.to_json()) for one in read.scenarios] == [json.dumps(one.to_json()) for one in records]


def test_bad_results_are_refused_with_their_place(tmp_path: Path) -> None:
    document = results_json([truncation()], seconds=1)
    del document["scenarios"][0]["acts"][0]["steps"][3]["sentence"]
    document["scenarios"][0]["acts"][0]["steps"][4]["observed"]["replicas"]["1"]["log_end"] = "far"
    file = written(tmp_path / "bad.json", document)
    with pytest.raises(UsageFailure) as refused:
        read_results(file)
    assert f"{file}: scenarios[0].acts[0].steps[3].sentence: Field required" in str(refused.value)
    assert "scenarios[0].acts[0].steps[4].observed.replicas.1.log_end: " in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"format_version": 2, "scenarios": []}', "format_version: Input should be 1"),
        ('{"format_version": 1}', "expected scenarios, or an index of them"),
        ('{"format_version": 1, "index": [{"scenario": "acks-0"}]}', r"index\[0\]\.verdict: Field required"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(UsageFailure, match=expected):
        read_results(file)
    with pytest.raises(UsageFailure, match=r"nowhere\.json: can't be read: No such file"):
        read_results(tmp_path / "nowhere.json")


def test_facts_of_any_kind_can_be_written() -> None:
    @dataclass
    class Measured:
        seconds: float
        path: Path

    record = scenario_record()
    facts = {"a": {3, 1, 2}, "b": b"\xff\x00", "c": Measured(1.5, Path("/x")), "d": (1, None, True), 5: "e"}
    assert json_value(facts) == {
        "a": [1, 2, 3], "b": "�\x00", "c": {"seconds": 1.5, "path": "/x"}, "d": [1, None, True], "5": "e",
    }  # fmt: skip
    assert json.dumps(record.to_json())
