"""Watching an unfinished run: finally the same losses and duplicates as in batch, from a small state."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from generated_histories import LaneShape, lane_tables, write_run

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import HistoryWriter
from kafka_chaos.verification import collect_log, verify
from kafka_chaos.verification.inputs.run_directory import open_run
from kafka_chaos.verification.watch.cli import watch_command
from kafka_chaos.verification.watch.watch import LaneCounts, Watch
from tests.commands import ended
from tests.harness.signals import NOT_IGNORING

pytestmark = pytest.mark.spark

SHAPES = [
    LaneShape(lane="clean", records=6000, partitions=2, info_share=0.02, fail_share=0.02),
    LaneShape(lane="lossy", records=6000, partitions=2, producers=2, lost_tail=70, acks="1"),
    LaneShape(lane="retried", records=6000, retry_share=0.05),
]


def grown(run_dir: Path, part: int, parts: int, source: Path) -> None:
    """The share `part` of `parts` of the source's files, in the order in which they were written."""
    for table in ("produced", "log"):
        (run_dir / table).mkdir(parents=True, exist_ok=True)
        files = sorted((source / table).glob("*.parquet"), key=lambda path: path.stem.rsplit("-", 1)[-1])
        for file in files[len(files) * part // parts : len(files) * (part + 1) // parts]:
            (run_dir / table / file.name).write_bytes(file.read_bytes())


@pytest.mark.slow
def test_counts_are_those_of_batch_though_files_come_one_by_one(tmp_path: Path, spark: Any) -> None:
    lanes = [lane_tables(shape, seed=8) for shape in SHAPES]
    source = write_run(tmp_path / "source", lanes, rows_per_file=1000)
    expected = {lane.lane: lane for lane in verify(source, spark=spark).lanes}
    run_dir = tmp_path / "run"
    known = open_run(source).lanes
    for part in range(3):
        grown(run_dir, part, 3, source)
        # A new watch each time, which continues where the former one ended.
        watch = Watch(spark, run_dir, known, tmp_path / "state", lateness_s=0.0)
        watch.start(once=True).awaitTermination()
    final = watch.final()
    for name, seen in final.lanes.items():
        verdict = expected[name]
        assert seen.lost == verdict.count(Anomaly.LOST_WRITE), name
        assert seen.duplicate == verdict.count(Anomaly.DUPLICATE), name
        assert seen.acknowledged == verdict.acknowledged
    asked_for = {lane.shape.lane: lane.expected for lane in lanes}
    assert final.lanes["lossy"].lost == asked_for["lossy"]["lost_write"] > 0
    assert final.lanes["retried"].duplicate == asked_for["retried"]["duplicate"] > 0
    words = sum(lane.produced["seq"].size for lane in lanes) // 64
    assert final.open_words < words / 2, "clean words are closed, so the state is not the history"


@pytest.mark.slow
def test_a_copy_that_comes_long_after_its_word_was_closed(tmp_path: Path, spark: Any) -> None:
    shape = LaneShape(lane="a", records=640)
    tables = lane_tables(shape)
    run_dir = write_run(tmp_path / "run", [tables])
    watch = Watch(spark, run_dir, open_run(run_dir).lanes, tmp_path / "state", lateness_s=0.0)
    watch.start(once=True).awaitTermination()
    assert (watch.final().lanes["a"], watch.final().open_words) == (LaneCounts(640, 640, 0, 0), 0)
    late = lane_tables(shape)
    late.log["offset"] = late.log["offset"] + 640
    late.log = {name: column[:5] for name, column in late.log.items()}
    write_run(tmp_path / "late", [late])
    (run_dir / "log" / "late.parquet").write_bytes(next((tmp_path / "late" / "log").glob("*")).read_bytes())
    watch = Watch(spark, run_dir, open_run(run_dir).lanes, tmp_path / "state", lateness_s=0.0)
    watch.start(once=True).awaitTermination()
    assert watch.final().lanes["a"] == LaneCounts(640, 645, 0, 5)
    assert verify(run_dir, spark=spark).lane("a").count(Anomaly.DUPLICATE) == 5


@pytest.mark.parametrize("place", [str, pytest.param(Path.as_uri, marks=pytest.mark.slow)], ids=["path", "uri"])
def test_the_command_reports_and_its_exit_code_says_what_is_forbidden(
    tmp_path: Path, spark: Any, place: Callable[[Path], str]
) -> None:
    shape = LaneShape(lane="lossy", records=2000, lost_tail=40, acks="1", permitted=("lost_write",))
    run_dir = write_run(tmp_path / "run", [lane_tables(shape)])
    result = CliRunner().invoke(watch_command, [place(run_dir), "--once", "--json", "--lateness", "0"])
    assert result.exit_code == 0, result.output
    final = json.loads(result.stdout.splitlines()[-1])
    assert final["final"] is True
    assert final["lanes"]["lossy"]["lost"] == 40
    (run_dir / "prediction.json").write_text(
        (run_dir / "prediction.json").read_text().replace("permitted", "forbidden")
    )
    result = CliRunner().invoke(watch_command, [place(run_dir), "--once"])
    assert result.exit_code == 1
    assert "lossy: 2,000 acknowledged, 1,960 in the log, 40 lost, 0 duplicates" in result.output
    (run_dir / "lanes.json").unlink()
    (run_dir / "events.jsonl").unlink(missing_ok=True)
    result = ended(watch_command, place(run_dir), "--once")
    assert (result.exit_code, "it has no lanes.json, so it is not a run directory" in result.output) == (64, True)


@pytest.mark.slow
def test_a_watch_that_read_nothing_does_not_conform(tmp_path: Path, spark: Any) -> None:
    run_dir = write_run(tmp_path / "run", [lane_tables(LaneShape(lane="empty", records=10))])
    for table in ("produced", "log"):
        for file in (run_dir / table).iterdir():
            file.unlink()
    result = CliRunner().invoke(watch_command, [str(run_dir), "--once"])
    assert (result.exit_code, "nothing was read" in result.output) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "code"), [(signal.SIGINT, "permitted", 0), (signal.SIGTERM, "forbidden", 1)]
)
def test_a_signal_ends_it_quietly_with_what_was_found(
    number: signal.Signals, status: str, code: int, tmp_path: Path
) -> None:
    shape = LaneShape(lane="lossy", records=2000, lost_tail=40, acks="1", permitted=("lost_write",))
    run_dir = write_run(tmp_path / "run", [lane_tables(shape)])
    path = run_dir / "prediction.json"
    path.write_text(path.read_text().replace("permitted", status))
    output, errors, returned = interrupted_after_a_batch([str(run_dir), "--lateness", "0"], number)
    assert (returned, errors) == (code, "")
    assert "in the end" in output
    assert ("lost_write is forbidden and was found" in output) == (code == 1)


def interrupted_after_a_batch(arguments: list[str], number: signal.Signals) -> tuple[str, str, int]:
    """Output, errors and exit code of a watch that is sent a signal, with its whole group, after its first batch."""
    with start_watch(arguments) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "acknowledged," in line and "in the log" in line:
                break
        os.killpg(process.pid, number)
        output, errors = process.communicate(timeout=60)
    return "".join(lines) + output, errors, process.returncode


@pytest.mark.slow
def test_a_run_whose_cluster_is_gone_before_all_was_read(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the rest is read from the log that the run kept."""
    monkeypatch.setattr("kafka_chaos.verification.watch.watch._KAFKA_TIMEOUT_MS", "2000")
    run_dir = write_run(tmp_path / "run", [lane_tables(LaneShape(lane="orders", records=2000))])
    started = {"ts_ns": 1, "type": "run_started", "run_id": "r", "experiment": "e", "lanes": ["orders"]}
    ready = {"ts_ns": 2, "type": "cluster_ready", "seconds": 1.0, "bootstrap_servers": "127.0.0.1:1"}
    ended = {"ts_ns": 3, "type": "run_ended", "verdict": "conforms", "seconds": 1.0}
    (run_dir / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in (started, ready)))

    def end_the_run() -> None:
        with (run_dir / "events.jsonl").open("a") as events:
            events.write(json.dumps(ended) + "\n")

    timer = threading.Timer(2.0, end_the_run)
    timer.start()
    try:
        result = CliRunner().invoke(watch_command, [str(run_dir), "--json"])
    finally:
        timer.join()
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.splitlines()[-1])["lanes"]["orders"] == {
        "acknowledged": 2000,
        "stored": 2000,
        "lost": 0,
        "duplicate": 0,
    }
    # Other servers are not the run's: that they do not answer is not made good by log/.
    with pytest.raises(EnvironmentFailure, match="the watch ended"):
        CliRunner().invoke(
            watch_command,
            [str(run_dir), "--once", "--bootstrap-servers", "127.0.0.1:2"],
            catch_exceptions=False,
            standalone_mode=False,
        )


def start_watch(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*NOT_IGNORING, sys.executable, "-m", "kafka_chaos.harness.cli.main", "watch", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


RUN = """\
name: watched
workload: {rate: 300, duration: 30}
lanes:
  - {lane: orders, acks: all, min_insync_replicas: 2, idempotence: true}
"""


@pytest.mark.slow
@pytest.mark.cluster
def test_a_run_that_goes_on_is_found_and_watched_to_its_end(tmp_path: Path) -> None:
    """Twice: the first watch is interrupted, the second ends with the run, having read everything."""
    (tmp_path / "watched.yaml").write_text(RUN)
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "kafka_chaos.harness.cli.main", "run", str(tmp_path / "watched.yaml")]
    with subprocess.Popen([*command, "--out", str(runs), "--json"], stdout=subprocess.PIPE, text=True) as run:
        events = runs / "latest" / "events.jsonl"
        wait_until(lambda: events.exists() and events.read_text(), "the run to start", timeout=60)
        start = time.monotonic()
        with start_watch([str(runs)]) as first:
            assert first.stdout is not None
            assert first.stdout.readline().startswith("the run counts 0 sent")
            assert time.monotonic() - start < 5
            for line in first.stdout:
                if line.startswith("  orders: ") and not line.startswith("  orders: 0 "):
                    break
            os.killpg(first.pid, signal.SIGINT)
            output, errors = first.communicate(timeout=60)
        assert (first.returncode, errors) == (0, "")
        assert "nothing was lost or duplicated that the prediction forbids" in output
        with start_watch([str(runs / "latest"), "--json"]) as second:
            output, errors = second.communicate(timeout=200)
        assert (second.returncode, errors) == (0, "")
        final = json.loads(output.splitlines()[-1])
        printed, _ = run.communicate(timeout=100)
    verdict = json.loads(printed.splitlines()[-1])
    assert (run.returncode, final["final"]) == (0, True)
    seen = final["lanes"]["orders"]
    assert seen["acknowledged"] == seen["stored"] == verdict["lanes"][0]["acknowledged"] > 5_000
    assert (seen["lost"], seen["duplicate"]) == (0, 0)


@pytest.mark.cluster
def test_live_topics_and_a_history_that_grows(
    tmp_path: Path, spark: Any, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    """Ten records deleted from the log are lost, one that is sent again is a duplicate; batch says the same."""
    topic = make_topic()
    lane = Lane(lane=topic, topic=topic)
    (tmp_path / "consumed").mkdir()
    (tmp_path / "lanes.json").write_text(json.dumps({"format_version": 1, "lanes": [lane.to_json()]}))
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}

    def produce(producer_id: int, records: int) -> None:
        writer, reservations = HistoryWriter(tmp_path / "produced"), Reservations(tmp_path)
        producer = RecordedProducer(
            lane=topic,
            topic=topic,
            producer_id=producer_id,
            partitions=1,
            record_size=100,
            configs={**servers, "acks": "all"},
            writer=writer,
            reservations=reservations,
        )
        while producer.sent < records:
            producer.send(min(500, records - producer.sent))
            producer.poll(0)
        assert producer.finish(60, threading.Event()) == 0
        writer.close()
        reservations.close()

    produce(5, 2000)
    admin = AdminClient(servers)
    for deleted in admin.delete_records([TopicPartition(topic, 0, 10)]).values():
        deleted.result(30)
    watch = Watch(spark, tmp_path, [lane], tmp_path / ".watch", cluster.bootstrap_servers, lateness_s=0.0)
    query = watch.start()
    try:
        produce(6, 3000)
        again = Producer(servers)
        again.produce(topic, IdentityCodec(topic, 100).encode(6, 17), None, 0)
        assert again.flush(30) == 0
        expected = LaneCounts(acknowledged=5000, stored=4991, lost=10, duplicate=1)
        wait_until(
            lambda: not query.isActive or (watch.last is not None and watch.last.lanes[topic] == expected),
            "the watch to have seen everything",
            timeout=300,
            seen=lambda: f"{watch.last}, {query.exception()}",
        )
    finally:
        query.stop()
    assert watch.final().lanes[topic] == expected
    collect_log(spark, bootstrap_servers=cluster.bootstrap_servers, lanes=[lane], out_dir=tmp_path / "log")
    verdict = verify(tmp_path, spark=spark).lane(topic)
    assert (verdict.count(Anomaly.LOST_WRITE), verdict.count(Anomaly.DUPLICATE)) == (10, 1)
