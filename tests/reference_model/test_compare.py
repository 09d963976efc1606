import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model import compare as compare_module
from kafka_chaos.reference_model.cli import predict_command
from kafka_chaos.reference_model.compare import RULES, Cluster, compare
from kafka_chaos.reference_model.predict.prediction import predict
from kafka_chaos.reference_model.predict.result import Prediction
from tests.commands import ended

ELR = RULES[-1][0]
WAITS = RULES[-2][0]
LANES = {
    "safe": Lane(lane="safe", min_insync_replicas=2, replication_factor=2),
    "read": Lane(lane="read", acks="1", replication_factor=2, min_insync_replicas=2, unclean_leader_election=True),
    "idempotent": Lane(lane="idempotent", idempotence=True, replication_factor=2),
}


@pytest.fixture(autouse=True)
def small_matrix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compare_module, "LANES", LANES)
    monkeypatch.setattr(compare_module, "FAULT_SETS", ((), ("kill",), ("power-loss",)))
    monkeypatch.setenv("KAFKA_CHAOS_CACHE", str(tmp_path))


run = partial(ended, predict_command)


def test_an_upgrade_names_lanes_statuses_and_the_rule() -> None:
    found = compare(Cluster.parse("3.9.1/zookeeper"), Cluster.parse("4.3.1/kraft"), predict)
    assert {change.rules for change in found.changes} == {(ELR,)}
    (safe,) = [change for change in found.changes if change.lane == "safe"]
    assert (safe.faults, safe.before, safe.after) == (("power-loss",), "permitted", "forbidden")
    assert Anomaly.LOST_WRITE in safe.why
    assert safe.why[Anomaly.LOST_WRITE][-1].startswith("The run ends")
    assert found.asked == 9
    assert "eligible.leader.replicas.version=1" in str(found)


def test_each_change_goes_by_the_rule_that_makes_it() -> None:
    found = compare(Cluster.parse("3.6.2/zookeeper"), Cluster.parse("4.3.1/kraft"), predict)
    reads = [change for change in found.changes if (change.lane, change.faults) == ("read", ("kill",))]
    assert [change.rules for change in reads if Anomaly.TRUNCATED_READ in change.why] == [(WAITS,)]
    safe = [change for change in found.changes if (change.lane, change.faults) == ("safe", ("power-loss",))]
    assert [change.rules for change in safe if Anomaly.LOST_WRITE in change.why] == [(ELR,)]


@pytest.mark.parametrize("after", ["3.9.1/kraft", "4.3.1/kraft/elr=false", "4.0.0/kraft"])
def test_clusters_with_the_same_rules_differ_in_nothing(after: str) -> None:
    asked: list[Lane] = []

    def answer(lane: Lane) -> Prediction:
        asked.append(lane)
        return predict(replace(lane, faults=()))

    found = compare(Cluster.parse("3.9.1/zookeeper"), Cluster.parse(after), answer)
    assert found.changes == ()
    assert len(asked) == found.asked == 9
    assert "every status stays as it is" in str(found)


def test_a_lane_that_one_side_can_not_have_is_left_out_and_named() -> None:
    found = compare(Cluster.parse("0.10.2.2/zookeeper"), Cluster.parse("0.11.0.3/zookeeper"), predict)
    assert found.asked == 6
    assert any("idempotent" in note for note in found.notes)
    assert any("KIP-320" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4.3.1", "VERSION/MODE"), ("4.3.1/raft", "zookeeper or kraft"), ("4.3.1/zookeeper", "no ZooKeeper"),
        ("2.4.1/kraft", "no KRaft"), ("3.9.1/kraft/elr=true", "since 4.0"),
    ],
)  # fmt: skip
def test_a_cluster_that_there_is_not_is_refused(text: str, expected: str) -> None:
    with pytest.raises(UsageFailure, match=expected):
        Cluster.parse(text)
    result = run("--compare", f"3.9.1/zookeeper,{text}")
    assert result.exit_code == 64
    assert "--compare" in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--compare", "3.9.1/zookeeper"), "two clusters"),
        (("--compare", "3.9.1/kraft,4.3.1/kraft,4.3.1/kraft"), "two clusters"),
        (("--compare", "3.9.1/kraft,4.3.1/kraft", "--faults", "kill"), "--faults"),
        (("--kafka-version", "4.3.1", "--metadata-mode", "zookeeper"), "has no ZooKeeper"),
        (("--elr", "true"), "since 4.0"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: tuple[str, ...], expected: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 64
    assert expected in result.output


def test_the_command_compares() -> None:
    table = run("--compare", "3.9.1/zookeeper,4.3.1/kraft")
    assert table.exit_code == 0, table.output
    heads, _, first, *_ = table.stdout.splitlines()
    assert heads.split() == ["lane", "faults", "anomalies", "3.9.1/zookeeper", "4.3.1/kraft", "rule"]
    assert first.startswith("safe")
    answer = json.loads(run("--compare", "3.9.1/zookeeper,4.3.1/kraft", "--json").stdout)
    assert answer["asked"] == 9
    assert answer["changes"][0]["lane"] == "safe"
    assert answer["changes"][0]["rules"] == [ELR]
    assert set(answer["changes"][0]["anomalies"]) >= {"lost_write", "truncated_read"}
