import itertools
import json
import re
import signal
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model import cli, search
from kafka_chaos.reference_model.cli import predict_command
from tests.commands import ended

pytestmark = pytest.mark.xdist_group("transactions")
"""In one process, which searches once for what the known defects show."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_CACHE", str(tmp_path))


run_predict = partial(ended, predict_command)


def test_predict_answers_in_json() -> None:
    result = run_predict(
        *("--acks", "1", "--no-idempotence", "--replication-factor", "3", "--min-insync-replicas", "1"),
        *("--no-unclean-leader-election", "--max-in-flight", "5", "--faults", "kill", "--json"),
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert set(answer["anomalies"]) == {str(anomaly) for anomaly in Anomaly}
    assert answer["anomalies"]["lost_write"]["status"] == "permitted"
    for name, entry in answer["anomalies"].items():
        assert set(entry) == {"status", "why", "known_defects"}
        assert entry["status"] in set(Status), name
        assert entry["why"], name
    scope = answer["scope"]
    assert scope.pop("states") > 100
    assert scope == {
        "complete": True, "brokers": 3, "records": 2, "attempts": [2, 1], "faults": ["kill"], "known_defects": [],
        "lockstep": None,
    }  # fmt: skip


def test_transactions_are_predicted_when_asked_for() -> None:
    result = run_predict("--transactional", "--transaction-size", "1", "--partitions", "1", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["transactions"].keys() == {str(anomaly) for anomaly in TransactionAnomaly}
    assert {entry["status"] for entry in answer["transactions"].values()} == {"forbidden"}
    assert answer["scope"]["transactions"]["protocol"] == "v1"
    text = run_predict("--transactional", "--transaction-size", "1", "--partitions", "1").stdout
    assert "torn_transaction: forbidden" in text
    assert "Known defect KAFKA-17754 (" in text
    assert "transactions" not in json.loads(run_predict("--idempotence", "--json").stdout)


@pytest.mark.parametrize(
    ("arguments", "permitted"),
    [
        (("--group",), set()),
        (("--group", "--commits", "before", "--crashes", "1", "--members", "2"), {"skipped_after_rebalance"}),
        (("--loop", "after", "--assignor", "range", "--static"), {"processed_twice"}),
    ],
)
def test_groups_and_loops_are_predicted_when_asked_for(arguments: tuple[str, ...], permitted: set[str]) -> None:
    result = run_predict(*arguments, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert {name for name, entry in answer["groups"].items() if entry["status"] == "permitted"} == permitted
    assert len(answer["groups"]) == (6 if "--loop" in arguments else 4)
    text = run_predict(*arguments).stdout
    assert "owned_twice: forbidden" in text
    assert "groups" not in json.loads(run_predict("--json").stdout)


def test_bounds_of_recovery_are_told_with_their_derivation() -> None:
    bound = "29 s (session 9 s + election 4 s + reconnect 15 s + retry 1 s)"
    result = run_predict("--faults", "kill", "--json")
    assert json.loads(result.stdout)["recovery"]["stalled_producer"] == {"seconds": 29.0, "derivation": bound}
    assert f"    {bound}, or it is stalled_producer" in run_predict("--faults", "kill").stdout
    # A frozen broker answers nobody: whoever waits for it does so until its request times out.
    hanging = json.loads(run_predict("--faults", "pause", "--json").stdout)["recovery"]["stalled_producer"]
    assert hanging["seconds"] == 29 + 45 + 30 + 30


def test_predict_of_a_lock_step_phase_requires_the_loss_and_one_that_no_run_gets_through_is_one_line() -> None:
    lockstep = "cut-replication,append,kill-leader,elect,restart"
    result = run_predict("--acks", "1", "--lockstep", lockstep)
    assert result.exit_code == 0
    assert "lost_write: required" in result.output
    result = run_predict("--acks", "1", "--lockstep", "elect")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("kafka-chaos: no run gets through the lock-step phase elect")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "option", "expected"),
    [
        ("--acks 2", "--acks", "'all'"),
        ("--acks 1 --idempotence", "--idempotence", "acks=all"),
        ("--min-insync-replicas 4", "--min-insync-replicas", "replication factor"),
        ("--idempotence --max-in-flight 6", "--max-in-flight", "at most 5"),
        ("--faults meteor", "--faults", "kill"),
        ("--lockstep dance", "--lockstep", "cut-replication"),
        ("--lockstep elect --faults kill", "--faults", "no faults beside"),
        # Transactions that no producer could have.
        ("--transactional --no-idempotence", "'--no-idempotence'", "transactions need idempotence"),
        ("--transactional --acks 1", "'--acks'", "'1': expected all with transactions (KIP-98)"),
        ("--transactional --transaction-size 0", "'--transaction-size'", "0: expected a whole number"),
        # Groups and loops that no lane could have.
        ("--crashes 1", "'--crashes'", "needs --group or --loop"),
        ("--group --members 0", "'--members'", "0: expected a whole number"),
        ("--group --group-protocol consumer", "'--group-protocol'", "'consumer': expected classic"),
        ("--loop after --transactional", "'--transactional'", "'given': expected none"),
    ],
)
def test_a_refused_lane_names_option_and_expectation(arguments: str, option: str, expected: str) -> None:
    result = run_predict(*arguments.split())
    assert result.exit_code == 64
    said = " ".join(result.stderr.split())
    assert option in said
    assert expected in said


THREE_KINDS = (
    *("--replication-factor", "2", "--idempotence", "--unclean-leader-election"),
    *("--faults", "kill,pause,power-loss"),
)
"""A search of over 14,000 states, in which a lost write is found among the first 2,000."""
PROGRESS = r"(outer bounds|\d of \d faults): \d+ states, \d+ s, \d+ states/s; ends within .+"


@pytest.fixture
def a_second_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search looks at the clock every 128 states; here a second has passed each time, however fast it is."""
    clock = SimpleNamespace(monotonic=map(float, itertools.count()).__next__, process_time=time.process_time)
    monkeypatch.setattr(search, "time", clock)


@pytest.mark.usefixtures("a_second_at_every_look")
@pytest.mark.parametrize(
    ("bound", "reason"),
    [(("--max-states", "6000"), "more than 6,000 states"), (("--timeout", "60"), "not done after 60 s")],
)
def test_a_search_that_ends_early_says_what_it_has_found_and_that_the_rest_is_open(
    bound: tuple[str, ...], reason: str
) -> None:
    result = run_predict(*THREE_KINDS, *bound, "--json")
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    statuses = {name: entry["status"] for name, entry in answer["anomalies"].items()}
    assert statuses["lost_write"] == "permitted"
    assert answer["anomalies"]["lost_write"]["why"]
    assert statuses["duplicate"] == "not exhausted"
    assert set(statuses.values()) == {"permitted", "not exhausted"}
    assert answer["scope"]["complete"] is False
    assert reason in answer["scope"]["reason"]
    assert f"not exhausted: {reason}" in result.stderr


def test_what_was_not_exhausted_is_not_kept(tmp_path: Path) -> None:
    lane = ("--replication-factor", "2", "--acks", "1", "--faults", "kill")  # No usual lane: its answer does not ship.
    assert run_predict(*lane, "--max-states", "10").exit_code == 2
    assert not list(tmp_path.rglob("*.json"))
    complete = run_predict(*lane)
    assert complete.exit_code == 0
    assert "not exhausted" not in complete.output
    assert list(tmp_path.rglob("*.json"))


@pytest.mark.usefixtures("a_second_at_every_look")
def test_a_long_search_reports_its_progress_and_a_signal_ends_it_with_what_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = cli.tell_progress

    def then_interrupt(budget: search.Budget) -> None:
        report(budget)
        if budget.label.startswith("2 of 3 faults"):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(cli, "tell_progress", then_interrupt)
    result = run_predict(*THREE_KINDS)
    *progress, last = result.stderr.splitlines()
    searched = list(dict.fromkeys(line.partition(":")[0] for line in progress))
    assert searched == ["outer bounds", "0 of 3 faults", "1 of 3 faults", "2 of 3 faults"]
    assert all(re.fullmatch(PROGRESS, line) for line in progress), progress
    assert result.exit_code == 2
    assert "lost_write: permitted" in result.stdout
    assert "duplicate: not exhausted" in result.stdout
    assert "not exhausted: interrupted" in last


def test_a_known_defect_stands_beside_the_status_that_it_contradicts() -> None:
    idempotent = json.loads(run_predict("--idempotence", "--faults", "kill", "--json").stdout)["anomalies"]
    (defect,) = idempotent["duplicate"]["known_defects"]
    assert idempotent["duplicate"]["status"] == "forbidden"
    assert defect["id"] == "librdkafka-4953"
    assert {"ticket", "component", "versions", "rule", "precondition", "effect"} <= defect.keys()
    assert any("renews its producer epoch" in sentence for sentence in defect["why"])
    assert "record 0, record 0" in defect["why"][-1]
    assert all(not entry["known_defects"] for name, entry in idempotent.items() if name != "duplicate")
    plain = json.loads(run_predict("--faults", "kill", "--json").stdout)["anomalies"]
    assert all(not entry["known_defects"] for entry in plain.values())
    output = run_predict("--idempotence").output
    assert "Known defect librdkafka-4953" in output
    assert "Known defect KAFKA-15591" in output
    assert "allows nothing more" in output
