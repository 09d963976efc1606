"""What the transactional machine shows: the promise of both protocols, what losses cost, and known defects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_chaos.contract.transactions import TransactionAnomaly as A
from kafka_chaos.reference_model.machine import Findings
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions.anomalies import CHECKS, ending
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS, Question, stories_with
from kafka_chaos.reference_model.transactions.rules import V1, V1_UNVERIFIED, V2, Kind, Rules, v1_in
from kafka_chaos.reference_model.transactions.state import Setup, initial_state

ALL = frozenset(A)
LOST_DATA = {A.ABORTED_READ, A.TORN_TRANSACTION, A.LOST_TRANSACTION, A.HANGING_TRANSACTION}


def asked(rules: Rules, **settings: bool) -> Findings[A]:
    return TRANSACTIONS.examine(Question(rules, **settings), Budget(5_000_000))


def test_every_anomaly_is_searched_for() -> None:
    assert CHECKS.keys() == ALL


@pytest.mark.parametrize(
    ("rules", "several"), [(V1, True), (V1_UNVERIFIED, False), (V2, True)], ids=["v1", "v1 unverified", "v2"]
)
def test_failing_brokers_and_late_requests_break_nothing_that_is_promised(rules: Rules, several: bool) -> None:
    found = asked(rules, brokers_may_fail=True, several_partitions=several)
    assert (found.complete, found.stories) == (True, {})


@pytest.mark.slow
@pytest.mark.parametrize(("delayed", "failovers"), [(1, 1), (2, 0)])
@pytest.mark.parametrize("rules", [V1, V1_UNVERIFIED, V2], ids=["v1", "v1 unverified", "v2"])
def test_a_larger_scope_breaks_nothing_either(rules: Rules, delayed: int, failovers: int) -> None:
    search, first = TRANSACTIONS.search(ALL, Setup(rules, delayed=delayed, failovers=failovers), Budget(5_000_000))
    assert (search.complete, first) == (True, {})


def test_what_replication_loses_breaks_transactions() -> None:
    found = asked(V2, brokers_may_fail=True, data_may_lose=True, several_partitions=False)
    assert (found.complete, found.stories.keys()) == (True, LOST_DATA)
    states = asked(V2, brokers_may_fail=True, states_may_be_lost=True)
    assert (states.complete, states.stories.keys()) == (True, LOST_DATA | {A.ZOMBIE_COMMIT})


@pytest.mark.slow
@pytest.mark.parametrize("rules", [V1, V2], ids=["v1", "v2"])
def test_losses_show_the_same_on_two_partitions(rules: Rules) -> None:
    assert asked(rules, brokers_may_fail=True, data_may_lose=True).stories.keys() == LOST_DATA
    both = asked(rules, brokers_may_fail=True, data_may_lose=True, states_may_be_lost=True)
    assert both.stories.keys() == LOST_DATA | {A.ZOMBIE_COMMIT}


def test_losses_break_v1_in_the_same_ways() -> None:
    found = asked(V1, data_may_lose=True, several_partitions=False)
    assert found.complete
    assert found.stories.keys() == LOST_DATA


@pytest.mark.parametrize(
    "several", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one partition", "two partitions"]
)
def test_producers_beside_each_other_are_not_isolated(several: bool) -> None:
    """Kafka promises atomicity and order per producer: writes of concurrent transactions interleave."""
    found = asked(V2, several_producers=True, several_partitions=several)
    assert found.stories.keys() == {A.DEPENDENCY_CYCLE}
    alone = asked(V2, several_producers=True, several_partitions=several, several_records=False)
    assert (alone.complete, alone.stories) == (True, {})


def test_a_late_end_ends_the_next_transaction() -> None:
    """KAFKA-17754."""
    late_end = replace(V1, late=V1.late | {Kind.END})
    stories = stories_with(late_end, True, True)
    assert stories.keys() == {A.TORN_TRANSACTION, A.ABORTED_READ, A.LOST_TRANSACTION}
    torn = stories[A.TORN_TRANSACTION]
    assert (
        "Incarnation 1 of the producer asks to abort transaction 1; the request is late, and no answer comes." in torn
    )
    taken = torn.index("The late request to abort transaction 1 arrives at the coordinator and is taken.")
    assert torn.index("Incarnation 1 of the producer sends record 1 of transaction 2 to partition 0.") < taken
    assert torn[-1].endswith(
        "transaction 1: it was aborted; transaction 2: its commit was acknowledged; "
        "a read_committed consumer was given record 2 of transaction 2."
    )


def test_two_late_requests_lose_a_transaction_that_was_acknowledged() -> None:
    late_end = replace(V1, late=V1.late | {Kind.END})
    story = stories_with(late_end, True, True)[A.LOST_TRANSACTION]
    assert len([sentence for sentence in story if sentence.startswith("The late request")]) == 2
    assert "transaction 2: its commit was acknowledged; a read_committed consumer was given nothing." in story[-1]


@pytest.mark.slow
def test_a_late_end_leaves_records_hanging_where_leaders_do_not_verify() -> None:
    stories = stories_with(replace(V1_UNVERIFIED, late=V1_UNVERIFIED.late | {Kind.END}), False, False)
    assert {A.LOST_TRANSACTION, A.HANGING_TRANSACTION} <= stories.keys()


def test_a_late_record_hangs_where_leaders_do_not_verify() -> None:
    """KAFKA-14402."""
    stories = stories_with(replace(V1_UNVERIFIED, late=V1_UNVERIFIED.late | {Kind.PRODUCE}), False, False)
    assert A.HANGING_TRANSACTION in stories
    assert stories[A.HANGING_TRANSACTION][-2] == (
        "The late record 1 of transaction 1 arrives at the leader of partition 0 and is taken."
    )


def test_leaders_verify_since_3_6() -> None:
    assert v1_in("3.6.0") == V1
    assert v1_in("3.5.2") == V1_UNVERIFIED
    assert Kind.PRODUCE not in V1_UNVERIFIED.late


def test_a_run_ends_only_where_no_coordinator_has_anything_to_do() -> None:
    setup = Setup(V1)
    state = initial_state(setup)
    assert ending(state, setup) is not None
    known = state.coordinated[0]
    ongoing = known._replace(status=known.status._replace(status=1))
    assert ending(state._replace(coordinated=(ongoing,)), setup) is None


def test_an_empty_budget_leaves_the_findings_incomplete() -> None:
    found = TRANSACTIONS.examine(Question(V1, several_records=False, brokers_may_fail=True), Budget(50))
    assert not found.complete
    assert found.stories == {}


def test_complete_findings_are_not_searched_for_again() -> None:
    question = Question(V2, several_records=False, several_partitions=False)
    assert TRANSACTIONS.examine(question, Budget(5_000_000)) is TRANSACTIONS.examine(question, Budget(1))
