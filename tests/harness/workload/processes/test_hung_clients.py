"""Each kind of client that this machine has, against a server that accepts connections and never answers."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import CallNoted
from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS, ChosenClient
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.calls import Calls
from kafka_chaos.harness.workload.lane_load import LaneClients
from tests.harness.workload.loads import load_of, running
from tests.parquet import rows_in

pytestmark = pytest.mark.slow
KNOWN = [IN_PROCESS, *(f"{kind.name} {kind.version}" for kind in KINDS.values())]


@pytest.fixture
def silent() -> Iterator[str]:
    """Its address; the kernel accepts."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("client", KNOWN)
@pytest.mark.parametrize("transactional", [True, False], ids=["transactional", "plain"])
def test_a_producer_that_is_never_answered_has_asked(
    tmp_path: Path, silent: str, client: str, transactional: bool
) -> None:
    """Its first call has no answer, or no record that it was given has an outcome: not one of them is ever silent."""
    kind, _, version = client.partition(" ")
    if version and not ChosenClient(KINDS[kind], version).folder.is_dir():
        pytest.skip(f"{client} is not fetched")
    keys: dict[str, Any] = {"transactional": {"size": 2, "timeout_ms": 60_000}} if transactional else {}
    lane = LaneSpec(lane="pay", client=client, idempotence=transactional, max_in_flight=1, **keys)
    noted: list[CallNoted] = []
    calls = Calls(noted.append, seconds=0.2)
    calls.start()
    load = load_of(tmp_path, lane, bootstrap_servers=silent, workload=WorkloadSpec(rate=10, duration=5), calls=calls)
    producer, cancelled = LaneClients(lane, load).make_producers(), threading.Event()
    thread, sending = running(producer)
    wait_until(lambda: bool(noted) if transactional else producer.sent >= 2, "a call without an answer", timeout=60)
    sending.clear()
    thread.join()
    if not transactional:
        producer.finish(1.0, threading.Event())
    cancelled.set()
    producer.finish(0.0, cancelled)
    calls.close()
    load.tables.close()
    if transactional:
        assert {(one.client, one.call, one.ended_ns) for one in noted} == {("pay-0", "init_transactions", None)}
    else:
        assert [one.ended_ns for one in noted if one.call == "flush"] == [None]
        assert {row["outcome"] for row in rows_in(tmp_path / "produced")} == {"info"}
