"""A consumer that reads nothing, or does not reach the end, fails no run: it is reported by partition."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.harness.errors import WaitTimeout
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload import load as load_module
from kafka_chaos.harness.workload.application.handles import ConsumerHandle
from kafka_chaos.harness.workload.application.load import ApplicationConsuming
from kafka_chaos.harness.workload.clients.recorded_consumer import RecordedConsumer
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import HistoryWriter
from kafka_chaos.harness.workload.load import PhaseLoad
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables

NOBODY = "127.0.0.1:1"

Loaded = tuple[PhaseLoad, dict[str, Any], list[str]]
"""A load, its lanes, and what it reported."""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[HistoryWriter]:
    writer = HistoryWriter(tmp_path / "consumed")
    yield writer
    writer.close()


def test_the_harness_s_own_consumer_reports_where_it_ended(writer: HistoryWriter) -> None:
    notices: list[str] = []
    consumer = RecordedConsumer(
        lane="orders",
        topic="orders",
        partitions=2,
        bootstrap_servers=NOBODY,
        configs={},
        writer=writer,
        on_error=notices.append,
    )
    consumer.drain({0: 5_000, 1: 0}, timeout=0.1, cancelled=threading.Event())
    consumer.close()
    expected = "the consumer of lane orders did not reach the end: partition 0 was read up to offset 0 of 5000"
    assert [notice for notice in notices if "_TRANSPORT" not in notice and "_ALL_BROKERS" not in notice] == [expected]


def test_an_application_s_consumer_reports_where_it_ended(tmp_path: Path) -> None:
    def sleep(handle: ConsumerHandle) -> None:
        while handle.running():
            handle.wait(1)

    notices: list[str] = []
    lane = LaneSpec(lane="orders", partitions=2)
    load = LoadSettings(
        bootstrap_servers=NOBODY,
        workload=WorkloadSpec(),
        tables=LoadTables(tmp_path, [lane]),
        reservations=Reservations(tmp_path),
        on_notice=notices.append,
        on_change=print,
    )
    consuming = ApplicationConsuming(lane, sleep, load)
    consuming.drain({0: 7, 1: 9}, timeout=0.1, cancelled=threading.Event())
    consuming.close()
    load.tables.close()
    load.reservations.close()
    assert notices == [
        "the consumer function of lane orders did not reach the end: "
        "partition 0 was read up to offset 0 of 7, partition 1 was read up to offset 0 of 9"
    ]


class FakeLane:
    has_failed = False

    def __init__(self, counts: tuple[int, int, int], *, seconds: float = 0.0) -> None:
        self.counts = counts
        self.consumer = SimpleNamespace(drain=self._drain)
        self.group = None
        self.timeouts: list[float] = []
        self._seconds = seconds

    def raise_error(self) -> None:
        pass

    def falls_silent(self, seconds: float) -> bool:
        return False

    def _drain(self, ends: object, *, timeout: float, cancelled: object) -> None:
        self.timeouts.append(timeout)
        time.sleep(self._seconds)


@pytest.fixture
def phase_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loaded]:
    monkeypatch.setattr(load_module, "_FIRST_READ_TIMEOUT", 0.2)
    notices: list[str] = []
    load = PhaseLoad(
        [], bootstrap_servers=NOBODY, workload=WorkloadSpec(), run_directory=tmp_path, on_notice=notices.append
    )
    lanes: dict[str, Any] = load.lanes  # type: ignore[assignment]
    yield load, lanes, notices
    lanes.clear()
    load.__exit__()


def test_a_consumer_that_reads_nothing_does_not_hold_up_the_phase(
    phase_load: Loaded,
) -> None:
    load, lanes, notices = phase_load
    lanes.update(read=FakeLane((3, 2, 1)), unread=FakeLane((3, 2, 0)))
    load.await_first_acknowledgements(timeout=1)
    assert notices == ["the consumer of lane unread read nothing within 0.2 s of the first acknowledgements"]


def test_a_lane_without_an_acknowledgement_is_named(
    phase_load: Loaded,
) -> None:
    load, lanes, notices = phase_load
    lanes.update(fine=FakeLane((3, 2, 1)), refused=FakeLane((3, 0, 0)))
    with pytest.raises(WaitTimeout, match=r"every lane to have a record acknowledged after .*none yet in refused$"):
        load.await_first_acknowledgements(timeout=0.1)
    assert notices == []


def test_lanes_share_the_time_to_reach_the_end(phase_load: Loaded) -> None:
    load, lanes, _ = phase_load
    lanes.update(slow=FakeLane((0, 0, 0), seconds=1.1), next=FakeLane((0, 0, 0)))
    load.drain({"slow": {}, "next": {}}, timeout=1.0)
    (first,) = lanes["slow"].timeouts
    assert 0 < first <= 1.0
    assert lanes["next"].timeouts == [0.0]
