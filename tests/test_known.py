"""The experiments of known defects, on brokers: what each shows, and that the verdict names and accepts just that."""

import json
from pathlib import Path
from typing import Any

import implicit_acknowledgement as benchmark
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.lane.metadata import ZOOKEEPER
from kafka_chaos.harness.cli.known_command import KNOWN, known_defects, show
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.runner import require_available, run_experiment
from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS
from kafka_chaos.verification import RunVerdict
from tests.clusters import needs_links

ID = "KAFKA-15591"
MINUTES = 4
CERTAIN = [id for id, (_, head) in known_defects().items() if head.shown == head.runs and head.minutes <= MINUTES]
IN_MODEL = {id.lower(): id for id in KNOWN_DEFECTS}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("id", CERTAIN)
def test_a_defect_that_every_run_has_shown_is_shown_and_named(tmp_path: Path, id: str) -> None:
    verdicts: list[RunVerdict] = []

    def run(experiment: Experiment) -> RunVerdict:
        try:
            require_available(experiment)
        except EnvironmentFailure as failure:
            pytest.skip(str(failure))
        verdicts.append(run_experiment(experiment, root=tmp_path, engine=Engine.DUCKDB).verdict)
        return verdicts[-1]

    shown = show(KNOWN / f"{id}.yaml", run)
    assert shown.is_shown, shown.lines
    named = {defect for lane in shown.affected.lanes for defect in lane.known_defects}
    if id in IN_MODEL and shown.affected.verdict is Verdict.VIOLATION:
        assert IN_MODEL[id] in named
        assert verdicts[0].accepting(named).outcome is Verdict.CONFORMS


def on(cluster: str, name: str) -> dict[str, Any]:
    """An experiment's values, with the cluster exchanged."""
    version, mode = cluster.split("/")
    values: dict[str, Any] = YAML(typ="safe").load(KNOWN / f"{name}.yaml")
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
