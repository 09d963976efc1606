"""Every way that a transaction can end, and the rows that it leaves: with a client that fails as it is told."""

import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.clients import recorded_producer
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer, abandon_client
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.load import TransactionalProducers, restart_times
from kafka_chaos.harness.workload.transactions.producer import ProducerLost, TransactionalProducer
from tests.harness.workload.loads import running
from tests.harness.workload.transactions.fakes import ABORTABLE, FENCED, TIMED_OUT, FakeProducer
from tests.parquet import rows_in

Failures = Mapping[str, list[KafkaError]]
NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


class Bench:
    """A producer on fake clients, and the rows that it wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables = LoadTables(folder, [LaneSpec(lane="pay", transactional={})])  # type: ignore[arg-type]
        self.clients: list[FakeProducer] = []
        self.failures: list[Failures] = []
        self.log: list[str] = []
        self.silent = False
        self.over = False

    def connect(self, configs: Mapping[str, object]) -> FakeProducer:
        failures = self.failures.pop(0) if self.failures else {}
        client = FakeProducer(configs, failures, self.log, silent=self.silent)
        self.clients.append(client)
        return client

    def producer(self, failures: Failures | None = None) -> TransactionalProducer:
        self.failures.append(failures or {})
        records = self.records({**NOBODY, "transactional.id": "pay-0"}, number=len(self.clients))
        return TransactionalProducer(records, give_up=lambda: self.over)

    def records(self, configs: Mapping[str, object], *, number: int) -> RecordedProducer:
        return RecordedProducer(
            ProducedRows(
                self.tables,
                lane="pay",
                producer_id=number,
                partitions=RoundRobin(2),
                transactional_id=configs["transactional.id"],
            ),
            topic="pay",
            record_size=100,
            configs=configs,
        )

    def written(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The rows of `produced/` and `transactions/`."""
        self.tables.close()
        produced = sorted(rows_in(self.folder / "produced"), key=lambda row: (row["producer_id"], row["seq"]))
        return produced, rows_in(self.folder / "transactions")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path)
    monkeypatch.setattr(recorded_producer, "Producer", bench.connect)
    return bench


def test_committed_and_aborted_transactions_number_their_records(bench: Bench) -> None:
    producer = bench.producer()
    producer.init()
    ends = []
    for commits in (True, False, True):
        producer.begin()
        producer.send(3)
        ends.append(producer.commit() if commits else producer.abort())
    producer.abandon()
    assert ends == ["committed", "aborted", "committed"]
    produced, transactions = bench.written()
    assert [(row["seq"], row["transaction"], row["partition"]) for row in produced] == [
        (seq, seq // 3, seq % 2) for seq in range(9)
    ]
    # The abort purges what was not acknowledged: it may have been written all the same.
    assert Counter((row["transaction"], row["outcome"], row["error"]) for row in produced) == {
        (0, "ok", None): 3, (1, "info", "_PURGE_QUEUE"): 3, (2, "ok", None): 3,
    }  # fmt: skip
    assert [(row["transaction"], row["outcome"], row["error"], row["transactional_id"]) for row in transactions] == [
        (0, "committed", None, "pay-0"), (1, "aborted", None, "pay-0"), (2, "committed", None, "pay-0"),
    ]  # fmt: skip
    assert all(row["initialised_ns"] <= row["begin_ns"] <= row["end_ns"] for row in transactions)
    assert [row["commit_ns"] is not None for row in transactions] == [True, False, True]
    assert all(row["begin_ns"] < row["commit_ns"] < row["end_ns"] for row in transactions if row["commit_ns"])


def one(bench: Bench, failures: Failures, *, commits: bool = True, over: bool = False) -> tuple[Any, dict[str, Any]]:
    """One transaction of two records with these failures: how it ended or the error, and its row."""
    producer = bench.producer(failures)
    producer.init()
    producer.begin()
    producer.send(2)
    bench.over = over
    try:
        ended = producer.commit() if commits else producer.abort()
    except ProducerLost as lost:
        ended = f"lost: {lost}"
    producer.abandon()
    _, [row] = bench.written()
    return ended, row


@pytest.mark.parametrize(
    ("failures", "commits", "expected"),
    [
        # A retriable commit is asked for again; one that has to be aborted is aborted.
        ({"commit_transaction": [TIMED_OUT, TIMED_OUT]}, True, ("committed", "committed", None)),
        ({"commit_transaction": [ABORTABLE], "abort_transaction": [TIMED_OUT]}, True,
         ("aborted", "aborted", "_MSG_TIMED_OUT")),
        # A fenced producer is lost, and says what it knows; what poll raises is told by the commit.
        ({"commit_transaction": [FENCED]}, True, ("lost: _FENCED", "info", "_FENCED")),
        ({"commit_transaction": [ABORTABLE], "abort_transaction": [FENCED]}, True,
         ("lost: _FENCED", "info", "_FENCED")),
        ({"abort_transaction": [FENCED]}, False, ("lost: _FENCED", "aborted", "_FENCED")),
        ({"poll": [FENCED], "commit_transaction": [TIMED_OUT, FENCED]}, True, ("lost: _FENCED", "info", "_FENCED")),
    ],
)  # fmt: skip
def test_how_a_transaction_ends(bench: Bench, failures: Failures, commits: bool, expected: tuple[object, ...]) -> None:
    ended, row = one(bench, failures, commits=commits)
    assert (ended, row["outcome"], row["error"]) == expected
    assert row["end_ns"] is not None
    calls = bench.clients[0].calls
    for name in ("commit_transaction", "abort_transaction"):
        if name in failures and "poll" not in failures:
            is_asked_again = TIMED_OUT in failures[name]
            assert calls.count(name) == len(failures[name]) + is_asked_again
    assert calls[-1] == "close"


def test_an_end_without_an_answer_is_left_once_the_load_gives_up(bench: Bench) -> None:
    ended, row = one(bench, {"commit_transaction": [TIMED_OUT] * 1_000}, over=True)
    assert (ended, row["outcome"], row["error"], row["end_ns"]) == ("lost: _TIMED_OUT", "info", "_TIMED_OUT", None)
    assert bench.clients[0].calls.count("commit_transaction") == 1


def test_what_is_left_behind_open_was_never_committed(bench: Bench) -> None:
    bench.silent = True
    producer = bench.producer()
    producer.init()
    producer.begin()
    producer.send(2)
    producer.abandon()
    produced, [row] = bench.written()
    assert (row["outcome"], row["end_ns"], row["error"]) == ("aborted", None, None)
    assert [row["outcome"] for row in produced] == ["info", "info"]
    assert "close" not in bench.clients[0].calls, "it would abort the transaction"


def test_a_record_that_the_client_refuses_was_not_written(bench: Bench) -> None:
    refused = KafkaError(KafkaError._STATE, "the transaction failed")
    ended, _ = one(bench, {"produce": [refused], "commit_transaction": [ABORTABLE]})
    assert ended == "aborted"
    produced, _ = bench.written()
    assert [(row["outcome"], row["error"]) for row in produced] == [("fail", "_STATE"), ("ok", None)]


Load = Callable[..., tuple[list[str], list[dict[str, Any]]]]


@pytest.fixture
def load(bench: Bench) -> Load:
    """Runs a load on fake clients until `until` holds; returns notices and the rows of `transactions/`."""

    def run(*, until: Callable[[], bool], seconds: float = 0.0, reader: Any = None, **transactional: object) -> Any:
        lane = LaneSpec(lane="pay", partitions=2, transactional=transactional)  # type: ignore[arg-type]
        notices: list[str] = []
        workload = WorkloadSpec(rate=2_000, duration=seconds)
        told: Any = {"tables": bench.tables, "on_notice": notices.append}
        load = LoadSettings(bootstrap_servers="127.0.0.1:1", workload=workload, seed=7, **told)
        configs = load.producer_configs(lane)

        def connect(number: int, transactional_id: str) -> RecordedProducer:
            return bench.records({**configs, "transactional.id": transactional_id}, number=number)

        producing = TransactionalProducers(lane, connect, load, None if reader is None else lambda reads_for: reader)
        thread, sending = running(producing)
        deadline = time.monotonic() + 20
        while not until() and time.monotonic() < deadline and sending.is_set():
            time.sleep(0.005)
        sending.clear()
        thread.join()
        producing.finish(0.3, threading.Event())
        assert producing.acknowledged <= producing.sent
        return notices, bench.written()[1]

    return run


def test_each_producer_has_its_own_ids_and_a_share_is_aborted(bench: Bench, load: Load) -> None:
    notices, rows = load(until=lambda: len(bench.log) > 400, size=5, producers=3, abort=0.5)
    assert notices == []
    ids = {(row["producer_id"], row["transactional_id"]) for row in rows}
    assert ids == {(0, "pay-0"), (1, "pay-1"), (2, "pay-2")}
    outcomes = Counter(row["outcome"] for row in rows)
    assert set(outcomes) == {"committed", "aborted"}
    assert 0.25 < outcomes["aborted"] / outcomes.total() < 0.75


def test_a_transaction_reads_between_its_records(bench: Bench, load: Load) -> None:
    reads: list[tuple[int, tuple[int, int]] | str] = []

    class Reader:
        def poll(self, timeout: float, transaction: tuple[int, int]) -> None:
            reads.append((bench.clients[0].calls.count("produce"), transaction))

        def close(self) -> None:
            reads.append("closed")

    load(until=lambda: len(reads) > 3, reader=Reader(), size=5, reads=True)
    (sent, first), (sent_later, second) = reads[:2]
    # A thread that is late writes several times as many records in one transaction.
    assert (first, second) == ((0, 0), (0, 1))
    assert 3 <= sent < sent_later
    assert reads[-1] == "closed"
    assert bench.clients[0].calls.count("produce") > reads[-2][0]


def test_the_seed_decides_which_are_aborted(bench: Bench, load: Load) -> None:
    _, rows = load(until=lambda: len(bench.log) > 100, size=2, abort=0.5)
    numbered = sorted((row["transaction"], row["outcome"]) for row in rows)[:12]
    assert "".join(outcome[0] for _, outcome in numbered) == "cccccacaaacc"


def test_a_producer_whose_commits_take_long_keeps_its_rate(
    bench: Bench, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With as many records in each as the lane's size says, it would write 40 of the 2,000 records a second."""
    commit = FakeProducer.commit_transaction
    monkeypatch.setattr(
        FakeProducer, "commit_transaction", lambda self, timeout: (time.sleep(0.05), commit(self, timeout))
    )
    until = time.monotonic() + 1.0
    _, rows = load(until=lambda: time.monotonic() > until, size=2)
    produced, _ = bench.written()
    sizes = Counter(row["transaction"] for row in produced)
    assert len(produced) > 1_000
    assert {size % 2 for size in sizes.values()} == {0}
    assert len(rows) < 30


def test_a_lost_producer_comes_back_under_its_id(bench: Bench, load: Load) -> None:
    bench.failures = [{"commit_transaction": [FENCED]}]
    notices, rows = load(until=lambda: len(bench.log) > 40, size=2)
    assert notices == ["pay-0: producer 0 is lost: _FENCED"]
    assert rows[0]["outcome"] == "info"
    assert {row["producer_id"] for row in rows[1:]} == {1}
    assert {row["transactional_id"] for row in rows} == {"pay-0"}
    assert bench.log[:5] == [
        *("pay-0 init_transactions", "pay-0 begin_transaction", "pay-0 commit_transaction"),
        *("pay-0 init_transactions", "pay-0 begin_transaction"),
    ]


def test_a_killed_producer_is_fenced_and_then_asks_for_its_commit(bench: Bench, load: Load) -> None:
    bench.failures = [{"commit_transaction": [FENCED]}]
    notices, rows = load(until=lambda: len(bench.clients) > 1 and len(bench.log) > 40, size=4, restarts=1)
    assert notices == ["pay-0: producer 0 was killed and came back: _FENCED"]
    # The next one has begun before the zombie asks.
    assert bench.log[:5] == [
        *("pay-0 init_transactions", "pay-0 begin_transaction", "pay-0 init_transactions"),
        *("pay-0 commit_transaction", "pay-0 begin_transaction"),
    ]
    [zombie] = [row for row in rows if row["producer_id"] == 0]
    assert (zombie["outcome"], zombie["error"]) == ("info", "_FENCED")
    assert bench.clients[0].calls.count("produce") == 4


def test_a_producer_that_cannot_begin_fails_the_load(bench: Bench, load: Load) -> None:
    refused = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not you", fatal=True)
    bench.failures = [{"init_transactions": [refused]}] * 3
    with pytest.raises(ClusterFailure, match="the producer pay-0 can't begin its transactions: not you"):
        load(until=lambda: False)


def test_a_coordinator_that_never_answers_does_not_hold_the_load(bench: Bench, load: Load) -> None:
    bench.failures = [{"init_transactions": [TIMED_OUT] * 1_000}]
    start = time.monotonic()
    _, rows = load(until=lambda: len(bench.log) > 3)
    assert rows == []
    assert time.monotonic() - start < 5


def test_what_a_lost_client_warns_of_at_its_end_is_nobody_s_concern() -> None:
    class Lost:
        def close(self) -> None:
            warnings.warn("Producer abort_transaction failed during close: fenced", RuntimeWarning, stacklevel=2)
            raise SystemError

    with warnings.catch_warnings(record=True) as seen:
        abandon_client(Lost(), open_transaction=False)  # type: ignore[arg-type]
    assert seen == []


def test_restarts_are_even_and_in_turn_and_records_time_out_before_their_transaction(bench: Bench) -> None:
    settings = LaneSpec(lane="pay", transactional={"producers": 2, "restarts": 3}).transactional  # type: ignore[arg-type]
    assert settings is not None
    assert [restart_times(settings, number, 40) for number in (0, 1)] == [[10, 30], [20]]
    load = LoadSettings(bootstrap_servers="", workload=WorkloadSpec(), tables=bench.tables, on_notice=print)
    for given, expected in (({}, 5_000), ({"message.timeout.ms": 0}, 5_000), ({"delivery.timeout.ms": 4_000}, 4_000)):
        lane = LaneSpec(lane="pay", transactional={"timeout_ms": 5_000}, producer_configs=given)  # type: ignore[arg-type]
        configs = load.producer_configs(lane)
        assert (configs["transaction.timeout.ms"], configs["message.timeout.ms"]) == (5_000, expected)
        assert "delivery.timeout.ms" not in configs
    assert (configs["enable.idempotence"], configs["acks"]) == (True, "all")
