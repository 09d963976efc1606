"""Clients as processes, well-behaved and broken, without brokers: what becomes of what they say."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.signals import CLIENT_NICE
from kafka_chaos.harness.workload.client_process import MAX_LINE_CHARACTERS
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.process_clients import ProcessConsumer, ProcessProducer
from kafka_chaos.harness.workload.tables import LoadTables
from tests.harness.workload.loads import load_of
from tests.harness.workload.processes.fake_client import Started
from tests.parquet import rows_in

PAID = LaneSpec(lane="orders", partitions=2, transactional={})  # type: ignore[arg-type]


class Produced:
    """The rows and problems of a fake producer with this behaviour after some records."""

    def __init__(
        self,
        behaviour: str,
        tmp_path: Path,
        *,
        records: int = 6,
        timeout: float = 20.0,
        most: int = 4_000,
        breaks: bool = False,
        answers: int = 0,
        **of: str,
    ) -> None:
        tables = LoadTables(tmp_path)
        self.started = Started(behaviour, tmp_path, **of)
        self.producer = ProcessProducer(
            self.started, ProducedRows(tables, lane="orders", producer_id=3, partitions=RoundRobin(2))
        )
        sent, calls = 0, 0
        while sent < records and not self.producer.failed_for_good and calls < records:
            sent += self.producer.send(min(most, records - sent))
            calls += 1
            self.producer.poll(0.01 if calls % 500 == 1 else 0)
        rows = self.producer.rows
        wait_until(lambda: rows.sent - len(rows.pending) >= answers, "so many outcomes", timeout=30)
        if breaks:
            wait_until(lambda: self.problem or not self.producer.unanswered, "an outcome or a problem", timeout=30)
        self.producer.finish(timeout, threading.Event())
        tables.close()
        self.rows = sorted(rows_in(tmp_path / "produced"), key=lambda one: one["seq"])

    @property
    def problem(self) -> str:
        assert len(self.started.problems) <= 1
        return next(iter(self.started.problems), "")


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ("print('Exception in thread main', flush=True)", "said 'Exception in thread main', which is not an event"),
        ("print('[1, 2]', flush=True)", "which is not an event of the client protocol"),
        ('print(\'{"event": "red"}\', flush=True)', "a producer has no event 'red'"),
        ("tell('outcome', outcome='ok', seq=[99], offset=[0])", "of record 99, which it was not told to send"),
        ("def produced(order): tell('flushed'); ok(order)", "has flushed while 6 records had no outcome"),
        ("def produced(order): ok(order); ok(order)", "a second outcome of a record"),
        ("def produced(order): tell('outcome', outcome='ok', seq=[1, 1])", "two outcomes of one record"),
        ("def produced(order): tell('outcome', outcome='ok', seq=[0], offset=[-1])", "of at least 0 or null"),
        ("def produced(order): tell('outcome', outcome='ok', seq=[0, 1], offset=[1])", "an offset for every seq"),
        ("def produced(order): tell('outcome', outcome='ok', seq=[0.5])", "seq: a list of whole numbers"),
        ("def produced(order): tell('outcome', outcome='ok', seq=[True])", "seq: a list of whole numbers"),
        ("def produced(order): tell('outcome', outcome='ok', seq='0')", "seq: a list of whole numbers"),
        ("def produced(order): tell('outcome', outcome='lost', seq=[0], error='x')", "'lost' is not a valid Outcome"),
        ("def produced(order): tell('outcome', outcome='ok', seq=[0], error='x')", "the outcome ok with an error"),
        ("def produced(order): tell('outcome', outcome='info', seq=[0])", "the outcome info without its error"),
        ("def produced(order): tell('outcome', seq=[0])", "missing 1 required positional argument: 'outcome'"),
        ("def produced(order): os.kill(os.getpid(), signal.SIGKILL)", "ended unexpectedly, with exit code -9"),
        ("def produced(order): sys.exit(0)", "ended unexpectedly, with exit code 0"),
        ("def produced(order): tell('error', text='no such topic')", "no such topic"),
        ("def left(): sys.exit(5)", "left with exit code 5"),
        (f"print('x' * {MAX_LINE_CHARACTERS + 5}, flush=True)", "wrote a line of more than"),
        ("sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.stdout.flush()", "which is not an event of the client"),
    ],
)
def test_what_breaks_the_protocol_is_a_problem_with_the_last_lines(
    tmp_path: Path, behaviour: str, problem: str
) -> None:
    behaviour = f"print('a line of the log', file=sys.stderr)\n{behaviour}"
    made = Produced(behaviour, tmp_path, timeout=0.3, breaks=True)
    assert problem in made.problem
    assert "a line of the log" in made.started.last_lines[-1]
    assert [row["seq"] for row in made.rows] == list(range(made.producer.sent))
    assert {row["outcome"] for row in made.rows if row["complete_ns"] is None} <= {"info"}


def test_one_that_reads_no_orders_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_chaos.harness.workload.process_clients._LEAVE_TIMEOUT_S", 0.5)
    made = Produced("time.sleep(60)", tmp_path, records=20_000, timeout=0.1, most=1)
    assert 0 < made.producer.sent < 10_000, "no more is handed out than the pipe holds"
    assert made.problem == f"{made.producer.sent} of {made.producer.sent} records never got an outcome"
    assert [row["seq"] for row in made.rows] == list(range(made.producer.sent))


def test_a_script_s_client_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_chaos.harness.workload.process_clients._LEAVE_TIMEOUT_S", 0.5)
    made = Produced(
        """
import subprocess
subprocess.Popen(["sleep", "600"])
def produced(order): tell("notice", text="now"); time.sleep(600)
""",
        tmp_path,
        timeout=0.1,
    )
    assert made.started.process.exit_code == -9
    assert made.started.process.join(5.0), "nobody holds its standard output any more"


def test_what_comes_before_ready_breaks_the_protocol(tmp_path: Path) -> None:
    made = Produced("", tmp_path, before="tell('flushed')")
    assert made.problem.startswith("the event 'flushed' came before the event 'ready'")


@pytest.mark.parametrize(
    ("version", "problem"), [("1", ""), ("1.2", ""), ("1.2.0", "fake 1.2, not 1.2.0"), ("1.3", "1.2, not 1.3")]
)
def test_another_version_than_was_asked_for_is_a_problem(tmp_path: Path, version: str, problem: str) -> None:
    made = Produced("tell('notice', text='hello')", tmp_path, version=version)
    assert (made.started.ready, made.started.notices) == ([("fake", "1.2")], ["fake: hello"])
    assert problem in made.problem
    assert bool(problem) == bool(made.problem)


@pytest.mark.skipif(sys.platform != "linux", reason="it does so on Linux alone")
def test_it_yields_to_brokers(tmp_path: Path) -> None:
    made = Produced("import os; tell('notice', text=str(os.getpriority(os.PRIO_PROCESS, 0)))", tmp_path)
    assert made.started.notices == [f"fake: {CLIENT_NICE}"]


def test_one_that_does_not_leave_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_chaos.harness.workload.process_clients._LEAVE_TIMEOUT_S", 0.5)
    made = Produced("def left(): time.sleep(60)", tmp_path)
    assert made.problem == "did not leave within 0.5 s"
    assert made.started.process.exit_code == -9


Consume = Callable[..., list[str]]


@pytest.fixture
def consume(tmp_path: Path) -> Consume:
    """Reads by a fake client with this behaviour, up to the ends of both partitions."""

    def run(behaviour: str, *, fewest: int = 2, timeout: float = 0.2, starts: Any = (), **options: Any) -> list[str]:
        started, load = Started(behaviour, tmp_path), load_of(tmp_path, PAID, start_offsets={PAID.lane: dict(starts)})
        consumer = ProcessConsumer(started, PAID, load, **options)
        wait_until(lambda: consumer.consumed >= fewest or started.problems, "the fake client", timeout=30)
        consumer.drain({0: 6, 1: 10}, timeout=timeout)
        consumer.close()
        load.tables.close()
        return started.problems

    return run


READ = "tell('read', partition=[0, 1], offset=[4, 9], producer_id=[3, -1], seq=[8, -1], leader_epoch=[2, None])\n"


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        (READ, "did not reach the end: partition 0 was read up to offset 5 of 6"),
        ("tell('read', partition=[2], offset=[0], producer_id=[0], seq=[0])", "there is no partition 2"),
        ("tell('read', partition=[0], offset=[-3], producer_id=[0], seq=[0])", "offsets of at least 0"),
        ("tell('read', partition=[0, 1], offset=[1], producer_id=[0], seq=[0])", "columns of one length"),
        ("tell('read', partition=[0], offset=[0], producer_id=[0], seq=[0], ns=1)", "unexpected keyword argument 'ns'"),
        ("tell('read', partition=[0], offset=[1], seq=[0])", "missing 1 required positional argument"),
        ("tell('flushed')", "a consumer has no event 'flushed'"),
        ("sys.exit(3)", "ended unexpectedly, with exit code 3"),
    ],
)
def test_a_consumer_that_breaks_the_protocol_has_a_problem(consume: Consume, behaviour: str, problem: str) -> None:
    (told,) = consume(behaviour)
    assert problem in told


def test_a_partition_that_got_no_record_since_the_run_began_is_at_its_end(consume: Consume) -> None:
    read = "tell('read', partition=[1], offset=[9], producer_id=[3], seq=[0])"
    assert consume(read, fewest=1, timeout=10, starts={0: 6, 1: 9}) == []


def test_what_was_in_the_topic_before_the_run_has_no_row(consume: Consume, tmp_path: Path) -> None:
    read = "tell('read', partition=[1, 0, 1], offset=[8, 5, 9], producer_id=[-1, 3, 3], seq=[-1, 1, 0])"
    assert consume(read, timeout=10, starts={0: 5, 1: 9}) == []
    assert [(row["partition"], row["offset"]) for row in rows_in(tmp_path / "consumed")] == [(0, 5), (1, 9)]


def test_what_is_passed_over_counts_as_read_where_transactions_are(consume: Consume, tmp_path: Path) -> None:
    behaviour = READ + "tell('at_end', offsets=[[0, 6], [1, 10]])\ntell('assigned')\n" + READ
    behaviour += "tell('at_end', offsets=[[0, 6], [1, 10]])"
    assert consume(behaviour, fewest=4, timeout=10, isolation="read_committed") == []
    found = rows_in(tmp_path / "assignments")
    name = "orders-read_committed"
    assert {(row["consumer"], row["member"], row["partition"], row["isolation"]) for row in found} == {
        (f"{name}-{number}", name, partition, "read_committed") for number in (1, 2) for partition in (0, 1)
    }
    assert all(row["start_ns"] <= row["end_ns"] for row in found)
    assert {row["consumer"] for row in rows_in(tmp_path / "consumed")} == {f"{name}-1", f"{name}-2"}


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ("tell('at_end', offsets=[[0, 3], [1, 10]])", "stands at offset 3 of partition 0, and was at 5 before"),
        ("tell('at_end', offsets=[[0, 90], [1, 10]])", "stands beyond the end of partition 0"),
        ("tell('at_end', offsets=[[7, 9]])", "is not an event of the client protocol: 7"),
    ],
)
def test_a_place_where_no_consumer_can_stand_is_a_problem(consume: Consume, told: str, problem: str) -> None:
    assert problem in consume(f"{READ}{told}", timeout=0.5, isolation="read_committed")[0]
