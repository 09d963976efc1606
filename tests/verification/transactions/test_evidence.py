"""A transactional lane conforms only with all the evidence that its anomalies need."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional, TransactionAnomaly
from kafka_chaos.verification import cycles as components
from kafka_chaos.verification import verify
from kafka_chaos.verification.judging.result import LaneVerdict
from kafka_chaos.verification.tables.facts import LaneFacts, OpenEnd, ReplicaFacts, TransactionFacts
from tests.verification.judging.one_lane import verdict_with_all_tables
from tests.verification.samples import planted_transactions
from tests.verification.samples.partitions import FULL
from tests.verification.samples.run_dirs import write_histories

LANE = Lane(lane="a", idempotence=True, transactional=Transactional(timeout_ms=1_000))
SECOND = 1_000_000_000
PARTITION = replace(FULL, is_transactional=True, committed_end=9)
READS = replace(LANE, transactional=Transactional(reads=True))
FACTS = TransactionFacts(transactions=2, committed=2, assignments=2, markers=6, read_to={0: 9})
REPLICAS = {broker: ReplicaFacts(11, 0, 10) for broker in (1, 2, 3)}
OPEN = OpenEnd(partition=0, offset=10, hangs=False)


def verdict_of(
    facts: TransactionFacts = FACTS, *, lane: Lane = LANE, replicas: dict[int, ReplicaFacts] = REPLICAS, **evidence: Any
) -> LaneVerdict:
    return verdict_with_all_tables(LaneFacts({0: PARTITION}, 0, {0: replicas}, facts), lane, **evidence)


def not_judged(verdict: LaneVerdict) -> set[str]:
    return {str(anomaly) for anomaly in verdict.not_judged if isinstance(anomaly, TransactionAnomaly)}


def test_a_lane_with_all_its_evidence_conforms() -> None:
    verdict = verdict_of()
    assert (verdict.verdict, verdict.reasons, not_judged(verdict)) == (Verdict.CONFORMS, (), set())
    assert set(verdict.to_json()["predicted"]) == {*Anomaly, *TransactionAnomaly}
    assert verdict.to_json()["ledger"]["transactions"]["committed"] == 2


BY_THE_LOG = {"torn_transaction", "lost_transaction", "hanging_transaction", "dependency_cycle"}
BY_READING = {"aborted_read", "precommitted_read", "torn_transaction"}


@pytest.mark.parametrize(
    ("case", "unjudged", "reason"),
    [
        ({"facts": replace(FACTS, markers=None)}, BY_THE_LOG, "replicas/ does not show the markers"),
        ({"without": "log"}, BY_THE_LOG, "there is no final log"),
        ({"facts": replace(FACTS, transactions=0)}, set(TransactionAnomaly), "transactions/ holds no transaction"),
        ({"facts": replace(FACTS, committed=0)}, {"lost_transaction", "zombie_commit"}, "no commit was acknowledged"),
        ({"facts": replace(FACTS, read_to={})}, BY_READING, "no read_committed consumer read anything"),
        ({"facts": replace(FACTS, read_to={0: 8})}, BY_READING, "no read_committed consumer reached offset 9"),
        ({"facts": replace(FACTS, entangled=9)}, {"dependency_cycle"}, "among the first of 9 dependencies"),
        (
            {"facts": replace(FACTS, entangled=9, read_within=1), "lane": READS},
            {"dependency_cycle", "precommitted_read"},
            "among the first of 9 dependencies",
        ),
        ({"lane": READS}, {"dependency_cycle", "precommitted_read"}, "no record was read within a transaction"),
        ({"replicas": {1: ReplicaFacts(8, 0, 7)}}, BY_THE_LOG, "no replica in replicas/ holds partition 0 whole"),
        ({"replicas": {1: ReplicaFacts(9, 0, 10)}}, BY_THE_LOG, "no replica in replicas/ holds partition 0 whole"),
        ({"lane": replace(LANE, cleanup_policy="compact")}, BY_THE_LOG, "cleanup.policy=compact removes markers, too"),
        (
            {"facts": replace(FACTS, open_ends=(OPEN,))},
            {"hanging_transaction"},
            "partition 0 ends within an open transaction, at offset 10",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_what_the_evidence_does_not_show_is_not_judged(case: dict[str, Any], unjudged: set[str], reason: str) -> None:
    verdict = verdict_of(**case)
    assert verdict.verdict == Verdict.UNKNOWN
    assert not_judged(verdict) == {str(anomaly) for anomaly in unjudged}
    assert (Anomaly.OFFSET_GAP in verdict.not_judged) == (unjudged == BY_THE_LOG)
    assert any(reason in one for one in verdict.reasons)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, unnamed=3), "transactions/ lacks 3 transactions that produced/ names"),
        (replace(FACTS, outside=4), "produced/ names no transaction of 4 acknowledged records"),
        (replace(FACTS, unknown_readers=("c7",)), "assignments/ lacks the consumers c7"),
    ],
)
def test_tables_that_contradict_each_other_are_a_doubt(facts: TransactionFacts, reason: str) -> None:
    assert (verdict_of(facts).verdict, verdict_of(facts).reasons) == (Verdict.UNKNOWN, (reason,))


def test_replicas_that_were_not_read_in_full_leave_no_finding_certain() -> None:
    verdict = verdict_of(
        counts={TransactionAnomaly.LOST_TRANSACTION: 1}, unread={"replicas": ("replicas/x is hidden",)}
    )
    assert verdict.verdict == Verdict.UNKNOWN


def test_a_model_without_an_answer_leaves_the_lane_unknown() -> None:
    verdict = verdict_of(statuses=dict.fromkeys(Anomaly, Status.FORBIDDEN))
    assert verdict.verdict == Verdict.UNKNOWN
    assert "the model does not predict aborted_read" in verdict.reasons


def test_without_a_log_what_was_lost_is_judged_by_what_clients_were_told() -> None:
    verdict = verdict_of(without="log")
    assert not {Anomaly.LOST_WRITE, Anomaly.UNSEEN, Anomaly.SKIPPED_POLL} & set(verdict.not_judged)


def test_a_cycle_is_a_strongly_connected_component(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [(1, 2), (2, 3), (3, 1), (3, 4), (5, 6), (6, 5), (7, 7)]
    assert found(edges) == [[1, 2, 3], [5, 6]]
    assert found([(number, number + 1) for number in range(100_000)]) == []
    assert found([(number, (number + 1) % 100_000) for number in range(100_000)]) == [[*range(100_000)]]
    random = Random(1)
    for many in (1, 10):
        monkeypatch.setattr(components, "MANY", many)
        for _ in range(200):
            edges = [(random.randrange(9), random.randrange(9)) for _ in range(random.randrange(20))]
            assert found(edges) == sorted(_by_reachability(edges))


def found(edges: list[tuple[int, int]]) -> list[list[int]]:
    before, after = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return sorted(components.cycles(before, after))


def _by_reachability(edges: list[tuple[int, int]]) -> list[list[int]]:
    reached = {one: {two for before, two in edges if before == one} for one in range(9)}
    for _ in range(9):
        reached = {one: found.union(*(reached[two] for two in found)) for one, found in reached.items()}
    together = {one: [one, *(two for two in reached[one] if two != one and one in reached[two])] for one in range(9)}
    return [list(found) for found in {tuple(sorted(found)) for found in together.values()} if len(found) > 1]


def of_aborts_alone(folder: Path, *, abort: float = 1.0, stays_ns: int | None = None) -> LaneVerdict:
    """A lane whose transactions are all aborted; its read_committed consumer ends `stays_ns` after the last of them."""
    made = planted_transactions.Lane(Random(7), 2)
    made.history.timeout_ms = 5_000
    for number in range(4):
        planted_transactions.transaction(made, planted_transactions.WRITERS[number % 2](made), "aborted")
    history = planted_transactions.read(made)
    last = max(row.end_ns or 0 for row in history.transactions)
    ends = None if stays_ns is None else last + stays_ns
    history.assignments = [
        row._replace(end_ns=ends if row.isolation == "read_committed" else None) for row in history.assignments
    ]
    settings = {"transactional": {"timeout_ms": 5_000, "abort": abort}}
    return verify(write_histories(folder, {"a": history}, {"a": settings}), engine="duckdb").lane("a")


def test_who_is_given_nothing_where_nothing_is_due_is_evidence(tmp_path: Path, everything_forbidden: None) -> None:
    verdict = of_aborts_alone(tmp_path / "run", stays_ns=SECOND)
    assert not_judged(verdict) == set()
    assert (verdict.verdict, verdict.reasons) == (Verdict.CONFORMS, ())


@pytest.mark.parametrize("case", [{"stays_ns": None}, {"stays_ns": -SECOND}, {"stays_ns": SECOND, "abort": 0.5}])
def test_who_left_early_or_was_to_be_given_something_is_none(
    tmp_path: Path, everything_forbidden: None, case: dict[str, Any]
) -> None:
    verdict = of_aborts_alone(tmp_path / "run", **case)
    assert verdict.verdict == Verdict.UNKNOWN
    assert "aborted_read" in not_judged(verdict)
