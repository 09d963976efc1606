"""`kafka-chaos verify`: exit codes, what is printed, what is left behind."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafka_chaos.verification import submit, verify
from kafka_chaos.verification.cli import verify_command
from tests.commands import ended
from tests.verification.samples.run_dirs import prediction, rows_of

DUCKDB = ("--engine", "duckdb")
NO_SESSION: Any = object()
"""In place of a session of Spark: whatever is asked of it fails."""


def test_duckdb_starts_no_jvm_and_says_that_it_judged(tmp_path: Path) -> None:
    run_dir = rows_of(20).write(tmp_path / "run")
    heavy = ("pyspark", "py4j", "confluent_kafka", "jinja2", "docker", "kazoo", "pydantic", "ruamel")
    code = f"""
import sys
from kafka_chaos.harness.cli.main import cli
try:
    cli(["verify", "--engine", "duckdb", {str(run_dir)!r}], standalone_mode=False)
finally:
    sys.exit(", ".join(name for name in {heavy} if name in sys.modules) or 0)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "s, engine duckdb)" in " ".join(ended.stdout.split())
    assert json.loads((run_dir / "verdict.json").read_text())["engine"] == "duckdb"


def test_a_master_of_spark_is_refused_by_duckdb(tmp_path: Path) -> None:
    result = ended(verify_command, *DUCKDB, "--spark-master", "local[1]", rows_of(3).write(tmp_path / "run"))
    assert result.exit_code == 64
    assert "--spark-master is for the engine spark, not for duckdb" in result.output


def test_what_duckdb_does_not_reach_is_refused() -> None:
    result = ended(verify_command, *DUCKDB, "s3a://bucket/run")
    assert result.exit_code == 64
    assert "s3a://bucket/run: the engine duckdb reads local directories only: use spark" in result.output


def test_an_unknown_engine_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    result = ended(verify_command, "--engine", "plain", rows_of(3).write(tmp_path / "run"))
    assert result.exit_code == 64
    assert "'plain' is not one of 'spark', 'duckdb'" in result.output


def test_without_pyspark_or_java_it_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = rows_of(3).write(tmp_path / "run")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delitem(sys.modules, "pyspark.sql", raising=False)
    result = ended(verify_command, run_dir)
    assert (result.exit_code, "Spark needs Java 17 or later: install a JRE" in result.output) == (3, True)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    result = ended(verify_command, run_dir)
    assert (result.exit_code, "pip install 'kafka-chaos[spark]', or choose the engine" in result.output) == (3, True)
    assert ended(verify_command, *DUCKDB, run_dir).exit_code == 0


def test_an_engine_that_crashes_leaves_no_verdict(tmp_path: Path) -> None:
    run_dir = rows_of(3).write(tmp_path / "run")
    (run_dir / "verdict.json").write_text("{}")
    with pytest.raises(AttributeError, match="conf"):
        verify(run_dir, spark=NO_SESSION)
    assert not (run_dir / "verdict.json").exists()


def test_several_directories_and_the_worst_exit_code(tmp_path: Path) -> None:
    conforming = rows_of(20).write(tmp_path / "conforming")
    lossy = rows_of(20)
    # The model permits a loss to such a lane; what prediction.json forbids besides counts.
    lossy.lanes = [{"lane": "a", "acks": "1", "faults": ["pause", "kill"]}]
    lossy.send(20, 20).send(21, None, "info").store(20, 21).read(20, 21)
    violating = lossy.write(tmp_path / "violating")
    lossy.prediction = prediction(["a"], lost_write="permitted", inconsistent_offset="permitted")
    permitted = lossy.write(tmp_path / "permitted")
    unread = rows_of(20)
    unread.consumed.pop()
    unknown = unread.write(tmp_path / "unknown")

    def exit_code(*folders: Path) -> int:
        return CliRunner().invoke(verify_command, [*DUCKDB, "--quiet", *map(str, folders)]).exit_code

    assert exit_code(conforming, permitted) == 0
    assert exit_code(conforming, unknown) == 2
    assert exit_code(unknown, violating, conforming) == 1

    result = CliRunner().invoke(verify_command, [*DUCKDB, "--json", str(violating)])
    answer = json.loads(result.stdout)
    written = json.loads((violating / "verdict.json").read_text())
    assert answer == {"run_dir": str(violating), **written}
    assert written["lanes"][0]["anomalies"]["lost_write"] == {
        "count": 1,
        "status": "forbidden",
        "examples": [{"partition": 0, "offset": 20, "producer_id": 0, "seq": 20}],
        "causes": {"unobserved": 1},
    }
    findings = pq.read_table(violating / "findings").to_pylist()
    assert {row["anomaly"] for row in findings} == {"lost_write", "inconsistent_offset"}
    assert sorted(path.name for path in violating.iterdir() if path.name.startswith(".")) == []


def test_the_table_tells_what_was_found_and_why(tmp_path: Path) -> None:
    lossy = rows_of(20)
    lossy.send(20, 20)
    result = CliRunner(env={"COLUMNS": "160"}).invoke(verify_command, [*DUCKDB, str(lossy.write(tmp_path / "run"))])
    assert result.exit_code == 1
    assert "lost_write 1 (forbidden)" in result.output
    assert "a: lost_write is forbidden and was found: 1" in result.output
    assert "left out: no replicas/: replicas are not compared" in result.output


def test_a_lane_without_all_its_evidence_has_a_line(tmp_path: Path) -> None:
    rows = rows_of(20)
    for offset in range(20):
        rows.replica(1, offset, offset)
    result = CliRunner(env={"COLUMNS": "160"}).invoke(verify_command, [*DUCKDB, str(rows.write(tmp_path / "run"))])
    assert result.exit_code == 2
    assert "a: incomplete evidence; not judged: replica_divergence" in result.output
    assert "partition 0: replicas/ holds records of 1 of 3 replicas" in result.output


@pytest.mark.spark
@pytest.mark.slow
def test_what_is_submitted_ends_with_the_exit_codes_of_the_command(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exit_code(*arguments: str) -> Any:
        monkeypatch.setattr(sys, "argv", ["submit.py", *arguments])
        with pytest.raises(SystemExit) as end:
            submit.main()
        return end.value.code

    run_dir = rows_of(20).write(tmp_path / "run")
    assert exit_code("--quiet", str(run_dir)) == 0
    assert exit_code("--no-such-option") == 64
    assert exit_code(str(tmp_path / "nowhere")) == 64
    monkeypatch.setattr("kafka_chaos.verification.engines.spark_engine.Spark.read", lambda *_: 1 / 0)
    assert exit_code("--quiet", str(run_dir)) == 70
    assert not (run_dir / "verdict.json").exists()
