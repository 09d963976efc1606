"""Clients of a lane: processes, an application's functions, and consumers that do not reach the end in time."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.command.errors import UsageFailure, WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.harness.clients.kinds import ChosenClient, parse_client
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload import load as load_module
from kafka_chaos.harness.workload.application.handles import Application, ApplicationMembers, ConsumerHandle
from kafka_chaos.harness.workload.lane_load import Counts, LaneClients, LaneLoad
from kafka_chaos.harness.workload.load import PhaseLoad
from tests.harness.workload.loads import load_of
from tests.harness.workload.processes.fake_client import CLIENT

Make = Callable[..., LaneLoad]
SOURCE = LaneSpec(lane="source", idempotence=True)
HARNESS_ALONE = Application()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as ends:

        def load(application: Application = HARNESS_ALONE, **keys: Any) -> LaneLoad:
            lane = LaneSpec(lane="orders", **keys)
            settings = load_of(tmp_path, lane, SOURCE)
            ends.callback(settings.tables.close)
            made = LaneLoad(LaneClients(lane, settings, application=application, source=SOURCE))
            ends.callback(made.close)
            return made

        yield load


def use(handle: Any) -> None:
    """A function of an application."""


TRANSACTIONAL = """
if begin["role"] == "producer":
    assert begin["transactional_id"] == "orders-0"
    assert begin["delivery_timeout_ms"] <= begin["transaction_timeout_ms"]
"""


def test_a_process_writes_transactions_and_reads_both_isolation_levels(make: Make, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"idempotence": True, "transactional": {"size": 5, "abort": 0.3, "timeout_ms": 7_000}}
    lane = make(client=(sys.executable, "-c", CLIENT % (TRANSACTIONAL, "")), **keys)
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
    failing = CLIENT % ('tell("error", text="no"); sys.exit(1)', "")
    lane = make(client=(sys.executable, "-c", failing), idempotence=True, transactional={})
    lane.start()
    wait_until(lambda: lane.has_failed, "the lane to have failed", timeout=30)
    lane.stop_sending()
    lane.await_outcomes()
    assert lane.report_silence(3)


IMPLIED = "1 message(s) implicitly acked by subsequent batch success (msgids 1..1, last acked 2)"


@pytest.mark.parametrize(
    ("client", "idempotence", "told", "problem"),
    [
        ("librdkafka 2.3.0", True, 1, ""),
        # Whose log nobody asked for can't excuse itself by it.
        ("librdkafka 2.3.0", False, 0, "a producer has no event 'log'"),
        ("kafka-python", True, 0, "a producer has no event 'log'"),
    ],
)
def test_the_log_of_a_process_tells_of_a_known_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str, idempotence: bool, told: int, problem: str
) -> None:
    tells = f'def produced(order): tell("log", line="127.0.0.1:1/1: orders [0] {IMPLIED}"); ok(order)'
    said = (CLIENT % ("", tells)).replace('version="1.2"', f'version="{getattr(parse_client(client), "version", "")}"')
    monkeypatch.setattr(ChosenClient, "command", [sys.executable, "-c", said])
    lane = LaneSpec(lane="orders", client=client, idempotence=idempotence)
    met: list[DefectPrecondition] = []
    settings = load_of(tmp_path, lane, emit=lambda event: isinstance(event, DefectPrecondition) and met.append(event))
    load = LaneLoad(LaneClients(lane, settings))
    load.start()
    (producer,) = load._writers
    wait_until(lambda: met or producer.problem, "the line to be taken", timeout=30)
    load.close()
    settings.tables.close()
    assert (len(met[:1]), problem in (producer.problem or "")) == (told, True)
    assert [(one.defect, one.partition, one.messages) for one in met[:1]] == [("KAFKA-15591", 0, 1)] * told


NO_CLUSTER = "127.0.0.1:1"

Loaded = tuple[PhaseLoad, dict[str, Any], list[str]]
"""A load, its lanes, and what it reported."""


def test_one_of_several_consumers_that_falls_short_is_a_problem_of_the_lane(tmp_path: Path) -> None:
    """Another one may have read what it did not."""
    problems: list[str] = []
    lane = LaneSpec.model_validate({"lane": "orders", "lives": [{"at": 1, "role": "consumer"}]})
    load = load_of(tmp_path, lane, emit=lambda event: problems.append(getattr(event, "problem", str(event))))
    (consumer,), _ = LaneClients(lane, load).make_readers()
    consumer.drain({0: 5}, timeout=0.1)
    consumer.close()
    load.tables.close()
    assert problems == ["did not reach the end: partition 0 was read up to offset 0 of 5"]


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_an_application_has_no_lives_in_its_place(make: Make, role: str) -> None:
    lives = ({"at": 1, "role": role},)
    with pytest.raises(UsageFailure, match=f"an application is its {role}: expected no lives of a {role}"):
        make(Application(**{role: use}), lives=lives)
    other = {"producer": "consumer", "consumer": "producer"}[role]
    make(Application(**{other: use}), lives=lives)


def test_an_application_reads_no_lane_with_a_share_group(tmp_path: Path) -> None:
    lane = LaneSpec.model_validate({"lane": "orders", "share": {}})
    load = load_of(tmp_path, lane)
    with pytest.raises(UsageFailure, match="lane orders: an application reads it: expected no share group"):
        LaneClients(lane, load, application=Application(consumer=use)).make_readers()
    load.tables.close()


def test_an_application_s_consumer_reports_where_it_ended(tmp_path: Path) -> None:
    def sleep(handle: ConsumerHandle) -> None:
        while handle.running():
            handle.wait(1)

    notices: list[str] = []
    lane = LaneSpec(lane="orders", partitions=2)
    load = load_of(tmp_path, lane, on_notice=notices.append)
    consuming = ApplicationMembers(lane, sleep, load)
    consuming.begin_load()
    consuming.drain({0: 7, 1: 9}, timeout=0.1)
    consuming.close()
    load.tables.close()
    assert notices == [
        "the consumer function of lane orders did not reach the end: "
        "partition 0 was read up to offset 0 of 7, partition 1 was read up to offset 0 of 9"
    ]


def fake_lane(counts: tuple[int, int, int], *, seconds: float = 0.0) -> Any:
    """Its reader takes so many seconds to the end; `timeouts` are those that it was given."""
    timeouts: list[float] = []

    def drain(ends: object, *, timeout: float) -> None:
        timeouts.append(timeout)
        time.sleep(seconds)

    does = {"report_silence.return_value": False, "readers.return_value": (SimpleNamespace(drain=drain),)}
    return Mock(has_failed=False, counts=Counts(*counts), group=None, timeouts=timeouts, **does)


@pytest.fixture
def phase_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loaded]:
    monkeypatch.setattr(load_module, "_FIRST_READ_TIMEOUT_S", 0.2)
    notices: list[str] = []
    load = PhaseLoad(
        [], bootstrap_servers=NO_CLUSTER, workload=WorkloadSpec(), run_directory=tmp_path, on_notice=notices.append
    )
    lanes: dict[str, Any] = load.lanes  # type: ignore[assignment]
    yield load, lanes, notices
    lanes.clear()
    load.__exit__()


def test_a_consumer_that_reads_nothing_does_not_hold_up_the_phase(phase_load: Loaded) -> None:
    load, lanes, notices = phase_load
    lanes.update(read=fake_lane((3, 2, 1)), unread=fake_lane((3, 2, 0)))
    load.await_first_acknowledgements(timeout=1)
    assert notices == ["the consumer of lane unread read nothing within 0.2 s of the first acknowledgements"]


def test_a_lane_without_an_acknowledgement_is_named(phase_load: Loaded) -> None:
    load, lanes, notices = phase_load
    lanes.update(fine=fake_lane((3, 2, 1)), refused=fake_lane((3, 0, 0)))
    with pytest.raises(WaitTimeout, match=r"every lane to have a record acknowledged after .*none yet in refused$"):
        load.await_first_acknowledgements(timeout=0.1)
    assert notices == []


def test_lanes_share_the_time_to_reach_the_end(phase_load: Loaded) -> None:
    load, lanes, _ = phase_load
    lanes.update(slow=fake_lane((0, 0, 0), seconds=1.1), next=fake_lane((0, 0, 0)))
    load.drain({"slow": {}, "next": {}}, timeout=1.0)
    (first,) = lanes["slow"].timeouts
    assert 0 < first <= 1.0
    assert lanes["next"].timeouts == [0.0]


def test_a_consumer_is_awaited_until_its_stall_would_be_beyond_its_bound(phase_load: Loaded) -> None:
    load, lanes, _ = phase_load
    lanes.update(quick=fake_lane((0, 0, 0)), slow=fake_lane((0, 0, 0)))
    load.drain({"quick": {}, "slow": {}}, timeout=1.0, patience={"quick": 0.5, "slow": 50.0})
    assert 0.5 < lanes["quick"].timeouts[0] <= 1.0
    assert 49.0 < lanes["slow"].timeouts[0] <= 50.0


def late_load(folder: Path, create: Callable[[LaneSpec], bool]) -> PhaseLoad:
    settings = WorkloadSpec(settle_timeout=0.1)
    lanes = [LaneSpec(lane="late", created_at=0.1)]
    return PhaseLoad(
        lanes, bootstrap_servers=NO_CLUSTER, workload=settings, run_directory=folder, on_notice=print, create=create
    )


def test_a_lane_begins_once_its_topic_is_created(tmp_path: Path) -> None:
    answers = iter([False, True])
    with late_load(tmp_path, lambda _: next(answers)) as load:
        load.await_first_acknowledgements(timeout=1)
        assert load.counts == {}
        wait_until(lambda: load.counts.get("late", (0,))[0], "the lane to send", timeout=20)
        load.stop()
    assert next(answers, None) is None


def test_a_topic_that_is_never_created_is_named(tmp_path: Path) -> None:
    asked = threading.Event()
    with late_load(tmp_path, lambda _: asked.set() or False) as load:
        load.await_first_acknowledgements(timeout=1)
        assert asked.wait(20)
        with pytest.raises(WaitTimeout, match="stopped waiting for the topic of lane late to be created"):
            load.stop()
