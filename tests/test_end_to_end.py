"""The whole path on a real cluster. A verdict does not conform by luck: planted findings change it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.verification import spark_session
from tests.harness.leftovers import left_of
from tests.verification.samples.engines import assert_both_agree

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SMALL = Path(__file__).parent / "harness" / "run" / "small.yaml"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    experiment = load_experiment(SMALL)
    return run_experiment(experiment, root=tmp_path_factory.mktemp("runs"), engine=Engine.DUCKDB)


@pytest.fixture
def copy_of_run(finished: RunResult, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished.path, tmp_path / "run"))


def verify(run: Path) -> tuple[int, dict[str, dict[str, int]]]:
    result = CliRunner().invoke(cli, ["verify", str(run), "--quiet", "--engine", "duckdb"])
    return result.exit_code, counts_in(run)


def counts_in(run: Path) -> dict[str, dict[str, int]]:
    """The findings of each lane. The lane with acks=1 may have some that it permits: its leader was frozen."""
    lanes = json.loads((run / "verdict.json").read_text())["lanes"]
    return {lane["lane"]: {name: seen["count"] for name, seen in lane["anomalies"].items()} for lane in lanes}


def change(folder: Path, edit: Callable[[list[dict[str, object]]], list[dict[str, object]]]) -> None:
    """Rewrite all rows of a table of the run directory."""
    files = sorted(folder.glob("*.parquet"))
    table = pa.concat_tables(pq.read_table(file) for file in files)
    for file in files:
        file.unlink()
    pq.write_table(pa.Table.from_pylist(edit(table.to_pylist()), schema=table.schema), folder / "edited.parquet")


def test_the_run_conforms_and_leaves_the_contract_s_files_and_no_container(finished: RunResult) -> None:
    assert finished.verdict.verdict is Verdict.CONFORMS
    names = {path.name for path in finished.path.iterdir()}
    assert {
        "experiment.yaml", "lanes.json", "produced", "consumed", "log", "logs", "events.jsonl", "prediction.json",
        "findings", "verdict.json", "report.html",
    } <= names  # fmt: skip
    assert not [name for name in names if name.startswith((".", "reservations"))]
    assert (finished.path.parent / "latest").resolve() == finished.path.resolve()
    for lane in finished.verdict.lanes:
        assert lane.produced == lane.acknowledged > 1000
        assert lane.consumed >= lane.produced - (lane.count(Anomaly.LOST_WRITE) or 0)
        assert lane.count(Anomaly.LOST_WRITE) is not None
    assert left_of(finished.path.name) == []


def test_every_broker_s_replicas_hold_the_final_log_and_end_at_its_high_watermark(finished: RunResult) -> None:
    columns = ["lane", "partition", "offset", "producer_id", "seq"]
    log = sorted(
        map(tuple, (row.values() for row in pq.read_table(finished.path / "log", columns=columns).to_pylist()))
    )
    reported = json.loads((finished.path / "checkpoints.json").read_text())["brokers"]
    assert set(reported) == {"1", "2", "3"}
    for broker, partitions in reported.items():
        rows = pq.read_table(finished.path / "replicas" / f"broker-{broker}.parquet").to_pylist()
        assert {row["broker"] for row in rows} == {int(broker)}
        assert sorted(tuple(row[name] for name in columns) for row in rows) == log
        assert set(partitions) == {"acks1/0", "idempotent/0", "idempotent/1"}
        for place, marks in partitions.items():
            lane, _, partition = place.partition("/")
            end = sum(row[:2] == (lane, int(partition)) for row in log)
            assert (marks["high_watermark"], marks["log_end_offset"]) == (end, end)
            epochs = {row["leader_epoch"] for row in rows if (row["lane"], row["partition"]) == (lane, int(partition))}
            assert epochs <= {epoch for epoch, _ in marks["leader_epochs"]}


def test_the_events_tell_of_the_fault_and_its_proof(finished: RunResult) -> None:
    events = [json.loads(line) for line in (finished.path / "events.jsonl").read_text().splitlines()]
    fault = [event for event in events if event["type"].startswith("fault_")]
    assert [event["type"] for event in fault] == ["fault_requested", "fault_proven", "fault_healed"]
    assert fault[0]["resolved"] == ["broker-1"]
    assert fault[1]["evidence"]["broker-1"]["Paused"] is True
    elected = [event for event in events if event["type"] == "leader_elected"]
    assert {event["lane"] for event in elected} == {"acks1", "idempotent"}


def test_an_untouched_copy_verifies_the_same(copy_of_run: Path) -> None:
    before = counts_in(copy_of_run)
    assert before["idempotent"] == {}
    assert verify(copy_of_run) == (0, before)


def test_a_planted_loss_is_a_violation(copy_of_run: Path) -> None:
    before = counts_in(copy_of_run)
    change(copy_of_run / "log", lambda rows: [r for r in rows if (r["lane"], r["seq"]) != ("idempotent", 100)])
    code, counts = verify(copy_of_run)
    assert code == 1
    assert counts["idempotent"]["lost_write"] == 1
    assert counts["acks1"] == before["acks1"]
    finding = next(row for row in pq.read_table(copy_of_run / "findings").to_pylist() if row["anomaly"] == "lost_write")
    # Whoever led after its acknowledgement had it.
    assert finding["cause"].startswith("unexplained: no later leader began at or below it")


def test_both_engines_find_the_same_in_it(copy_of_run: Path) -> None:
    """Lost, altered and read elsewhere: by Spark as by DuckDB."""
    change(copy_of_run / "log", lambda rows: [r for r in rows if (r["lane"], r["seq"]) != ("idempotent", 100)])
    change(copy_of_run / "log", lambda rows: [r | {"key": "b"} if r["seq"] == 200 else r for r in rows])
    change(copy_of_run / "consumed", lambda rows: [r | {"offset": 10**6} if r["seq"] == 300 else r for r in rows])
    assert_both_agree(copy_of_run, spark=spark_session())
    assert len({anomaly for found in counts_in(copy_of_run).values() for anomaly in found}) > 3


def test_a_proof_that_is_missing_makes_the_verdict_unknown(copy_of_run: Path) -> None:
    path = copy_of_run / "events.jsonl"
    lines = [line for line in path.read_text().splitlines() if '"fault_proven"' not in line]
    path.write_text("".join(f"{line}\n" for line in lines))
    assert verify(copy_of_run)[0] == 2
