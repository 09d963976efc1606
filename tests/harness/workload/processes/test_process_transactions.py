"""Transactions of a process, called as librdkafka's: what it says becomes their rows, and its lies are problems."""

import threading
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.processes.producer import ProcessProducer
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.producer import ProducerLost, TransactionalProducer
from tests.harness.workload.processes.test_processes import Started
from tests.parquet import rows_in

TRANSACTIONS = """
def committed(): tell("transaction", did="commit")
def aborted(): tell("transaction", did="abort")
def take(order):
    what = order["order"]
    if what == "produce": ok(order)
    elif what == "commit": committed()
    elif what == "abort": aborted()
    elif what == "leave": sys.exit(0)
%s
tell("ready", client="fake", version="1.2")
for line in sys.stdin: take(json.loads(line))
sys.exit(0)
"""


class Transacting:
    """A producer whose fake process has this behaviour, and the rows of its transactions."""

    def __init__(self, behaviour: str, tmp_path: Path) -> None:
        self.rows: list[dict[str, Any]] = []
        self.tables = LoadTables(tmp_path)
        self.started = Started("", tmp_path, before=TRANSACTIONS % behaviour)
        self.records = ProcessProducer(
            self.started,
            ProducedRows(self.tables, lane="orders", producer_id=3, partitions=InTurn(2), transactional_id="orders-0"),
        )
        self.gives_up = threading.Event()
        self.transactions = TransactionalProducer(
            self.records, transactional_id="orders-0", rows=self.rows.append, give_up=self.gives_up.is_set
        )

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


def test_a_commit_that_fails_is_aborted(tmp_path: Path) -> None:
    made = Transacting('def committed(): tell("transaction", did="commit", error="TimedOut: a record")', tmp_path)
    made.transactions.init()
    made.begins()
    assert made.transactions.commit() == "aborted"
    made.close()
    assert made.outcomes() == [("aborted", "TimedOut")]


def test_one_that_can_t_abort_either_is_lost_and_its_commit_in_doubt(tmp_path: Path) -> None:
    made = Transacting(
        """
def committed(): tell("transaction", did="commit", error="ProducerFencedException: fenced")
def aborted(): tell("transaction", did="abort", error="ProducerFencedException: fenced")
""",
        tmp_path,
    )
    made.transactions.init()
    made.begins()
    with pytest.raises(ProducerLost, match="ProducerFencedException"):
        made.transactions.commit()
    made.close()
    assert made.outcomes() == [("info", "ProducerFencedException")]
    assert made.started.problems == []


def test_one_that_dies_amid_its_commit_is_lost_with_a_problem(tmp_path: Path) -> None:
    made = Transacting("def committed(): os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    made.transactions.init()
    made.begins()
    with pytest.raises(ProducerLost, match="lost"):
        made.transactions.commit()
    made.close()
    assert made.outcomes() == [("info", "lost")]
    assert "ended unexpectedly, with exit code -9" in made.started.problems[0]


def test_one_that_is_silent_is_given_up(tmp_path: Path) -> None:
    made = Transacting("def committed(): pass", tmp_path)
    made.transactions.init()
    made.begins()
    threading.Timer(0.5, made.gives_up.set).start()
    with pytest.raises(ProducerLost, match="_TIMED_OUT"):
        made.transactions.commit()
    made.close()
    assert made.outcomes() == [("info", "_TIMED_OUT")]


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ("def ok(order): pass", "said that a transaction has ended while 4 records had no outcome"),
        (
            'def committed(): tell("transaction", did="abort")',
            "the end of a transaction, 'abort', that nobody has asked",
        ),
        (
            'def ok(order): tell("transaction", did="commit")',
            "the end of a transaction, 'commit', that nobody has asked",
        ),
        ('def committed(): tell("transaction")', "missing 1 required positional argument: 'did'"),
    ],
)
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
