"""Only JSON that every reader takes in the same way is read."""

import json
from pathlib import Path

import pytest

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents import reading
from kafka_chaos.verification.inputs.documents.checkpoints import read_checkpoints, read_groups

LANES = [Lane.from_json({"lane": "a", "partitions": 2, "group": {}})]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 1}', "key 'a' occurs twice"),
        ('[{"b": {"a": 1, "c": 2, "a": 3}}]', "key 'a' occurs twice"),
        ("[9223372036854775808]", "'9223372036854775808' does not fit 64 bits"),
        ("[-9223372036854775809]", "does not fit 64 bits"),
        ("9" * 5000, "does not fit 64 bits"),
        ("[1e999]", "'1e999' is not valid JSON, expected a finite number"),
        ("[NaN]", "'NaN' is not valid JSON"),
        ("[-Infinity]", "'-Infinity' is not valid JSON"),
        ("[" * 100_000, f"more than {reading.DEEPEST} levels"),
        ("[" * (reading.DEEPEST + 2) + "]" * (reading.DEEPEST + 2), f"more than {reading.DEEPEST} levels"),
        ('{"a":' * (reading.DEEPEST + 2) + "1" + "}" * (reading.DEEPEST + 2), f"more than {reading.DEEPEST} levels"),
        ('"\\ud800"', "half a character"),
        ('{"\\uDFFF": 1}', "half a character"),
        ('["a]', "not valid JSON"),
        ("\ufeff[]", "not valid JSON"),
        ("[] []", "not valid JSON"),
        ("", "not valid JSON"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        ("[]".encode("utf-16"), "not valid JSON"),
    ],
)
def test_what_readers_may_differ_about_is_refused(text: str | bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        reading.parsed(text)


def test_json_that_is_plain_to_everybody() -> None:
    assert reading.parsed(
        b'{"a": [1, -2.5, 9223372036854775807, -9223372036854775808, null, true, "\\ud83d\\ude00"]}'
    ) == {"a": [1, -2.5, 2**63 - 1, -(2**63), None, True, "😀"]}
    wide = [{"a": [[1]]}] * 1000
    assert reading.parsed(json.dumps(wide)) == wide
    deep = "[" * reading.DEEPEST + "]" * reading.DEEPEST
    assert reading.parsed(f'["{"[" * 1000}", {deep}]')[0] == "[" * 1000


def test_a_torn_line_is_left_out_where_it_may_be_torn_and_refused_by_number_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n{"a"')
    assert list(reading.json_lines(path, torn=True)) == [(1, {"a": 1}), (3, {"a": 2})]
    for text, torn in ((path.read_text(), False), ("{}\n{}\n\n[]\n", True)):
        path.write_text(text)
        with pytest.raises(RunDirectoryError) as refused:
            list(reading.json_lines(path, torn=torn))
        assert (refused.value.path, refused.value.column) == (str(path), "line 4")


def test_yaml_is_plain_values() -> None:
    assert type(reading.parsed_yaml(b"a: {b: [1, 2.5]}")) is dict
    with pytest.raises(ValueError, match="not valid YAML"):
        reading.parsed_yaml("a: [")


def test_what_cannot_be_read_is_refused_by_file(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="x: missing"):
        reading.read_object(tmp_path / "x")
    with pytest.raises(RunDirectoryError, match="can't be read"):
        reading.read_object(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunDirectoryError, match="link: missing"):
        read_checkpoints(tmp_path / "link", LANES)


NO_PARTITION = "expected '<lane>/<partition>'"
NO_NUMBER = f"{NO_PARTITION}, with the partition as in 0, 1, … 10"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *((name, NO_PARTITION) for name in ("a", "1", "/0", "/1")),
        *((name, NO_NUMBER) for name in ("a/01", "a/+1", "a/1 ", "a/١", "a/1e0", "a/x", "a/", "a/99999999999")),
        ("b/0", "lane 'b' is not in lanes.json"),
        ("a/2", "lane 'a' has 2 partitions"),
    ],
)
def test_a_key_that_names_no_partition_is_refused_with_its_place(tmp_path: Path, name: str, problem: str) -> None:
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"brokers": {"1": {"a/1": {}, name: {}}}}))
    with pytest.raises(RunDirectoryError) as of_checkpoints:
        read_checkpoints(path, LANES)
    assert str(of_checkpoints.value) == f"{path}: brokers.1.{name}: {problem}"
    path.write_text(json.dumps({"groups": {"a-group": {"a/1": 1, name: 1}}}))
    with pytest.raises(RunDirectoryError) as of_groups:
        read_groups(path, LANES)
    assert str(of_groups.value) == f"{path}: groups.a-group.{name}: {problem}"


def test_a_lane_s_name_may_have_a_slash(tmp_path: Path) -> None:
    assert reading.partition_named(tmp_path, "here", "a/b/0", {"a/b": 1}) == ("a/b", 0)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (3, "a/1: expected an object of high_watermark, log_end_offset"),
        ({"high_watermarks": 3}, "high_watermarks: no such key; they are high_watermark, log_end"),
        ({"high_watermark": -1}, "high_watermark: -1, expected an offset or null"),
        ({"log_end_offset": 1.5}, "log_end_offset: 1.5, expected an offset or null"),
        ({"high_watermark": True}, "True, expected an offset or null"),
        ({"high_watermark": "7"}, "'7', expected an offset or null"),
        ({"leader_epochs": [[0, 0, 0]]}, "expected .*epoch, start_offset"),
        ({"leader_epochs": {"0": 0}}, "expected .*epoch, start_offset"),
    ],
)
def test_checkpoints_hold_offsets(tmp_path: Path, entry: object, problem: str) -> None:
    path = tmp_path / "checkpoints.json"
    path.write_text(json.dumps({"brokers": {"1": {"a/1": entry}}}))
    with pytest.raises(RunDirectoryError, match=problem):
        read_checkpoints(path, LANES)
    path.write_text(json.dumps({"brokers": {"01": {}}}))
    with pytest.raises(RunDirectoryError, match=r"brokers\.01: expected a broker's number"):
        read_checkpoints(path, LANES)


def test_the_epochs_of_a_partition_are_those_of_the_replicas_with_the_newest_one(tmp_path: Path) -> None:
    # Brokers 4 and 5 copied a log from which compaction had removed records: they have epochs later, or not at all.
    chains = {"1": [[0, 0], [2, 7]], "2": [[0, 0], [1, 2], [3, 5]], "3": [[0, 0]]}
    chains |= {"4": [[0, 0], [1, 3], [3, 5]], "5": [[0, 0], [2, 4], [3, 6]]}
    brokers = {
        broker: {"a/0": {"high_watermark": 9, "log_end_offset": 9, "leader_epochs": chain}}
        for broker, chain in chains.items()
    }
    (tmp_path / "checkpoints.json").write_text(json.dumps({"brokers": brokers}))
    expected = ((0, 0), (1, 2), (2, 4), (3, 5))
    assert read_checkpoints(tmp_path / "checkpoints.json", [Lane(lane="a")]).chain == {("a", 0): expected}
