"""Transactions of a process, called as librdkafka's: what it says becomes their rows, and its lies are problems."""

import threading
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.process_clients import ProcessProducer
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.producer import ProducerLost, TransactionalProducer
from tests.harness.workload.processes.fake_client import Started
from tests.parquet import rows_in


class Transacting:
    """A producer whose fake process has this behaviour, and the rows of its transactions."""

    def __init__(self, behaviour: str, tmp_path: Path) -> None:
        self.rows: list[dict[str, Any]] = []
        self.tables = LoadTables(tmp_path)
        self.started = Started(behaviour, tmp_path)
        rows = ProducedRows(
            self.tables, lane="orders", producer_id=3, partitions=RoundRobin(2), transactional_id="orders-0"
        )
        self.records = ProcessProducer(self.started, rows)
        self.gives_up = threading.Event()
        rows.add_transaction = self.rows.append
        self.transactions = TransactionalProducer(self.records, give_up=self.gives_up.is_set)

    def begins(self, count: int = 4) -> None:
        self.transactions.begin()
        self.transactions.send(count)

    def outcomes(self) -> list[tuple[str, str | None]]:
        return [(row["outcome"], row["error"]) for row in self.rows]

    def close(self) -> list[dict[str, Any]]:
        """Its rows of produced/."""
        self.transactions.abandon()
        self.tables.close()
        return rows_in(self.tables.run_directory / "produced")


def test_transactions_have_rows_and_records_name_theirs(tmp_path: Path) -> None:
    made = Transacting("", tmp_path)
    made.transactions.init()
    made.begins()
    assert made.transactions.commit() == "committed"
    made.begins(2)
    assert made.transactions.abort() == "aborted"
    made.begins(1)
    made.transactions.deliver(20)
    produced = made.close()
    assert made.outcomes() == [("committed", None), ("aborted", None), ("aborted", None)]
    assert [row["transaction"] for row in produced] == [0, 0, 0, 0, 1, 1, 2]
    assert {row["outcome"] for row in produced} == {"ok"}
    assert {row["transactional_id"] for row in made.rows} == {"orders-0"}
    assert all(row["initialised_ns"] is not None for row in made.rows)
    assert made.started.problems == []
    assert made.started.process.exit_code == -9, "an open transaction is left behind by a kill"


@pytest.mark.parametrize("seconds", [0.1, 0.25, 0.6])
def test_a_commit_that_takes_longer_is_asked_for_once(tmp_path: Path, seconds: float) -> None:
    made = Transacting(f'def committed(): time.sleep({seconds}); tell("transaction", did="commit")', tmp_path)
    made.transactions.init()
    for _ in range(2):
        made.begins(1)
        assert made.transactions.commit() == "committed"
    made.close()
    assert made.started.problems == []


FAILS = 'tell("transaction", did="{0}", error="ProducerFencedException: fenced")'


@pytest.mark.parametrize(
    ("behaviour", "ended", "row", "problem"),
    [
        ('def committed(): tell("transaction", did="commit", error="TimedOut: a record")', "aborted",
         ("aborted", "TimedOut"), ""),
        (f"def committed(): {FAILS.format('commit')}\ndef aborted(): {FAILS.format('abort')}",
         "lost: ProducerFencedException", ("info", "ProducerFencedException"), ""),
        ("def committed(): os.kill(os.getpid(), signal.SIGKILL)", "lost: lost", ("info", "lost"),
         "ended unexpectedly, with exit code -9"),
        ("def committed(): pass", "lost: _TIMED_OUT", ("info", "_TIMED_OUT"), ""),
    ],
    ids=["aborted instead", "no abort either", "dies amid its commit", "silent until it is given up"],
)  # fmt: skip
def test_a_commit_that_does_not_succeed(
    tmp_path: Path, behaviour: str, ended: str, row: tuple[str, str], problem: str
) -> None:
    made = Transacting(behaviour, tmp_path)
    made.transactions.init()
    made.begins()
    if row[1] == "_TIMED_OUT":
        threading.Timer(0.5, made.gives_up.set).start()
    try:
        outcome = made.transactions.commit()
    except ProducerLost as lost:
        outcome = f"lost: {lost}"
    made.close()
    assert (outcome, made.outcomes()) == (ended, [row])
    assert [problem in one for one in made.started.problems] == ([True] if problem else [])


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ("def ok(order): pass", "said that a transaction has ended while 4 records had no outcome"),
        ('def committed(): tell("transaction", did="abort")',
         "the end of a transaction, 'abort', that nobody has asked"),
        ('def ok(order): tell("transaction", did="commit")',
         "the end of a transaction, 'commit', that nobody has asked"),
        ('def committed(): tell("transaction")', "missing 1 required positional argument: 'did'"),
    ],
)  # fmt: skip
def test_ends_that_can_t_be_so_are_problems(tmp_path: Path, behaviour: str, problem: str) -> None:
    made = Transacting(behaviour, tmp_path)
    made.transactions.init()
    made.begins()
    threading.Timer(2.0, made.gives_up.set).start()
    if behaviour.startswith("def ok") and "commit" in behaviour:
        wait_until(lambda: made.started.problems, "the problem", timeout=20)
    with pytest.raises(ProducerLost):
        made.transactions.commit()
    made.close()
    assert problem in made.started.problems[0]
