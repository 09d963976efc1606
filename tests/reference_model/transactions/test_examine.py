"""The transactional machine shows the promise of both protocols, the price of losses, and known defects."""

from dataclasses import replace

import pytest

from kafka_chaos.contract.lane.transactions import TransactionAnomaly as A
from kafka_chaos.reference_model.machine import Findings
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions.anomalies import ending
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS, stories_with
from kafka_chaos.reference_model.transactions.rules import V1, V1_UNVERIFIED, V2, Kind, Rules
from kafka_chaos.reference_model.transactions.state import Setup, initial_state

pytestmark = pytest.mark.xdist_group("transactions")
"""In one process, which searches once for what the known defects show."""

ALL = frozenset(A)
LATE_END = replace(V1, late=V1.late | {Kind.END})


@pytest.mark.slow
@pytest.mark.parametrize(("delayed", "failovers"), [(1, 1), (2, 0)])
@pytest.mark.parametrize("rules", [V1, V1_UNVERIFIED, V2], ids=["v1", "v1 unverified", "v2"])
def test_a_larger_scope_breaks_nothing_either(rules: Rules, delayed: int, failovers: int) -> None:
    search, first = TRANSACTIONS.search(ALL, Setup(rules, delayed=delayed, failovers=failovers), Budget(5_000_000))
    assert (search.complete, first) == (True, {})


@pytest.mark.parametrize(
    "partitions", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["one partition", "two partitions"]
)
def test_producers_beside_each_other_are_not_isolated(partitions: int) -> None:
    """Kafka promises atomicity and order per producer: writes of concurrent transactions interleave."""

    def asked(size: int) -> Findings[A]:
        question = Setup(V2, ids=(0, 0, 1), size=size, partitions=partitions)
        return TRANSACTIONS.examine(question, Budget(5_000_000))

    assert asked(2).stories.keys() == {A.DEPENDENCY_CYCLE}
    assert (asked(1).complete, asked(1).stories) == (True, {})


@pytest.mark.slow
def test_a_late_end_ends_the_next_transaction() -> None:
    """KAFKA-17754."""
    stories = TRANSACTIONS.stories({A.TORN_TRANSACTION, A.ABORTED_READ}, Setup(LATE_END))
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("several", "shows"),
    [(False, {A.ABORTED_READ, A.LOST_TRANSACTION}), (True, {A.ABORTED_READ, A.LOST_TRANSACTION, A.TORN_TRANSACTION})],
    ids=["one record", "two records"],
)
def test_two_late_requests_lose_a_transaction_that_was_acknowledged(several: bool, shows: set[A]) -> None:
    stories = stories_with(LATE_END, 1 + several, 1 + several)
    assert stories.keys() == shows
    story = stories[A.LOST_TRANSACTION]
    assert len([sentence for sentence in story if sentence.startswith("The late request")]) == 2
    assert "transaction 2: its commit was acknowledged; a read_committed consumer was given nothing." in story[-1]


@pytest.mark.slow
def test_a_late_end_leaves_records_hanging_where_leaders_do_not_verify() -> None:
    stories = stories_with(replace(V1_UNVERIFIED, late=V1_UNVERIFIED.late | {Kind.END}), 1, 1)
    assert {A.LOST_TRANSACTION, A.HANGING_TRANSACTION} <= stories.keys()


def test_a_late_record_hangs_where_leaders_do_not_verify() -> None:
    """KAFKA-14402."""
    late_record = replace(V1_UNVERIFIED, late=V1_UNVERIFIED.late | {Kind.PRODUCE})
    stories = TRANSACTIONS.stories({A.HANGING_TRANSACTION}, Setup(late_record, size=1, partitions=1))
    assert stories[A.HANGING_TRANSACTION][-2] == (
        "The late record 1 of transaction 1 arrives at the leader of partition 0 and is taken."
    )


def test_a_run_ends_only_where_no_coordinator_has_anything_to_do() -> None:
    setup = Setup(V1)
    state = initial_state(setup)
    assert ending(state, setup) is not None
    known = state.coordinated[0]
    ongoing = known._replace(status=known.status._replace(status=1))
    assert ending(state._replace(coordinated=(ongoing,)), setup) is None


def test_an_empty_budget_leaves_the_findings_incomplete() -> None:
    asked_nowhere_else = replace(V1, name="of this test")
    found = TRANSACTIONS.examine(Setup(asked_nowhere_else, size=1), Budget(50))
    assert not found.complete
    assert found.stories == {}
