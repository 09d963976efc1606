"""Which clients a lane gets: the harness's own, and an application's in their place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.workload.application.handles import Application
from kafka_chaos.harness.workload.application.load import ApplicationConsuming, ApplicationLooping, ApplicationProducing
from kafka_chaos.harness.workload.clients.paced_producing import PacedProducing
from kafka_chaos.harness.workload.clients.recorded_consumer import ConsumerPerIsolation, RecordedConsumer
from kafka_chaos.harness.workload.groups.load import GroupLoad
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.lane_groups import LoopProducing
from kafka_chaos.harness.workload.lane_load import LaneLoad
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables
from kafka_chaos.harness.workload.transactions.load import TransactionalProducing

Make = Callable[..., LaneLoad]
SOURCE = LaneSpec(lane="source", idempotence=True)
PLAIN: dict[str, Any] = {}
TRANSACTIONS = {"transactional": {}}
GROUP = {"group": {}}
LOOP = {"loop": {"source": "source"}}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[LaneLoad] = []
    ends: list[Callable[[], object]] = []

    def load(application: Application | None = None, **keys: Any) -> LaneLoad:
        lane = LaneSpec(lane="orders", **keys)
        tables, reservations = LoadTables(tmp_path, [lane, SOURCE]), Reservations(tmp_path)
        ends.extend((tables.close, reservations.close))
        settings = LoadSettings(
            bootstrap_servers="127.0.0.1:1",
            workload=WorkloadSpec(settle_timeout=0.1),
            tables=tables,
            reservations=reservations,
            on_notice=print,
            on_change=print,
            groups=tables.of_groups(reservations),
        )
        made.append(LaneLoad(lane, settings, application=application, source=SOURCE))
        return made[-1]

    yield load
    for lane in made:
        lane.close()
    for end in ends:
        end()


def use(handle: Any) -> None:
    """A function of an application."""


def kinds(lane: LaneLoad) -> tuple[type, type, type, type]:
    """What writes it, what reads all of it, its group and its loop."""
    return type(lane.producer), type(lane.consumer), type(lane.group), type(lane.loop)


NOBODY = type(None)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (PLAIN, (PacedProducing, RecordedConsumer, NOBODY, NOBODY)),
        (TRANSACTIONS, (TransactionalProducing, ConsumerPerIsolation, NOBODY, NOBODY)),
        (GROUP, (PacedProducing, RecordedConsumer, GroupLoad, NOBODY)),
        (LOOP, (LoopProducing, ConsumerPerIsolation, NOBODY, GroupLoad)),
    ],
)
def test_the_harness_s_own_clients(make: Make, keys: dict[str, Any], expected: tuple[type, ...]) -> None:
    assert kinds(make(**keys)) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (PLAIN, (ApplicationProducing, ApplicationConsuming, NOBODY, NOBODY)),
        # What a part of the records is hidden from, or only some are given to, is followed by the harness.
        (TRANSACTIONS, (ApplicationProducing, ConsumerPerIsolation, ApplicationConsuming, NOBODY)),
        (GROUP, (ApplicationProducing, RecordedConsumer, ApplicationConsuming, NOBODY)),
        (LOOP, (ApplicationLooping, ConsumerPerIsolation, ApplicationConsuming, ApplicationLooping)),
    ],
)
def test_an_application_s_clients(make: Make, keys: dict[str, Any], expected: tuple[type, ...]) -> None:
    assert kinds(make(Application(producer=use, consumer=use), **keys)) == expected


CLIENT = """
import json, sys
begin = json.loads(sys.stdin.readline())
def tell(event, **values):
    print(json.dumps({"event": event, **values}), flush=True)
tell("ready", client="fake", version="1")
for line in sys.stdin:
    order = json.loads(line)
    what = order["order"]
    if what == "produce":
        seqs = list(range(order["first_seq"], order["first_seq"] + order["count"]))
        tell("outcome", outcome="ok", seq=seqs, offset=seqs)
    elif what in ("commit", "abort"):
        assert begin["transactional_id"] == "orders-0"
        assert begin["delivery_timeout_ms"] <= begin["transaction_timeout_ms"]
        tell("transaction", did=what)
    elif what == "leave":
        sys.exit(0)
"""


def test_a_process_writes_transactions_and_reads_both_isolation_levels(make: Make, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"idempotence": True, "transactional": {"size": 5, "abort": 0.3, "timeout_ms": 7_000}}
    lane = make(client=(sys.executable, "-c", CLIENT), **keys)
    assert kinds(lane) == (TransactionalProducing, ConsumerPerIsolation, NOBODY, NOBODY)
    lane.start()
    wait_until(lambda: lane.producer.acknowledged >= 100, "twenty transactions", timeout=30)
    assert not lane.has_failed
    lane.stop_sending()
    lane.await_outcomes()
    lane.close()
    assert lane.producer.sent == lane.producer.acknowledged
    logs = {path.name for path in (tmp_path / "logs").iterdir()}
    readers = {f"client-orders-{isolation}-consumer.log" for isolation in ("read_committed", "read_uncommitted")}
    assert logs == readers | {"client-orders-0-producer.log"}


def test_a_process_that_can_t_begin_its_transactions_fails_its_lane_alone(make: Make) -> None:
    failing = CLIENT.replace('tell("ready", client="fake", version="1")', 'tell("error", text="no"); sys.exit(1)')
    lane = make(client=(sys.executable, "-c", failing), idempotence=True, transactional={})
    lane.start()
    wait_until(lambda: lane.has_failed, "the lane to have failed", timeout=30)
    lane.stop_sending()
    lane.await_outcomes()
    assert lane.falls_silent(3)
