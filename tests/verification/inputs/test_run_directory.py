"""Bad input is refused by file and column before anything is written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.verification import RunDirectoryError
from kafka_chaos.verification.inputs.documents.predictions import GivenPrediction
from kafka_chaos.verification.inputs.run_directory import open_run
from tests.verification.samples.run_dirs import Rows, rows_of


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return rows_of(10).write(tmp_path / "run")


def rewrite(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(file)), file)


def first(run_dir: Path, table: str) -> Path:
    return next((run_dir / table).glob("*.parquet"))


def renamed(old: str, new: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.rename_columns([new if name == old else name for name in table.column_names])


def cast(name: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index(name), name, table.column(name).cast(kind))

    return change


@pytest.mark.parametrize(
    ("table", "change", "column", "message"),
    [
        ("produced", lambda t: t.drop_columns(["seq"]), "seq", "missing"),
        ("produced", renamed("seq", "sequence"), "seq", "'sequence'"),
        ("produced", renamed("offset", "offsett"), "offsett", "did you mean 'offset'"),
        ("consumed", cast("offset", pa.int32()), "offset", "expected int64"),
        ("consumed", cast("poll_ns", pa.timestamp("ns")), "poll_ns", "expected int64"),
        ("produced", cast("producer_id", pa.string()), "producer_id", "expected int32"),
        ("log", cast("partition", pa.uint32()), "partition", "expected int32"),
    ],
)
def test_columns_outside_the_contract(
    run_dir: Path, table: str, change: Callable[[pa.Table], pa.Table], column: str, message: str
) -> None:
    file = first(run_dir, table)
    rewrite(file, change)
    with pytest.raises(RunDirectoryError, match=message) as refusal:
        open_run(run_dir)
    assert refusal.value.column == column
    assert refusal.value.path == str(file)


def test_one_file_of_another_schema(run_dir: Path) -> None:
    odd = run_dir / "consumed" / "zz.parquet"
    pq.write_table(cast("seq", pa.int32())(pq.read_table(first(run_dir, "consumed"))), odd)
    with pytest.raises(RunDirectoryError) as refusal:
        open_run(run_dir)
    assert refusal.value.path == str(odd)


def test_a_truncated_file(run_dir: Path) -> None:
    file = first(run_dir, "produced")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(RunDirectoryError, match="not a whole Parquet file"):
        open_run(run_dir)


def test_a_nullable_column_may_be_missing(run_dir: Path) -> None:
    rewrite(first(run_dir, "produced"), lambda table: table.drop_columns(["key", "error"]))
    assert open_run(run_dir).tables["produced"].rows == 10


def lanes(*given: dict[str, Any], version: int = 1) -> str:
    return json.dumps({"format_version": version, "lanes": given})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lanes.json", "{", "not valid JSON"),
        ("lanes.json", "[]", r": \(top level\): expected an object$"),
        ("lanes.json", '{"format_version": 4, "lanes": []}', ": format_version: is 4, expected 1 or 2 or 3$"),
        ("lanes.json", '{"format_version": true, "lanes": []}', ": format_version: is True, expected 1 or 2 or 3$"),
        ("lanes.json", '{"format_version": 1, "lanes": []}', ": lanes: expected a list of at least one lane$"),
        ("lanes.json", '{"format_version": 1, "lanes": {"a": 1}}', ": lanes: expected a list of at least one lane$"),
        ("lanes.json", '{"format_version": 1, "lanes": [3]}', r": lanes\[0\]: expected an object$"),
        ("lanes.json", '{"format_version": 1, "lanes": [{"lane": "a", "acks": "2"}]}', r": lanes\[0\]\.acks: acks"),
        ("lanes.json", lanes({"lane": "a"}, {"lane": "a"}), r"1\]\.lane: 'a' is named twice$"),
        ("lanes.json", lanes({"lane": "a"}, {"lane": "b", "loop": {"source": "z", "offsets": "after"}}, version=2),
         r": lanes\[1\]\.loop\.source: 'z' is no lane; they are a, b$"),
        ("lanes.json", lanes({"lane": "a", "idempotence": True, "transactional": {}}),
         ": format_version: is 1, expected 2: lane 'a' has transactions or a group$"),
        ("prediction.json", '{"format_version": 1, "lanes": {"z": {"anomalies": {}}}}',
         ": lanes.z: no such lane; they are a"),
        ("events.jsonl", '{"ts_ns": 1, "type": "x"}\n{"type": "x"}\n', "line 2"),
        ("events.jsonl", "[]\n", ": line 1: .*expected a JSON object per line$"),
        ("events.jsonl", "nonsense\n", ": line 1: .*not valid JSON"),
        ("timings.json", '{"format_version": 1, "lanes": {"b": {}}}', r": lanes\.b: no such lane"),
        ("timings.json", '{"format_version": 1, "lanes": {"a": {}}}', r": lanes\.a: .*timings\.session_ms"),
        ("timings.json", '{"format_version": 1, "lanes": {"a": {"sesion_ms": 1}}}', r": lanes\.a: .*sesion_ms"),
        ("timings.json", '{"format_version": 1, "lanes": []}', ": lanes: expected an object of lanes"),
    ],
)  # fmt: skip
def test_bad_json(run_dir: Path, name: str, text: str, message: str) -> None:
    (run_dir / name).write_text(text)
    with pytest.raises(RunDirectoryError, match=message) as refusal:
        open_run(run_dir)
    assert refusal.value.path == str(run_dir / name)


def test_a_lockstep_phase_is_predicted_by_its_steps_whether_or_not_a_prediction_has_them(run_dir: Path) -> None:
    (run_dir / "prediction.json").unlink()
    assert open_run(run_dir).predictions == {}
    parameters = {"steps": ["cut-replication", "append"]}
    event: dict[str, Any] = {"ts_ns": 1, "type": "fault_requested", "fault_id": "p/lockstep", "lanes": ["a"]}
    event |= {"kind": "lockstep", "parameters": parameters}
    (run_dir / "events.jsonl").write_text(json.dumps(event))
    assert open_run(run_dir).predictions == {}
    proven = {"ts_ns": 2, "type": "fault_proven", "fault_id": "p/lockstep"}
    (run_dir / "events.jsonl").write_text(json.dumps(event) + "\n" + json.dumps(proven))
    assert open_run(run_dir).predictions == {"a": GivenPrediction(steps=("cut-replication", "append"))}
    (run_dir / "prediction.json").write_text('{"format_version": 1, "lanes": {"a": {"anomalies": {}}}}')
    assert open_run(run_dir).predictions == {"a": GivenPrediction(steps=("cut-replication", "append"))}
    (run_dir / "events.jsonl").write_text(json.dumps(event | {"kind": "mine", "parameters": {"steps": 5}}))
    assert open_run(run_dir).predictions == {"a": GivenPrediction()}


def test_missing_parts(tmp_path: Path, run_dir: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"nowhere: no such directory, expected a run directory$"):
        open_run(tmp_path / "nowhere")
    assert open_run(run_dir).place("log") == run_dir / "log"
    assert open_run(run_dir).place("log", "part-7.parquet") == run_dir / "log" / "part-7.parquet"
    (run_dir / "lanes.json").unlink()
    with pytest.raises(RunDirectoryError, match=r"lanes\.json: missing"):
        open_run(run_dir)


@pytest.mark.parametrize(
    "name",
    [
        *("_log", ".log", "log.bak", "LOG", "log-2", "log "),
        *(".events.jsonl", "events.jsonl~", "Events.jsonl.orig", "event.jsonl", "events.json"),
    ],
)
def test_what_only_looks_like_a_part_of_the_run_is_refused(run_dir: Path, name: str) -> None:
    shutil.move(run_dir / "log", run_dir / "other")
    path = run_dir / name
    path.write_text("") if "event" in name.lower() else path.mkdir()
    with pytest.raises(RunDirectoryError, match=r"looks like (log|events\.jsonl), which is missing") as refusal:
        open_run(run_dir)
    assert refusal.value.path == str(path)
    (run_dir / "log").mkdir()
    (run_dir / "events.jsonl").write_text("")
    open_run(run_dir)


@pytest.mark.parametrize(
    "name", ["logs/", "log.txt", "log4j/", "my-log/", ".groups.json.0123abcd.part", "prediction.txt"]
)
def test_other_names_are_left_alone(run_dir: Path, name: str) -> None:
    shutil.move(run_dir / "log", run_dir / "other")
    path = run_dir / name
    path.mkdir() if name.endswith("/") else path.write_text("")
    open_run(run_dir)


@pytest.mark.parametrize("missing", ["transactions", "assignments"])
def test_a_transactional_lane_needs_its_tables(tmp_path: Path, missing: str) -> None:
    lane = {"lane": "a", "idempotence": True, "transactional": {"size": 3}}
    rows = Rows(lanes=[lane], transactions=[], assignments=[]).all(0, 0)
    setattr(rows, missing, None)
    problem = f"run/{missing}: missing, expected rows of lane 'a', which has transactions or a group$"
    with pytest.raises(RunDirectoryError, match=problem):
        open_run(rows.write(tmp_path / "run"))
