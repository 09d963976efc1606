import json
import random
import sys
from pathlib import Path

import pytest
from scipy.stats import beta

from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.reference_model.forecast.forecasting import ENOUGH, STRENGTH, Question, Score, forecast, longest_gap
from kafka_chaos.reference_model.forecast.lane_runs import append, faults_of, read_record, settings_of, shipped
from tests.reference_model.forecast.lanes import ACKS_1, STRICT, lane_run

ASKED = Question(ACKS_1, faults="kill")


def test_without_any_run_nothing_is_known() -> None:
    one = forecast([], ASKED, "lost_write")
    assert (one.probability, one.runs, one.share, one.common) == (0.5, 0, None, "")
    assert one.low < 0.01
    assert one.high > 0.99


def test_the_interval_is_that_of_the_beta_distribution() -> None:
    # Four lanes that may show it, of other settings: Jeffreys prior and one hit.
    record = [lane_run(1, settings=STRICT), *(lane_run(settings=STRICT) for _ in range(3))]
    one = forecast(record, ASKED, "lost_write")
    assert one.probability == pytest.approx(1.5 / 5)
    assert [one.low, one.high] == pytest.approx(list(beta(1.5, 3.5).ppf([0.025, 0.975])))


def test_lanes_of_the_same_settings_count_in_full() -> None:
    others = [lane_run(settings=STRICT) for _ in range(99)]
    same = [lane_run(9) for _ in range(20)]
    one = forecast([*others, *same], Question(ACKS_1), "lost_write")
    before = 20.5 / 120
    assert one.probability == pytest.approx((20 + STRENGTH * before) / (20 + STRENGTH))
    assert (one.hits, one.runs, one.common) == (20, 20, "settings")


def test_the_closest_lanes_decide_most() -> None:
    kills = [lane_run(5) for _ in range(50)]
    pauses = [lane_run(faults="pause", declared="pause") for _ in range(50)]
    asked = [forecast([*kills, *pauses], Question(ACKS_1, faults=kind), "lost_write") for kind in ("kill", "pause")]
    assert asked[0].probability > 0.9
    assert asked[1].probability < 0.1


def test_the_share_of_records_needs_enough_runs_in_which_it_could_be_judged() -> None:
    record = [lane_run(100 * number) for number in range(ENOUGH)]
    unjudged = [lane_run(not_judged=["lost_write"]) for _ in range(9)]
    assert forecast(unjudged, ASKED, "lost_write").runs == 0
    assert forecast([*record[:-1], *unjudged], ASKED, "lost_write").share is None
    share = forecast(record, ASKED, "lost_write").share
    assert share == (pytest.approx(0.04), pytest.approx(0.36))


def test_gaps_are_those_of_the_closest_lanes_that_are_enough() -> None:
    kills = [lane_run(gap_s=5.0) for _ in range(ENOUGH)]
    pauses = [lane_run(faults="pause", gap_s=9.0) for _ in range(ENOUGH)]
    assert longest_gap([*kills, *pauses], ASKED) == (5.0, 5.0)
    assert longest_gap(kills, Question(STRICT)) is None


def test_forecasts_of_chance_are_calibrated() -> None:
    chance = random.Random(3)

    def draw(count: int) -> list[object]:
        return [lane_run(chance.random() < 0.3, gap_s=chance.random()) for _ in range(count)]

    score, record = Score(), draw(200)
    for run in draw(400):
        score.add(record, run)  # type: ignore[arg-type]
    # The best score for a chance of 0.3 is 0.3 × 0.7.
    assert score.brier == pytest.approx(0.21, abs=0.02)
    assert score.lanes == 400
    assert score.within / score.ranges > 0.74


def test_a_sure_and_wrong_forecast_scores_badly_and_what_was_not_predicted_or_judged_has_no_score() -> None:
    score = Score()
    score.add([], lane_run(predicted=[], gap_s=None))
    score.add([], lane_run(not_judged=["lost_write"], gap_s=None))
    assert score.to_json() == {"lanes": 2, "forecasts": 0, "brier": None, "ranges": 0, "within": 0}
    score.add([lane_run() for _ in range(500)], lane_run(7))
    assert score.brier is not None
    assert score.brier > 0.95


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(EnvironmentFailure, match=r"install kafka-chaos\[forecasts\]"):
        forecast([], ASKED, "lost_write")


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "record.jsonl"
    assert read_record(path) == []
    first, second = lane_run(3, not_judged=[]), lane_run(client="java 3.9.1", gap_s=None, not_judged=["duplicate"])
    append(path, [first])
    append(path, [second])
    assert read_record(path) == [first, second]


def test_a_record_can_move_together_with_its_reports(tmp_path: Path) -> None:
    report = tmp_path / "here" / "runs" / "run-1" / "report.html"
    append(tmp_path / "here" / "record.jsonl", [lane_run(report=str(report))])
    (tmp_path / "here").rename(tmp_path / "there")
    (run,) = read_record(tmp_path / "there" / "record.jsonl")
    assert run.report == str(tmp_path / "there" / "runs" / "run-1" / "report.html")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Invalid JSON"),
        ("[]", "should be an object"),
        ('{"run": "a"}', "client: Field required"),
        ("COMPLETE", "records: Input should be a valid integer"),
        ("MORE", "more: Unexpected keyword argument"),
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "record.jsonl"
    append(path, [lane_run()])
    entry = json.loads(path.read_text())
    line = line.replace("COMPLETE", json.dumps({**entry, "records": "1000"}))
    line = line.replace("MORE", json.dumps({**entry, "more": 1}))
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UsageFailure, match=f"record.jsonl:2: .*{reason}"):
        read_record(path)


def test_settings_are_what_differs_from_the_defaults_and_partitions_count_in_lanes_with_transactions() -> None:
    lane = {"lane": "a", "topic": "t", "acks": "1", "replication_factor": 3, "partitions": 3, "faults": ["kill"]}
    cell = {"kafka_version": "3.9.1", "metadata_mode": "zookeeper", "client": {"name": "java", "version": "3.9.1"}}
    assert settings_of({**lane, **cell}) == '{"acks":"1"}'
    transactional = {"lane": "a", "idempotence": True, "partitions": 3, "transactional": {"producers": 2}}
    assert '"partitions":3' in settings_of(transactional)
    assert [faults_of(kinds) for kinds in (["pause", "kill", "pause"], [])] == ["kill+pause", "no fault"]


@pytest.mark.parametrize(("version", "elr", "settings"), [("4.3.1", True, "{}"), ("4.3.1", False, '{"elr":false}')])
def test_eligible_replicas_are_a_setting_where_they_are_not_as_usual(version: str, elr: bool, settings: str) -> None:
    lane = {"lane": "a", "acks": "all", "kafka_version": version, "metadata_mode": "kraft", "elr": elr}
    assert settings_of(lane) == settings


def test_the_shipped_record_can_be_read() -> None:
    assert all(run.records >= run.acknowledged for run in shipped())
