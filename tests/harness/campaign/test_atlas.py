from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.campaign.atlas import Atlas
from kafka_chaos.harness.campaign.cells import PAGE, TABLE, cells_of, write_pages
from kafka_chaos.harness.campaign.commands import STANDARD_PLAN
from kafka_chaos.harness.campaign.record import Cell
from kafka_chaos.harness.clients.kinds import ClientKind
from tests.harness.campaign.lanes import STRICT, lane_run

PLAN = """\
clusters: [3.9.1/zookeeper, 4.3.1/kraft]
clients: [librdkafka, sarama]
lanes:
  - {acks: all, idempotence: true, min_insync_replicas: 2}
  - {acks: "1"}
families:
  kill: [{fault: kill, target: "broker:1", at: 1, duration: 2}]
  both:
    - {fault: kill, target: "broker:1", at: 1, duration: 2}
    - {fault: pause, target: "broker:2", at: 5, duration: 2}
workload: {rate: 50, duration: 10}
lanes_per_run: 3
"""


@pytest.fixture(autouse=True)
def no_program_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientKind, "lacks", lambda kind: [])


def plan_of(tmp_path: Path, text: str = PLAN) -> Atlas:
    path = tmp_path / "atlas.yaml"
    path.write_text(text)
    return Atlas.of(path)


def test_the_plan_has_every_combination(tmp_path: Path) -> None:
    trials = plan_of(tmp_path).trials
    assert len({trial.cell for trial in trials}) == len(trials) == 2 * 2 * 2 * 2
    assert {trial.cell.faults for trial in trials} == {"kill", "kill+pause"}


def test_an_idempotent_producer_has_as_many_requests_in_flight_as_it_can(tmp_path: Path) -> None:
    settings = {trial.cell.settings for trial in plan_of(tmp_path).trials if trial.cell.client.startswith("sarama")}
    assert any('"max_in_flight":1' in text for text in settings)


def test_runs_take_what_was_tried_least_until_all_was(tmp_path: Path) -> None:
    atlas, tried = plan_of(tmp_path), Counter[Cell]()
    for seed in range(16):
        experiment = atlas.next_run(tried, seed)
        clusters = {experiment.cluster.kafka_version}
        cells = cells_of_run(atlas, experiment)
        assert 1 <= len(cells) <= 3
        assert len(clusters) == 1
        tried.update(cells)
        if len(tried) == 16:
            break
    assert len(tried) == 16
    # Four combinations of cluster and family with four cells each, three of which fit into a run.
    assert max(tried.values()) <= 2


def cells_of_run(atlas: Atlas, experiment: object) -> list[Cell]:
    lanes = {spec.lane for _, spec, _ in experiment.lanes()}  # type: ignore[attr-defined]
    version = experiment.cluster.kafka_version  # type: ignore[attr-defined]
    family = experiment.name.removeprefix("atlas-")  # type: ignore[attr-defined]
    return [
        trial.cell
        for trial in atlas.trials
        if trial.family == family and trial.cell.cluster.startswith(version) and trial.lane["lane"] in lanes
    ]


def test_a_client_is_no_setting_of_its_cells(tmp_path: Path) -> None:
    settings: dict[str, set[str]] = {}
    for trial in plan_of(tmp_path, PLAN.replace("sarama", "franz-go")).trials:
        settings.setdefault(str(trial.lane["client"]), set()).add(trial.cell.settings)
    assert settings["librdkafka"] == settings["franz-go"]


def test_the_same_seed_draws_the_same_run(tmp_path: Path) -> None:
    atlas = plan_of(tmp_path)
    names = [[spec.lane for _, spec, _ in atlas.next_run({}, 7).lanes()] for _ in range(2)]
    assert names[0] == names[1]


def test_clients_that_the_machine_can_t_run_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientKind, "lacks", lambda kind: ["go is missing"] if kind.name == "sarama" else [])
    atlas = plan_of(tmp_path)
    assert dict(atlas.left_out) == {"sarama": "go is missing"}
    assert {trial.lane["client"] for trial in atlas.trials} == {"librdkafka"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lanes_per_run: 3", "lanes_per_run: 0", r"atlas.yaml:12: lanes_per_run: expected .*1"),
        ("lanes_per_run: 3", "lane_per_run: 3", r"atlas.yaml:12: lane_per_run: no such key"),
        ("4.3.1/kraft", "4.3.1/zookeeper", r"4.3.1/zookeeper, kill.*cluster"),
        ("4.3.1/kraft", "9.9.9/kraft", r"9.9.9/kraft, kill.*9.9.9"),
        ("sarama]", "srama]", "'srama' is no client.*sarama"),
        ("fault: pause", "fault: puse", "atlas.yaml .*both.*puse"),
        ('acks: "1"', 'acks: "7"', "acks"),
        ("clients: [librdkafka, sarama]", "clients: []", "clients: expected"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_starts(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PLAN
    with pytest.raises(UsageFailure, match=message):
        plan_of(tmp_path, PLAN.replace(old, new))


def test_the_plan_of_this_project_is_one() -> None:
    assert len(Atlas.of(STANDARD_PLAN).trials) >= 60


def test_runs_are_counted_by_cell() -> None:
    cells = cells_of([lane_run(4, gap_s=3.0), lane_run(gap_s=7.0), lane_run(gap_s=None), lane_run(faults="pause")])
    assert [(cell.cell.faults, len(cell.runs)) for cell in cells] == [("kill", 3), ("pause", 1)]
    assert str(cells[0].shares["losses"]) == "in 1 of 3 (6% – 79%), up to 4"
    assert cells[0].gaps == (3.0, 5.0, 7.0)


def test_a_run_that_did_not_judge_an_anomaly_does_not_count_for_it() -> None:
    (cell,) = cells_of([lane_run(not_judged=["lost_write"])])
    assert str(cell.shares["losses"]) == "not judged"
    assert str(cell.shares["duplicates"]) == "in none of 1 (0% – 79%)"


def test_the_worst_run_has_the_gravest_verdict() -> None:
    (cell,) = cells_of(
        [lane_run(90, run="most"), lane_run(1, run="broken", verdict="violation"), lane_run(verdict="unknown")]
    )
    assert (cell.verdict, cell.worst.run) == (Verdict.VIOLATION, "broken")


def test_the_page_names_every_cell_and_links_the_worst_run(tmp_path: Path) -> None:
    report = tmp_path / "run-1" / "report.html"
    report.parent.mkdir()
    report.touch()
    lost = lane_run(4, found={"lost_write": 4, "phantom": 1}, report=str(report))
    cells = cells_of([lost, lane_run(client="<java>", settings=STRICT, report=str(tmp_path / "gone.html"))])
    write_pages(cells, tmp_path, untried=5)
    page = (tmp_path / PAGE).read_text()
    assert 'href="run-1/report.html"' in page
    assert "gone.html" not in page
    assert "&lt;java&gt;" in page
    assert "phantom in 1 of 1" in page
    assert "5 combinations of the plan have no run yet" in page


def test_the_table_has_the_same_cells(tmp_path: Path) -> None:
    write_pages(cells_of([lane_run(4), lane_run(settings=STRICT)]), tmp_path)
    rows = pq.read_table(tmp_path / TABLE).to_pylist()
    assert [row["runs"] for row in rows] == [1, 1]
    losses = {row["lane"]: row["anomalies"][0]["hits"] for row in rows}
    assert losses == {'{"acks":"1"}': 1, STRICT: 0}


def test_settings_are_those_of_lanes_on_the_cells_cluster() -> None:
    """Eligible leader replicas are refused in lanes of older brokers."""
    (cell,) = cells_of([lane_run(cluster="4.3.1/kraft", settings='{"elr":true}')])
    assert cell.settings == "acks=all · min ISR 1 · 3 replicas"
