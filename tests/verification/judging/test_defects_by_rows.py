"""Known defects whose precondition no client reports: it is in the rows of a run, or in the brokers' logs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.contract.lane.groups import GroupAnomaly, loop_group_of
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.verification import LaneVerdict, verify
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.known_defects import explaining_outages
from kafka_chaos.verification.recovery.outages import Outage
from tests.verification.samples.planted_groups import Plant, committed_past_the_end, skipped_after_rebalance
from tests.verification.samples.run_dirs import Rows, write_histories
from tests.verification.samples.together import Together


def blocked(**changes: Any) -> tuple[tuple[str, ...], ...]:
    """What explains that the end of a transaction of `pay-1` had no answer; its coordinator's clock went back."""
    given: dict[str, Any] = {"version": "2.4.1", "kind": "clock-step", "hit": "broker-1", "denied": None, "at": 5}
    given |= {"id": "pay-1", "client": "pay-1", "told_at": 6, "broker": 1, "producers": 2} | changes
    transactional = Transactional(timeout_ms=8000, producers=given["producers"])
    lane = Lane(lane="a", idempotence=True, transactional=transactional, kafka_version=given["version"])
    fault = FaultRecord("f", given["kind"], resolved=(given["hit"],), denied=given["denied"], shown=(given["hit"],))
    fault.requested, fault.applied, fault.proven, fault.healed = [given["at"]], [given["at"]], [given["at"]], [90]
    met = DefectPrecondition(
        ts_ns=given["told_at"], defect="KAFKA-8803", lane="a", evidence="seen", transactional_id=given["id"],
        broker=given["broker"],
    )  # fmt: skip
    events = Events((fault,), preconditions={} if given["id"] is None else {"a": (met,)})
    run = RunDirectory(Path("run"), (lane,), {}, events)
    waited = ("pay-1", "the end of a transaction")[: 2 if given["client"] else 0]
    outage = Outage(RecoveryAnomaly.STALLED_PRODUCER, None, 4, 100, False, *waited)
    return explaining_outages(run, lane, [outage])


NOT_BLOCKED: list[dict[str, Any]] = [
    {"version": "2.8.2"}, {"version": "2.5.0"}, {"version": None}, {"kind": "pause"}, {"hit": "broker-2"},
    {"denied": "its clock stood still"}, {"at": 101}, {"id": "pay-2"}, {"id": None}, {"client": ""}, {"told_at": 101},
    {"broker": 2}, {"broker": None},
]  # fmt: skip


def test_a_blocked_transactional_id_needs_a_moved_clock_and_the_coordinator_s_word() -> None:
    assert blocked() == blocked(client="", producers=1) == (("KAFKA-8803",),)


@pytest.mark.parametrize("changes", NOT_BLOCKED)
def test_without_them_no_defect_blocks_a_transactional_id(changes: dict[str, Any]) -> None:
    assert blocked(**changes) == ()


TOGETHER = Together()
OF_JAVA = ("KAFKA-14397",)


@TOGETHER.cases(
    ({}, OF_JAVA),
    ({"client": "java 3.9.1"}, OF_JAVA),
    ({"client": "franz-go 1.18.0"}, ()),
    ({"epochs": (0, 0)}, ()),
    ({"epochs": (1, 0)}, ()),
    ({"complete_ns": 999}, ()),
    ({"complete_ns": 2001}, ()),
    ({"complete_ns": None}, ()),
    ({"error": None}, ()),
    ({"outcome": "fail"}, ()),
    ({"partition": 1}, ()),
    ({"producer_id": 1}, ()),
)
def renewed(changes: Mapping[str, Any]) -> Rows:
    """Record 7, open from 1,000 to 2,000 ns, is in the log once for each producer epoch; record 6 failed meanwhile."""
    failed = {"client": "java 2.8.2", "epochs": (0, 1), "error": "NetworkException: disconnected", **changes}
    epochs, (name, version) = failed.pop("epochs"), failed.pop("client").split()
    settings = {"idempotence": True, "min_insync_replicas": 2, "partitions": 2}
    rows = Rows(lanes=[{"lane": "a", "client": {"name": name, "version": version}, **settings}])
    rows.send(7, 1).send(6, None, "info")
    rows.produced[0] |= {"invoke_ns": 1000, "complete_ns": 2000}
    rows.produced[1] |= {"invoke_ns": 900, "complete_ns": 1500} | failed
    for offset, epoch in enumerate(epochs):
        rows.store(offset, 7).read(offset, 7)
        for broker in (1, 2, 3):
            rows.replica(broker, offset, 7, producer_epoch=epoch)
    return rows


@TOGETHER.each(renewed)
def test_a_record_in_two_epochs_of_a_java_producer_needs_one_that_failed_while_it_was_in_doubt(
    lane: LaneVerdict, expected: tuple[str, ...]
) -> None:
    assert lane.observed[Anomaly.DUPLICATE].count == 1
    assert lane.known_defects == expected


@TOGETHER.cases(
    ({}, ("sarama-2365",)),
    ({"client": "aiokafka 0.14.0"}, ("aiokafka-kip-320",)),
    ({"client": "kafka-python 2.2.15"}, ("kafka-python-2978",)),
    ({"client": "kafkajs 2.2.4"}, ("kafkajs-818",)),
    ({"client": "kafka-python 3.0.12"}, ()),
    ({"client": "librdkafka 2.16.0"}, ()),
    ({"client": "java 3.9.1"}, ()),
    ({"client": "franz-go 1.18.0"}, ()),
    # The election came before the consumer got that far, or a second consumer that has read nothing below.
    ({"ts_ns": 1}, ()),
    ({"ts_ns": 7500}, ("sarama-2365",)),
    ({"consumer": "c1"}, ()),
)
def replaced(changes: Mapping[str, Any]) -> Rows:
    """A consumer reads records 0 to 3 at their offsets; then a leader without 2 and 3 has 4 to 6 at offsets 2 to 4, of
    which the consumer reads the last, and another one may read the one before."""
    won = {"broker": 2, "lane": "a", "partition": 0, "leader_epoch": 1, "start_offset": 2, "isr": [2], **changes}
    name, version = won.pop("client", "sarama 1.43.3").split()
    consumer = won.pop("consumer", None)
    settings = {"acks": "1", "idempotence": False, "replication_factor": 2, "unclean_leader_election": True}
    rows = Rows(lanes=[{"lane": "a", "client": {"name": name, "version": version}, **settings, "faults": ["kill"]}])
    for seq in range(4):
        rows.send(seq, seq).read(seq, seq)
    rows.event("leader_elected", **won)
    for seq in range(4, 7):
        rows.send(seq, seq - 2)
    for offset, seq in enumerate((0, 1, 4, 5, 6)):
        rows.store(offset, seq)
    rows.read(4, 6)
    return rows.read(3, 5, consumer=consumer) if consumer else rows


@TOGETHER.each(replaced)
def test_a_consumer_that_read_on_had_read_other_records_where_it_missed_some(
    lane: LaneVerdict, expected: tuple[str, ...]
) -> None:
    assert lane.observed[Anomaly.UNSEEN].count in (1, 2)
    assert lane.known_defects == expected


@pytest.mark.parametrize(
    ("plant", "version", "named"),
    [
        (skipped_after_rebalance, "2.12.0", True),
        (skipped_after_rebalance, "2.16.0", False),
        (committed_past_the_end, "2.12.0", True),
        (committed_past_the_end, "2.16.0", False),
    ],
)
def test_a_position_that_moved_over_the_end_of_a_partition_skips_one_record(
    tmp_path: Path, plant: Callable[[], Plant], version: str, named: bool
) -> None:
    run, _ = plant()
    for lane in ("exact", "once"):  # A search of their transactions takes half a minute.
        del run.lanes[lane]
    del run.final[loop_group_of("once")]
    client = {"client": {"name": "librdkafka", "version": version}}
    clients = {lane: {**run.clients[lane], **client} for lane in run.lanes}
    folder = write_histories(tmp_path / "run", run.lanes, clients, run.committed)
    lane = next(lane for lane in verify(folder, engine="duckdb").lanes if lane.lane == "in")
    assert lane.observed[GroupAnomaly.SKIPPED_AFTER_REBALANCE].count == 1
    assert lane.known_defects == (("librdkafka-4844",) if named else ())
