"""The anomalies of transactions: planted ones are found alone."""

import json
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.verification import by_statements, verify
from tests.verification.oracle.rows import Commit, case_order, ends_of
from tests.verification.samples.engines import Verified
from tests.verification.samples.planted_transactions import (
    PLANTS,
    clean,
    dependency_cycle,
    hanging_behind_a_stale_marker,
)
from tests.verification.samples.run_dirs import read_cases, read_causes, write_histories

pytestmark = pytest.mark.usefixtures("everything_forbidden")


def test_planted_anomalies_are_found_with_their_causes_and_nothing_else(tmp_path: Path, verified: Verified) -> None:
    planted = {plant.__name__: plant() for plant in PLANTS}
    run_dir = write_histories(tmp_path / "run", {name: history for name, (history, _) in planted.items()})
    verdict = verified(run_dir)
    found = read_cases(run_dir)
    assert {name: found.get(name, []) for name in planted} == {
        name: sorted(cases, key=case_order) for name, (_, cases) in planted.items()
    }
    assert verdict.lane("clean").reasons == ()
    verdicts = {lane.lane: lane.verdict for lane in verdict.lanes}
    expected = {name: Verdict.VIOLATION if cases else Verdict.CONFORMS for name, (_, cases) in planted.items()}
    assert verdicts == {**expected, "dependency_cycle": Verdict.UNKNOWN}
    assert {(lane, cause) for lane, anomaly, cause in read_causes(run_dir) if anomaly in lane} == {
        ("aborted_read", "transaction 2, read by early"),
        ("aborted_read_of_one_in_doubt", "transaction 2, read by early"),
        ("precommitted_read", "transaction 1, given to early before its commit was asked for"),
        ("precommitted_read_of_its_own", "transaction 6, given to reader-0 within it"),
        ("torn_transaction", "transaction 1: 3 of 6 records are committed"),
        ("lost_transaction", "transaction 1 of 6 records"),
        ("zombie_commit", "transaction 6 went on after a later incarnation was initialised"),
        ("hanging_transaction", "transaction 6 is still open"),
        ("dependency_cycle", "2 transactions of producers 0, 1"),
    }


def test_what_the_last_markers_will_show_is_neither_lost_nor_skipped(tmp_path: Path, verified: Verified) -> None:
    history, group = clean()[0], {"group": "a-group", "member": "m", "generation": 1}
    ends = ends_of((row.partition, row.offset) for row in history.replicas)
    history.replicas = [row for row in history.replicas if row.offset != ends[row.partition]]
    history.assignments = [row._replace(**group if row.consumer == "committed" else {}) for row in history.assignments]
    history.commits = [Commit("a-group", "committed", at, end + 1, 10**12, 10**12, "ok") for at, end in ends.items()]
    keys = {"transactional": {"timeout_ms": 5_000}, "group": {"members": 1}}
    lane = verified(write_histories(tmp_path / "run", {"a": history}, {"a": keys})).lane("a")
    assert (lane.verdict, lane.observed) == (Verdict.UNKNOWN, {})


def test_the_time_out_of_a_transaction_counts_from_when_the_last_fault_was_healed(
    tmp_path: Path, verified: Verified
) -> None:
    history, _ = hanging_behind_a_stale_marker()
    marker = history.replicas[-1]
    history.high_watermarks, history.marks = {1: marker.offset + 1}, {1: {marker.broker: marker.offset}}
    run_dir = write_histories(tmp_path / "run", {"a": history})
    assert verified(run_dir).lane("a").count(TransactionAnomaly.HANGING_TRANSACTION) == 1
    healed_ns = max(row.poll_ns for row in history.consumed) - 1_000_000_000
    events = {"fault_requested": {"kind": "kill", "lanes": ["a"]}, "fault_proven": {}, "fault_healed": {}}
    lines = [{"type": name, "ts_ns": healed_ns, "fault_id": "k", **told} for name, told in events.items()]
    (run_dir / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    why = verified(run_dir).lane("a").not_judged[TransactionAnomaly.HANGING_TRANSACTION]
    assert why.endswith("and the history ends before its time-out")


def test_where_not_all_dependencies_are_searched_no_cycle_is_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = write_histories(tmp_path / "run", {name: dependency_cycle()[0] for name in "ab"})
    verdict = verify(run_dir, engine="duckdb")
    assert [lane.count(TransactionAnomaly.DEPENDENCY_CYCLE) for lane in verdict.lanes] == [1, 1]
    monkeypatch.setattr(by_statements, "MOST_SEARCHED", 1)
    verdict = verify(run_dir, engine="duckdb")
    assert [lane.not_judged[TransactionAnomaly.DEPENDENCY_CYCLE].partition(" of ")[0] for lane in verdict.lanes] == [
        "among the first",
        "among the first",
    ]


def test_tables_that_lack_what_others_name_leave_the_lane_unknown(tmp_path: Path, verified: Verified) -> None:
    history = clean()[0]
    history.transactions = [row for row in history.transactions if (row.producer_id, row.transaction) != (0, 2)]
    history.assignments = [row for row in history.assignments if row.consumer != "everything"]
    ok = next(index for index, row in enumerate(history.produced) if row.producer_id == 1)
    history.produced[ok] = history.produced[ok]._replace(transaction=None)
    lane = verified(write_histories(tmp_path / "run", {"a": history})).lane("a")
    assert lane.verdict == Verdict.UNKNOWN
    assert {*lane.reasons} >= {
        "transactions/ lacks 1 transaction that produced/ names",
        "produced/ names no transaction of 1 acknowledged record",
        "assignments/ lacks the consumers everything",
    }
