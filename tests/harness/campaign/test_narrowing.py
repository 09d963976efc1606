"""A lane with a finding is compared with lanes that differ in one setting, in the same runs, and told in a draft."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.harness.campaign.loop import Budget
from kafka_chaos.harness.campaign.narrowing import Narrowing
from kafka_chaos.harness.campaign.record import Finding
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from tests.harness.campaign import runs
from tests.harness.campaign.runs import write_run

LANES = [
    {"lane": "fast", "acks": "all", "idempotence": True, "producer_configs": {"message.timeout.ms": 5000}},
    {"lane": "other", "acks": "1"},
]
FAST = Finding("fast", Anomaly.DUPLICATE)
USUAL = "[2026-11-25 07:00:01,000] INFO all is well, 1 record (Log)\n"


class Cluster:
    """Stands in for runs: an idempotent lane with this config duplicates during a kill, if `company` is beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.company: str | None = None
        self.runs: list[Experiment] = []

    def __call__(self, experiment: Experiment, root: Path, listeners: Any) -> Any:
        self.runs.append(experiment)
        phase = experiment.phases[0]
        kills = any(entry.fault == "kill" for entry in phase.schedule)
        may = kills and self.company in (None, *(lane.lane for lane in phase.lanes))
        found = {"duplicate": {"count": 3, "status": "forbidden"}}
        lanes = [
            {"lane": lane.lane, "anomalies": found if may and lane.idempotence and lane.producer_configs else {}}
            for lane in phase.lanes
        ]
        path = self.root / f"run-{len(self.runs)}"
        (path / "logs").mkdir(parents=True)
        odd = "[2026-11-25 07:00:02,000] WARN renewing epoch 4 (Producer)\n" if kills else ""
        (path / "logs" / "broker-1.log").write_text(USUAL + odd)
        return SimpleNamespace(path=path, verdict=SimpleNamespace(to_json=lambda: {"lanes": lanes}))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path)
    phase = {**runs.EXPERIMENT["phases"][0], "lanes": LANES}  # type: ignore[index]
    monkeypatch.setattr(runs, "EXPERIMENT", {**runs.EXPERIMENT, "phases": [phase]})
    return cluster


def _narrowing(tmp_path: Path, cluster: Cluster) -> Narrowing:
    run = write_run(tmp_path / "run")
    return Narrowing(run, FAST, tmp_path, Budget(60), lambda _: None, repeats=4, run_experiment=cluster)


def test_one_lane_is_left_and_controls_differ_in_one_setting(tmp_path: Path, cluster: Cluster) -> None:
    one = _narrowing(tmp_path, cluster)
    assert one.narrow()
    assert [entry["fault"] for entry in one.schedule] == ["kill"]
    assert {what: one.hits[name] for name, what in one.controls.items()} == {
        "one request in flight": 4, "the client's own configs": 0, "no idempotence": 0,
    }  # fmt: skip
    assert (one.hits["fast"], one.run_count) == (4, 4)
    # All odds are of the same runs, with as much load as the one without faults.
    compared, quiet = cluster.runs[-5:-1], cluster.runs[-1]
    assert {tuple(lane.lane for lane in run.phases[0].lanes) for run in compared} == {
        ("fast", "control-1", "control-2", "control-3")
    }
    assert (quiet.phases[0].schedule, quiet.phases[0].workload) == ((), compared[0].phases[0].workload)


def test_the_experiment_has_the_nearest_control_and_the_draft_tells_odds_steps_and_new_lines(
    tmp_path: Path, cluster: Cluster
) -> None:
    one = _narrowing(tmp_path, cluster)
    assert one.narrow()
    draft = one.write(tmp_path / "fast-duplicate.yaml").read_text()
    written = load_experiment(tmp_path / "fast-duplicate.yaml").phases[0]
    assert [(lane.lane, lane.producer_configs) for lane in written.lanes] == [
        ("fast", {"message.timeout.ms": 5000}),
        ("control-2", {}),
    ]
    for text in (
        "# duplicate: one record at two or more offsets",
        "| client | librdkafka ",
        "acks=all, enable.idempotence=true, 5 requests in flight at most, message.timeout.ms=5000 |",
        "1. 2.0 s after the load began: `kill` of `broker:2` for 0.5 s.",
        "kafka-chaos run fast-duplicate.yaml",
        "| fast | 4 of 4 runs |",
        "| the same with the client's own configs | 0 of 4 runs |",
        "| fast without faults | 0 of 1 run |",
        "WARN renewing epoch 4 (Producer)",
    ):
        assert text in draft
    assert "all is well" not in draft
    assert "replication_factor: 3" not in draft, "a default"


def test_what_does_not_show_again_is_not_compared(tmp_path: Path, cluster: Cluster) -> None:
    cluster.company = "nobody"
    assert not _narrowing(tmp_path, cluster).narrow()
    assert len(cluster.runs) == 10
