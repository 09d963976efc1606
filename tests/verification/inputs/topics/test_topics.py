"""Histories judged against a cluster's topics as they are now, and the same from run directories and tables."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.verification import verify, verify_frames, verify_topics
from kafka_chaos.verification.cli import verify_command
from kafka_chaos.verification.inputs.file_systems.storage import write_parquet
from kafka_chaos.verification.inputs.run_directory import open_run
from kafka_chaos.verification.inputs.topics.kafka_log import topic_log
from tests.verification.samples.run_dirs import Rows, read_cases

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

RECORDS = 60


def written(folder: Path, topics: list[str], servers: dict[str, str]) -> Path:
    """A run directory without log/: a lane per topic, whose records were produced to it and read back."""
    producer = Producer({**servers, "acks": "all", "enable.idempotence": True})
    rows = Rows(lanes=[{"lane": f"lane-{topic}", "topic": topic} for topic in topics], log=None)
    for topic in topics:
        lane = f"lane-{topic}"
        for seq in range(RECORDS):
            producer.produce(topic, IdentityCodec(lane, 100).encode(0, seq), b"key", 0)
            rows.all(seq, seq, lane=lane)
    assert producer.flush(30) == 0
    return rows.write(folder)


@pytest.mark.slow
def test_topics_are_judged_as_they_are_now_and_tables_and_files_agree(
    tmp_path: Path, spark: Any, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    kept, cut = make_topic(), make_topic()
    run_dir = written(tmp_path / "run", [kept, cut], servers)

    def judged() -> tuple[int, dict[str, dict[str, int]]]:
        """The exit code, and by topic what was found: in all three ways."""
        result = CliRunner().invoke(verify_command, ["--topics", cluster.bootstrap_servers, "--json", str(run_dir)])
        live = json.loads(result.stdout)
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run_dir, copy, ignore=shutil.ignore_patterns("findings", "verdict.json"))
        lanes = open_run(copy).lanes
        log = topic_log(spark, bootstrap_servers=cluster.bootstrap_servers, lanes=lanes)
        write_parquet(log, copy / "log")
        stored = verify(copy, spark=spark)
        assert read_cases(copy) == read_cases(run_dir)
        for name in ("produced", "consumed", "log"):
            frame = spark.read.parquet(str(copy / name))
            frame.write.mode("overwrite").option("path", str(tmp_path / "tables" / name)).saveAsTable(f"t_{name}")
        tables = {name: spark.table(f"t_{name}") for name in ("produced", "consumed", "log")}
        from_tables = verify_frames(**tables, lanes=lanes, metadata=run_dir)
        assert live["verdict"] == stored.verdict == from_tables.verdict
        for verdict in (stored, from_tables):
            assert live["lanes"] == json.loads(json.dumps([lane.to_json() for lane in verdict.lanes]))
        counts = [{name: found["count"] for name, found in lane["anomalies"].items()} for lane in live["lanes"]]
        return result.exit_code, dict(zip((kept, cut), counts, strict=True))

    assert judged() == (0, {kept: {}, cut: {}})
    foreign = Producer(servers)
    foreign.produce(kept, b"nobody's", None, 0)
    assert foreign.flush(30) == 0
    assert judged() == (1, {kept: {"phantom": 1}, cut: {}})
    admin = AdminClient(servers)
    for deleted in admin.delete_records([TopicPartition(cut, 0, 10)]).values():
        deleted.result(30)
    assert judged() == (1, {kept: {"phantom": 1}, cut: {"lost_write": 10, "truncated_read": 10}})


@pytest.mark.slow
def test_a_topic_that_does_not_exist_is_neither_judged_nor_created(
    tmp_path: Path, spark: Any, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    run_dir = written(tmp_path / "run", [make_topic()], servers)
    lanes = json.loads((run_dir / "lanes.json").read_text())
    lanes["lanes"][0]["topic"] = "nowhere"
    (run_dir / "lanes.json").write_text(json.dumps(lanes))
    (run_dir / "verdict.json").write_text("{}")
    with pytest.raises(EnvironmentFailure, match=r"nowhere|UnknownTopicOrPartition"):
        verify_topics(run_dir, bootstrap_servers=cluster.bootstrap_servers, spark=spark)
    assert not (run_dir / "verdict.json").exists()
    assert "nowhere" not in AdminClient(servers).list_topics(timeout=20).topics
