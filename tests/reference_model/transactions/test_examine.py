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


@pytest.mark.slow
@pytest.mark.parametrize(("late", "failovers"), [(1, 1), (2, 0)])
@pytest.mark.parametrize("rules", [V1, V1_UNVERIFIED, V2], ids=["v1", "v1 unverified", "v2"])
def test_a_larger_scope_breaks_nothing_either(rules: Rules, late: int, failovers: int) -> None:
    search, first = TRANSACTIONS.search(ALL, Setup(rules, late_requests=late, failovers=failovers), Budget(5_000_000))
    assert (search.complete, first) == (True, {})


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 2], ids=["one partition", "two partitions"])
def test_producers_beside_each_other_are_not_isolated(partitions: int) -> None:
    """Kafka promises atomicity and order per producer: writes of concurrent transactions interleave."""

    def asked(size: int) -> Findings[A]:
        question = Setup(V2, ids=(0, 0, 1), size=size, partitions=partitions)
        return TRANSACTIONS.examine(question, Budget(5_000_000))

    assert asked(2).stories.keys() == {A.DEPENDENCY_CYCLE}
    assert (asked(1).complete, asked(1).stories) == (True, {})


@pytest.mark.slow
def test_a_late_end_leaves_records_hanging_where_leaders_do_not_verify() -> None:
    stories = stories_with(replace(V1_UNVERIFIED, late_kinds=V1_UNVERIFIED.late_kinds | {Kind.END}), 1, 1)
    assert {A.LOST_TRANSACTION, A.HANGING_TRANSACTION} <= stories.keys()


def test_a_late_record_hangs_where_leaders_do_not_verify() -> None:
    """KAFKA-14402."""
    late_record = replace(V1_UNVERIFIED, late_kinds=V1_UNVERIFIED.late_kinds | {Kind.PRODUCE})
    stories = TRANSACTIONS.stories({A.HANGING_TRANSACTION}, Setup(late_record, size=1, partitions=1))
    assert stories[A.HANGING_TRANSACTION][-2] == (
        "The late record 1 of transaction 1 arrives at the leader of partition 0 and is taken."
    )


def test_a_run_ends_only_where_no_coordinator_has_anything_to_do() -> None:
    setup = Setup(V1)
    state = initial_state(setup)
    assert ending(state, setup) is not None
    known = state.coordinated[0]
    ongoing = known._replace(last_entry=known.last_entry._replace(status=1))
    assert ending(state._replace(coordinated=(ongoing,)), setup) is None
