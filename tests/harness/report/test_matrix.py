from pathlib import Path

import pytest
import report_runs as runs
from test_page import page_of

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.groups import GROUP_ANOMALIES, GroupAnomaly
from kafka_chaos.harness.report import matrix
from kafka_chaos.harness.report.inputs.evidence import Evidence, read_evidence


def one_lane(path: Path, **judged: object) -> Evidence:
    return read_evidence(runs.write(path / "run", [runs.lane("a")], [runs.judged("a", **judged)]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "count", "verdict", "state"),
    [
        ("forbidden", 0, "conforms", "clean"), ("forbidden", 0, "violation", "clean"),
        ("forbidden", 7, "violation", "violation"), ("forbidden", 7, "unknown", "doubtful"),
        ("permitted", 0, "conforms", "possible"), ("permitted", 7, "conforms", "confirmed"),
        ("permitted", 7, "violation", "confirmed"), ("required", 7, "conforms", "confirmed"),
        ("required", 0, "violation", "missing"), ("required", 0, "unknown", "doubtful"),
    ],
)  # fmt: skip
def test_a_cell_is_a_deviation_only_where_the_prediction_was_broken(
    tmp_path: Path, status: str, count: int, verdict: str, state: str
) -> None:
    evidence = one_lane(
        tmp_path, verdict=verdict, found={"lost_write": (count, status)}, predicted={"lost_write": status}
    )
    cell = matrix.rows(evidence)[0].cell(Anomaly.LOST_WRITE)
    assert (cell.state, cell.predicted, cell.count) == (state, status, count)
    assert state in matrix.STATES


def test_what_was_not_judged_is_never_clean(tmp_path: Path) -> None:
    cell = matrix.rows(one_lane(tmp_path, not_judged={"duplicate": "no log"}))[0].cell(Anomaly.DUPLICATE)
    assert (cell.state, cell.count, cell.observed, cell.note) == ("not-judged", None, "not judged", "no log")


def test_an_unseen_record_without_a_final_log_is_a_doubt(tmp_path: Path) -> None:
    evidence = one_lane(tmp_path, verdict="violation", found={"unseen": (1, "forbidden"), "phantom": (1, "forbidden")})
    (row,) = matrix.rows(evidence)
    assert row.cell(Anomaly.UNSEEN).state == "doubtful"
    assert row.cell(Anomaly.PHANTOM).state == "violation"


def test_sentences_count_confirmations_and_kept_promises(tmp_path: Path) -> None:
    lanes = [runs.lane(name) for name in "abc"]
    verdicts = [
        runs.judged("a", found={"lost_write": (1000, "permitted")}),
        runs.judged("b", found={"lost_write": (500, "permitted")}),
        runs.judged("c"),
    ]
    table = matrix.rows(read_evidence(runs.write(tmp_path / "run", lanes, verdicts)))
    assert matrix.confirmations(table) == ["Lost write: 1,500 in a and b, where it is permitted."]
    text = page_of(tmp_path / "run").text
    assert "No acknowledged record was lost in the 1 lane where the configuration forbids it." in text
    assert "configuration, and nothing else." in text


@pytest.mark.parametrize(
    ("verdicts", "story"),
    [
        (("violation", "violation"), "2 lanes of 2 broke the prediction for their configuration."),
        (("unknown", "conforms"), "The evidence of 1 lane of 2 does not suffice for a verdict; no lane broke"),
    ],
)
def test_the_verdict_is_one_sentence(tmp_path: Path, verdicts: tuple[str, str], story: str) -> None:
    judged = [runs.judged(name, verdict=verdict) for name, verdict in zip("ab", verdicts, strict=True)]
    run = runs.write(tmp_path / "run", [runs.lane("a"), runs.lane("b")], judged, verdict=verdicts[0])
    assert story in page_of(run).text


def test_settings_tell_lanes_apart() -> None:
    reported = matrix.settings(runs.lane("a", acks="all", idempotence=True, unclean_leader_election=True, partitions=4))
    assert reported == "acks=all · min ISR 1 · 3 replicas · idempotent · unclean election · 4 partitions"
    assert matrix.settings({}) == "not in lanes.json"


def test_the_anomalies_of_groups_are_columns_where_a_lane_has_a_group(tmp_path: Path) -> None:
    lanes = [runs.lane("a"), runs.lane("g", group={"members": 2}), runs.lane("l", loop={"source": "a"})]
    skipped, twice = GroupAnomaly.SKIPPED_AFTER_REBALANCE, GroupAnomaly.PROCESSED_TWICE
    verdicts = [
        runs.judged("a"),
        runs.judged("g", verdict="violation", found={skipped: (2, "forbidden")}),
        runs.judged("l", found={twice: (1, "permitted")}),
    ]
    table = matrix.rows(read_evidence(runs.write(tmp_path / "run", lanes, verdicts)))
    assert matrix.columns(table[1:2]) == [*Anomaly, *GROUP_ANOMALIES]
    assert matrix.columns(table) == [*Anomaly, *GroupAnomaly]
    assert [row.cell(skipped).count for row in table] == [None, 2, 0]
    assert [row.cell(twice).state for row in table] == ["not-judged", "not-judged", "confirmed"]
    assert table[0].cell(skipped).note == "the lane has no group or loop that shows it"
