from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.cli import predict_command


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def run_predict(*arguments: str) -> Result:
    return CliRunner().invoke(predict_command, arguments)


def test_predict_answers_in_json() -> None:
    result = run_predict(
        *("--acks", "1", "--idempotence", "false", "--replication-factor", "3", "--min-insync-replicas", "1"),
        *("--unclean-leader-election", "false", "--max-in-flight", "5", "--faults", "kill", "--json"),
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert set(answer["anomalies"]) == {str(anomaly) for anomaly in Anomaly}
    assert answer["anomalies"]["lost_write"]["status"] == "permitted"
    assert answer["scope"]["complete"] is True


def test_faults_repeat_or_stand_in_a_list() -> None:
    repeated = run_predict("--acks", "0", "--faults", "kill", "--faults", "kill", "--json")
    listed = run_predict("--acks", "0", "--faults", "kill,kill", "--json")
    assert repeated.exit_code == 0
    assert json.loads(repeated.output)["scope"]["faults"] == ["kill", "kill"]
    assert repeated.output == listed.output


def test_predict_of_a_course_requires_the_loss() -> None:
    course = "cut-replication,append,kill-leader,elect,restart"
    result = run_predict("--acks", "1", "--course", course)
    assert result.exit_code == 0
    assert "lost_write: required" in result.output


@pytest.mark.parametrize(
    ("arguments", "option", "expected"),
    [
        (("--acks", "2"), "--acks", "'all'"),
        (("--acks", "1", "--idempotence", "true"), "--idempotence", "acks=all"),
        (("--min-insync-replicas", "4"), "--min-insync-replicas", "replication factor"),
        (("--max-in-flight", "0"), "--max-in-flight", "at least 1"),
        (("--max-in-flight", "many"), "--max-in-flight", "integer"),
        (("--idempotence", "true", "--max-in-flight", "6"), "--max-in-flight", "at most 5"),
        (("--faults", "meteor"), "--faults", "kill"),
        (("--course", "dance"), "--course", "cut-replication"),
        (("--course", "elect", "--faults", "kill"), "--faults", "no free faults"),
    ],
)
def test_a_refused_lane_names_option_and_expectation(arguments: tuple[str, ...], option: str, expected: str) -> None:
    result = run_predict(*arguments)
    assert result.exit_code == 64
    assert option in result.output
    assert expected in result.output
