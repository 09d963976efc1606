"""Calls that take long are told of, whichever driver makes them; short ones leave no trace."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import CallNoted
from kafka_chaos.contract.lane.recovery import CALLS
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.calls import Calls
from kafka_chaos.harness.workload.clients.consumed import Readers
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.producers import PacedProducers
from kafka_chaos.harness.workload.groups.rows import LoopRows
from kafka_chaos.harness.workload.process_clients import ProcessProducer
from kafka_chaos.harness.workload.transactions.producer import ProducerLost, TransactionalProducer
from tests.harness.workload.clients.test_paced_producing import Sender
from tests.harness.workload.loads import load_of, running
from tests.harness.workload.transactions.fakes import TIMED_OUT, FakeProducer

LONG = 0.1


@pytest.fixture
def noted() -> list[CallNoted]:
    return []


@pytest.fixture
def calls(noted: list[CallNoted]) -> Iterator[Calls]:
    watched = Calls(noted.append, seconds=LONG)
    watched.start()
    yield watched
    watched.close()


def unanswered(noted: list[CallNoted]) -> list[tuple[str, str, str]]:
    """The calls that have no answer, by what was told of them last."""
    last = {(one.lane, one.client, one.call, one.began_ns): one for one in noted}
    return [key[:3] for key, call in last.items() if call.ended_ns is None]


def test_a_long_call_is_told_of_at_once_and_when_it_ends_and_a_short_one_never(
    noted: list[CallNoted], calls: Calls
) -> None:
    with calls.awaiting("a", "a-0", "send"):
        pass
    number = calls.note_begin("a", "a-0", "flush")
    wait_until(lambda: bool(noted), "the open call to be told of", timeout=10)
    assert unanswered(noted) == [("a", "a-0", "flush")]
    calls.note_end(number)
    assert [(one.call, one.began_ns) for one in noted] == [("flush", noted[0].began_ns)] * 2
    assert noted[1].ended_ns is not None
    assert noted[1].ended_ns - noted[1].began_ns >= LONG * 1e9
    assert unanswered(noted) == []
    calls.note_end(calls.note_begin("a", "a-0", "send"), "_FATAL")
    assert noted[2].error == "_FATAL", "a producer that failed for good is told of, however fast that was"


class Records:
    """In place of a lane's producer: `client` answers to no call of the kind `silent`, and its queue may be full."""

    lane, producer_id = "pay", 0
    rows: Any = Mock(lane=lane, producer_id=producer_id, transactional_id="pay-0")

    def __init__(self, client: Any, *, is_full: bool = False) -> None:
        self.client = client
        self.is_full = is_full

    def send(self, count: int) -> int:
        return 0 if self.is_full else count

    def poll(self, timeout: float) -> int:
        time.sleep(0.005)
        return 0

    def abandon(self, *, open_transaction: bool) -> int:
        return 0


def client_of(kind: str, silent: str) -> Any:
    if kind == "in process":
        return FakeProducer({"transactional.id": "pay-0"}, {silent: [TIMED_OUT] * 1_000}, [], silent=False)
    rows: Any = SimpleNamespace(lane="pay", producer_id=0, pending={}, handle_outcome=print)
    mute = Mock(is_ready=silent != "init_transactions", problem=None, has_ended=threading.Event())
    return ProcessProducer(lambda _: mute, rows)


@pytest.mark.parametrize(
    ("kind", "silent"),
    [
        *(("in process", call) for call in ("init_transactions", "commit_transaction", "abort_transaction")),
        *(("in process", call) for call in ("send_offsets_to_transaction", "send")),
        *(("process", call) for call in ("init_transactions", "commit_transaction", "abort_transaction")),
    ],
)
def test_a_transactional_call_that_is_never_answered_has_no_end(
    tmp_path: Path, noted: list[CallNoted], calls: Calls, kind: str, silent: str
) -> None:
    gives_up = threading.Event()
    producer = TransactionalProducer(
        Records(client_of(kind, silent), is_full=silent == "send"), give_up=gives_up.is_set, calls=calls
    )
    said = threading.Thread(target=lambda: (wait_until(lambda: bool(noted), "a call", timeout=20), gives_up.set()))
    said.start()

    def use() -> None:
        producer.init()
        producer.begin()
        producer.send(1)
        if silent.startswith("send"):
            producer.send_offsets([], None)
        elif silent == "commit_transaction":
            producer.commit()
        else:
            producer.abort()

    if silent == "send":
        use()
    else:
        with pytest.raises(ProducerLost):
            use()
    said.join()
    # A full queue that is no longer waited for was an answer of its own: what is in it has none.
    assert unanswered(noted) == ([] if silent == "send" else [("pay", "pay-0", silent)])
    assert {one.call for one in noted} == {silent} <= CALLS.keys()


@pytest.mark.parametrize("come_late", [True, False])
def test_a_send_that_blocks_and_outcomes_that_come_late_or_never_are_told_of(
    tmp_path: Path, noted: list[CallNoted], calls: Calls, come_late: bool
) -> None:
    class Blocks(Sender):
        def send(self, count: int) -> int:
            wait_until(lambda: bool(noted), "the send to be told of", timeout=20)
            return super().send(count)

        def poll(self, timeout: float) -> None:
            self.unanswered *= not come_late or all(one.call != "flush" for one in noted)
            super().poll(timeout)

    load = load_of(tmp_path, workload=WorkloadSpec(rate=100), calls=calls)
    producing = PacedProducers(lambda *place: Blocks(*place, 7), load)  # type: ignore[arg-type, return-value]
    thread, sending = running(producing)
    wait_until(lambda: producing.sent > 0, "the send to be over", timeout=20)
    sending.clear()
    thread.join()
    assert (unanswered(noted), {one.call for one in noted}) == ([], {"send"})
    producing.finish(20 if come_late else 0.5, threading.Event())
    wait_until(lambda: noted[-1].call == "flush", "the wait for outcomes to be told of", timeout=10)
    assert unanswered(noted) == ([] if come_late else [("a", "a", "flush")])
    load.tables.close()


@pytest.mark.parametrize(
    ("told", "call"),
    [
        (("commit", {"producer_id": None, "transaction": None}), "commit"),
        (("commit", {"producer_id": 0, "transaction": 3}), "send_offsets_to_transaction"),
        (("sent", {"first_seq": 0, "partition": [0], "sources": [[0, 0]], "transaction": 3}), "transaction"),
    ],
)
def test_what_a_member_asks_for_is_a_call_until_it_is_answered_or_dies(
    tmp_path: Path, noted: list[CallNoted], calls: Calls, told: tuple[str, dict[str, Any]], call: str
) -> None:
    """Whatever library it has: that it asked is said before it asks."""
    lanes = [LaneSpec(lane="in"), LaneSpec(lane="out", loop={"source": "in"})]  # type: ignore[arg-type]
    load = load_of(tmp_path, *lanes, calls=calls)
    kind, values = told
    rows = LoopRows(
        Readers(load, lanes[0], "g"),
        isolation="read_committed",
        output=ProducedRows(load.tables, lane="out", producer_id=0, transactional_id="out-0"),
    )
    if kind == "commit":
        values = {**values, "number": 1, "consumer": "g-0-1", "offsets": [[0, 5]]}
    rows.handle(kind, {**values, "ns": time.monotonic_ns()})
    wait_until(lambda: bool(noted), "the call to be told of", timeout=10)
    client = "out-0" if call == "transaction" else "g-0-1"
    assert unanswered(noted) == [("out", client, call)]
    rows.note_end()
    assert unanswered(noted) == []
    load.tables.close()
