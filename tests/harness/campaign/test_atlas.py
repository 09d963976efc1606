from collections import Counter
from pathlib import Path
from random import Random

import pytest

from kafka_chaos.contract.command.errors import ClusterFailure, UsageFailure
from kafka_chaos.harness.campaign.atlas import Atlas
from kafka_chaos.harness.campaign.cells import PAGE, cells_of, write_page
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
    monkeypatch.setattr(ClientKind, "install_hints", lambda kind: [])


def plan_of(tmp_path: Path, text: str = PLAN) -> Atlas:
    path = tmp_path / "atlas.yaml"
    path.write_text(text)
    return Atlas.from_file(path)


def test_the_plan_has_every_combination(tmp_path: Path) -> None:
    trials = plan_of(tmp_path).trials
    assert len({trial.cell for trial in trials}) == len(trials) == 2 * 2 * 2 * 2
    assert {trial.cell.faults for trial in trials} == {"kill", "kill+pause"}


def test_runs_take_what_was_tried_least_until_all_was(tmp_path: Path) -> None:
    atlas, tried = plan_of(tmp_path), Counter[Cell]()
    for seed in range(16):
        trials = atlas.next_trials(tried, seed)
        assert 1 <= len(trials) <= 3
        assert len({(trial.cell.cluster, trial.family) for trial in trials}) == 1
        tried.update(trial.cell for trial in trials)
        if len(tried) == 16:
            break
    assert len(tried) == 16
    # Four combinations of cluster and family with four cells each, three of which fit into a run.
    assert max(tried.values()) <= 2


def test_a_cluster_on_which_every_run_fails_does_not_keep_the_others_from_their_turn(tmp_path: Path) -> None:
    policy = plan_of(tmp_path).policy(tmp_path / "record.jsonl", Random(1))
    attempts = [next(policy), policy.send(ClusterFailure("no"))]
    assert [attempt.experiment.cluster.kafka_version for attempt in attempts] == ["3.9.1", "4.3.1"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lanes_per_run: 3", "lanes_per_run: 0", r"atlas.yaml:12: lanes_per_run: expected .*1"),
        ("lanes_per_run: 3", "lane_per_run: 3", r"atlas.yaml:12: lane_per_run: no such key"),
        ("4.3.1/kraft", "4.3.1/zookeeper", r"4.3.1/zookeeper, kill.*cluster"),
        ("4.3.1/kraft", "9.9.9/kraft", r"9.9.9/kraft, kill.*9.9.9"),
        ("sarama]", "srama]", "'srama' is not a client.*sarama"),
        ("fault: pause", "fault: puse", "atlas.yaml .*both.*puse"),
        ("clients: [librdkafka, sarama]", "clients: []", "clients: expected"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_starts(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PLAN
    with pytest.raises(UsageFailure, match=message):
        plan_of(tmp_path, PLAN.replace(old, new))


def test_the_plan_of_this_project_is_one() -> None:
    assert len(Atlas.from_file(STANDARD_PLAN).trials) >= 60


def test_runs_are_counted_by_cell() -> None:
    cells = cells_of([lane_run(4, gap_s=3.0), lane_run(gap_s=7.0), lane_run(gap_s=None), lane_run(faults="pause")])
    assert [(cell.cell.faults, len(cell.runs)) for cell in cells] == [("kill", 3), ("pause", 1)]
    assert str(cells[0].shares["losses"]) == "in 1 of 3 (6% – 79%), up to 4"
    assert cells[0].gaps == (3.0, 5.0, 7.0)


def test_a_run_that_did_not_judge_an_anomaly_does_not_count_for_it() -> None:
    (cell,) = cells_of([lane_run(not_judged=["lost_write"])])
    assert str(cell.shares["losses"]) == "not judged"
    assert str(cell.shares["duplicates"]) == "in none of 1 (0% – 79%)"


def test_the_page_names_every_cell_and_links_the_worst_run(tmp_path: Path) -> None:
    report = tmp_path / "run-1" / "report.html"
    report.parent.mkdir()
    report.touch()
    lost = lane_run(4, found={"lost_write": 4, "phantom": 1}, report=str(report))
    cells = cells_of([lost, lane_run(client="<java>", settings=STRICT, report=str(tmp_path / "gone.html"))])
    write_page(cells, tmp_path, untried=5)
    page = (tmp_path / PAGE).read_text()
    assert 'href="run-1/report.html"' in page
    assert "gone.html" not in page
    assert "&lt;java&gt;" in page
    assert "phantom in 1 of 1" in page
    assert "5 combinations of the plan have no run yet" in page
