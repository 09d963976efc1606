"""The oracle's findings in transactions, against cases worked out by hand."""

from typing import Any

import pytest

from kafka_chaos.verification.transactions.evidence import SLACK_NS
from tests.verification.oracle.rows import (
    Assigned,
    Case,
    LaneHistory,
    Produced,
    Read,
    Replicated,
    Stored,
    Transaction,
    View,
    fates_of,
)
from tests.verification.oracle.transactions import Transactions, find_in_transactions

SECOND = 1_000_000_000


def lane(*records: tuple[int, int], outcomes: str = "", **rows: Any) -> LaneHistory:
    """Records by (producer, transaction), in their order in partition 0, and how the transactions ended, C, A or I."""
    numbers: dict[int, int] = {}
    made = LaneHistory(log=[], timeout_ms=1000)
    assert made.log is not None
    for offset, (producer, transaction) in enumerate(records):
        seq = numbers[producer] = numbers.get(producer, -1) + 1
        made.produced.append(Produced(producer, seq, 0, offset, "ok", transaction, 10, 20))
        made.log.append(Stored(0, offset, producer, seq))
    for key, outcome in zip(dict.fromkeys(records), outcomes, strict=False):
        ended = {"C": "committed", "A": "aborted", "I": "info"}[outcome]
        made.transactions.append(Transaction(*key, f"t{key[0]}", 5, 30, ended))
    for name, given in rows.items():
        getattr(made, name).extend(given)
    return made


def marker(producer: int, offset: int, kind: str = "commit", broker: int = 1) -> Replicated:
    return Replicated(0, broker, offset, 0, producer, -1, kind)


def found(made: LaneHistory, anomaly: str) -> list[tuple[Case, str | None]]:
    return [(one.case, one.cause) for one in find_in_transactions(View(made)) if one.case.anomaly == anomaly]


def test_a_record_s_fate_is_the_next_marker_of_its_transactional_id() -> None:
    made = lane(
        (0, 0), (1, 0), (2, 0), (3, 0), outcomes="CCC", replicas=[marker(2, 4), marker(1, 5, "abort"), marker(3, 6)]
    )
    # Producers 0 and 2 are incarnations of one id; of producer 3 no transaction is known.
    made.transactions = [
        row._replace(transactional_id="one" if row.producer_id in (0, 2) else "two") for row in made.transactions
    ]
    made.replicas += [marker(1, 5, "commit", broker=2), marker(0, 2, "abort")]
    assert [fates_of(made)[row] for row in made.log or ()] == ["abort", "commit", "commit", "commit"]


def test_what_ends_last_is_the_last_moment() -> None:
    assert Transactions(View(LaneHistory(timeout_ms=1))).ends_ns() == 0
    made = lane((0, 0), outcomes="C")
    assert Transactions(View(made)).ends_ns() == 30
    made.transactions[0] = made.transactions[0]._replace(end_ns=None)
    assert Transactions(View(made)).ends_ns() == 20
    made.produced[0] = made.produced[0]._replace(complete_ns=None)
    assert Transactions(View(made)).ends_ns() == 10
    made.consumed.append(Read("c", 0, 0, 0, 0, 25))
    assert Transactions(View(made)).ends_ns() == 25


@pytest.mark.parametrize(("complete_ns", "last_ns"), [(20, 20), (None, 10)])
def test_an_open_transaction_was_last_written_when_its_last_record_was(complete_ns: int | None, last_ns: int) -> None:
    made = lane((0, 0), outcomes="I")
    made.produced[0] = made.produced[0]._replace(complete_ns=complete_ns)
    (end,) = Transactions(View(made)).open_ends()
    assert (end.partition, end.offset, end.producer_id, end.seq, end.transaction, end.last_ns) == (
        0,
        0,
        0,
        0,
        0,
        last_ns,
    )
    made.has_replicas = False
    assert Transactions(View(made)).open_ends() == []


@pytest.mark.parametrize(
    ("beyond", "healed_ns", "timeout_ms", "hangs"),
    [(0, 0, 1000, False), (1, 0, 1000, True), (SECOND, 0, 2000, False), (1, 21, 1000, False), (2, 21, 1000, True)],
)
def test_a_transaction_hangs_that_is_open_longer_than_its_time_out_and_the_slack(
    beyond: int, healed_ns: int, timeout_ms: int, hangs: bool
) -> None:
    made = lane((0, 0), outcomes="I", consumed=[Read("c", 0, 0, 0, 0, 20 + SLACK_NS + SECOND + beyond)])
    made.timeout_ms, made.healed_ns = timeout_ms, healed_ns
    cases = [(Case("hanging_transaction", 0, 0, 0, 0), "transaction 0 is still open")]
    assert found(made, "hanging_transaction") == (cases if hangs else [])


def test_where_a_record_was_aborted_its_first_reader_is_named() -> None:
    rows = [Read("d", 0, 0, 0, 0, 1), Read("c", 0, 0, 0, 0, 2), Read("e", 0, 1, 0, 1, 3)]
    levels = [Assigned(name, 0, "read_committed") for name in "cde"]
    made = lane((0, 0), (0, 0), outcomes="A", consumed=rows, assignments=levels, replicas=[marker(0, 2, "abort")])
    assert found(made, "aborted_read") == [
        (Case("aborted_read", 0, 0, 0, 0), "transaction 0, read by c"),
        (Case("aborted_read", 0, 1, 0, 1), "transaction 0, read by e"),
    ]


@pytest.mark.parametrize(("outcome", "is_torn"), [("C", True), ("I", True), ("A", False)])
def test_a_transaction_of_which_some_records_are_not_committed_is_torn(outcome: str, is_torn: bool) -> None:
    made = lane((0, 0), (0, 0), outcomes=outcome, replicas=[marker(0, 1)])
    case = (Case("torn_transaction", 0, 1, 0, 1), "transaction 0: 1 of 2 records are committed")
    assert found(made, "torn_transaction") == ([case] if is_torn else [])


def test_a_record_without_a_place_is_named_alone() -> None:
    made = lane((0, 0), (0, 0), outcomes="C", replicas=[marker(0, 1)])
    made.produced[1] = made.produced[1]._replace(outcome="info", offset=None)
    assert [case for case, _ in found(made, "torn_transaction")] == [Case("torn_transaction", None, None, 0, 1)]
    made.produced[1] = made.produced[1]._replace(offset=5)
    assert [case for case, _ in found(made, "torn_transaction")] == [Case("torn_transaction", None, None, 0, 1)]


def test_of_what_a_consumer_was_not_given_the_first_record_and_consumer_are_named() -> None:
    # Each consumer is given the first and the last record; d misses two of the four, c one, and so does b.
    reads = [
        Read(name, 0, offset, 0, offset, 1)
        for name, missed in (("d", 1), ("c", 2), ("b", 2))
        for offset in (0, 1, 2, 3)
        if offset != missed
    ]
    made = lane(*[(0, 0)] * 4, outcomes="C", replicas=[marker(0, 4)], consumed=reads)
    made.assignments = [Assigned(name, 0, "read_committed") for name in "bcd"]
    made.produced.reverse()
    assert found(made, "torn_transaction") == [
        (Case("torn_transaction", 0, 1, 0, 1), "transaction 0: given in part to d")
    ]
    made.consumed = [row for row in made.consumed if row.consumer != "d"]
    assert found(made, "torn_transaction") == [
        (Case("torn_transaction", 0, 2, 0, 2), "transaction 0: given in part to b")
    ]


@pytest.mark.parametrize(("sent_ns", "is_zombie"), [(40, False), (41, True)])
def test_a_zombie_s_commit_has_records_that_were_sent_after_its_successor_was_initialised(
    sent_ns: int, is_zombie: bool
) -> None:
    made = lane((0, 0), (1, 0), outcomes="CC", replicas=[marker(0, 2), marker(1, 3)])
    made.transactions = [
        row._replace(transactional_id="one", initialised_ns=(1, 40)[n]) for n, row in enumerate(made.transactions)
    ]
    made.produced[0] = made.produced[0]._replace(invoke_ns=sent_ns)
    assert [case.producer_id for case, _ in found(made, "zombie_commit")] == ([0] if is_zombie else [])


def test_of_a_cycle_of_many_producers_the_first_five_are_named() -> None:
    keys = [(producer, 0) for producer in range(7)]
    made = lane(*keys, *keys, outcomes="C" * 7, replicas=[marker(producer, 20 + producer) for producer in range(7)])
    ((case, cause),) = found(made, "dependency_cycle")
    assert (case, cause) == (Case("dependency_cycle", 0, 0, 0, 0), "7 transactions of producers 0, 1, 2, 3, 4")
