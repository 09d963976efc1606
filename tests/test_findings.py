"""The experiments of docs/findings.md: what they show on brokers, and that the verdict names and accepts just that."""

import json
from pathlib import Path
from typing import Any

import implicit_acknowledgement as benchmark
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.lane.metadata import ZOOKEEPER
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.run.runner import run_experiment
from tests.clusters import needs_links

FINDINGS = Path(__file__).parents[1] / "experiments/findings"
ID = "KAFKA-15591"


def on(cluster: str, name: str) -> dict[str, Any]:
    """An experiment's values, with the cluster exchanged."""
    version, mode = cluster.split("/")
    values: dict[str, Any] = YAML(typ="safe").load(FINDINGS / f"{name}.yaml")
    if mode != ZOOKEEPER:
        del values["cluster"]["controller"]
    return {**values, "cluster": {**values["cluster"], "kafka_version": version, "metadata_mode": mode}}


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
@needs_links
@pytest.mark.parametrize("cluster", benchmark.CLUSTERS)
def test_the_first_record_of_a_new_producer_is_acknowledged_and_lost(tmp_path: Path, cluster: str) -> None:
    result = run_experiment(experiment_of(on(cluster, "kafka-15591"), "kafka-15591.yaml"), root=tmp_path)
    fresh, control = result.verdict.lane("fresh"), result.verdict.lane("control")
    assert (fresh.verdict, control.verdict) == (Verdict.VIOLATION, Verdict.CONFORMS), (fresh.reasons, control.reasons)
    assert fresh.observed[Anomaly.LOST_WRITE].count == 1
    (row,) = pq.read_table(result.path / "findings", filters=[("lane", "=", "fresh")]).to_pylist()
    assert (row["anomaly"], row["producer_id"], row["seq"]) == ("lost_write", 1, 0)
    events = map(json.loads, (result.path / "events.jsonl").read_text().splitlines())
    (met,) = [event for event in events if event["type"] == "defect_precondition"]
    assert (met["defect"], met["lane"], met["producer_id"], met["partition"]) == (ID, "fresh", 1, 0)
    assert fresh.known_defects == (ID,)
    assert result.verdict.accepting([ID]).outcome == Verdict.CONFORMS


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_kafka_python_commits_a_transaction_whose_records_have_expired(tmp_path: Path) -> None:
    values = YAML(typ="safe").load(FINDINGS / "kafka-5385.yaml")
    result = run_experiment(experiment_of(values, "kafka-5385.yaml"), root=tmp_path)
    found, control = result.verdict.lane("kafka-python"), result.verdict.lane("java")
    assert (found.verdict, control.verdict) == (Verdict.VIOLATION, Verdict.CONFORMS), (found.reasons, control.reasons)
    assert {one for one, seen in found.observed.items() if seen.count} == {TransactionAnomaly.LOST_TRANSACTION}
    assert found.known_defects == ("KAFKA-5385",)
    assert result.verdict.accepting(["KAFKA-5385"]).outcome == Verdict.CONFORMS


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "verdict"), [("2.4.1", Verdict.VIOLATION), ("2.8.2", Verdict.CONFORMS)], ids=["2.4.1", "2.8.2"]
)
def test_a_clock_that_goes_back_blocks_transactional_ids_before_2_5(
    tmp_path: Path, version: str, verdict: Verdict
) -> None:
    values: dict[str, Any] = YAML(typ="safe").load(FINDINGS / "kafka-8803.yaml")
    values["cluster"]["kafka_version"] = version
    (lane,) = run_experiment(experiment_of(values, "kafka-8803.yaml"), root=tmp_path).verdict.lanes
    assert lane.verdict is verdict, lane.reasons
    if verdict is Verdict.VIOLATION:
        stalls = (RecoveryAnomaly.STALLED_PRODUCER, RecoveryAnomaly.TRANSACTION_NOT_ENDED)
        assert all(lane.observed[anomaly].count for anomaly in stalls)
        assert lane.known_defects == ("KAFKA-8803",)
        assert lane.accepting(["KAFKA-8803"]).outcome is Verdict.CONFORMS
    else:
        assert lane.produced >= 15_000


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_consumers_without_leader_epochs_miss_records_and_their_defects_are_named(tmp_path: Path) -> None:
    defects = {"sarama": "sarama-2365", "aiokafka": "aiokafka-kip-320", "kafka-python": "kafka-python-2978"}
    values = YAML(typ="safe").load(FINDINGS / "kip-320.yaml")
    verdict = run_experiment(experiment_of(values, "kip-320.yaml"), root=tmp_path).verdict
    assert verdict.lane("librdkafka").verdict is Verdict.CONFORMS
    # A consumer that was slow had not read what was replaced.
    missed = {name: lane for name in defects if (lane := verdict.lane(name)).verdict is Verdict.VIOLATION}
    assert missed
    assert {name: lane.known_defects for name, lane in missed.items()} == {name: (defects[name],) for name in missed}


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
@needs_links
def test_a_consumer_of_aiokafka_asks_the_old_leader_again_and_again(tmp_path: Path) -> None:
    values = YAML(typ="safe").load(FINDINGS / "aiokafka-list-offsets.yaml")
    verdict = run_experiment(experiment_of(values, "aiokafka-list-offsets.yaml"), root=tmp_path).verdict
    found, control = verdict.lane("aiokafka"), verdict.lane("kafka-python")
    assert (found.verdict, control.verdict) == (Verdict.VIOLATION, Verdict.CONFORMS), (found.reasons, control.reasons)
    assert {anomaly for anomaly, seen in found.observed.items() if seen.count} == {RecoveryAnomaly.STALLED_CONSUMER}
