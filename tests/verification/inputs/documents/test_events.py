"""Events are read field by field; one that makes no sense is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract import events
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.ledger import FaultLedger
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.event_reader import read_events
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.faults import FaultRecord

LANES = [Lane.from_json({"lane": "a", "partitions": 2}), Lane.from_json({"lane": "b"})]


def read(folder: Path, *events: dict[str, Any]) -> Events:
    path = folder / "events.jsonl"
    lines = (json.dumps({"ts_ns": number, **event}) for number, event in enumerate(events))
    path.write_text("\n".join(lines) + '\n\n{"ts_ns": 9, "type": "run_en')  # The harness was killed.
    return read_events(path, LANES)


def test_faults_with_everything_that_is_known_of_them(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {
            "type": "fault_requested", "fault_id": "k", "kind": "kill", "target": "leader(a)",
            "resolved": ["broker-1", "broker-2"], "lanes": ["a"], "parameters": {"steps": ["cut", "kill"]},
        },
        {"type": "fault_proven", "fault_id": "k", "evidence": {}},
        {"type": "fault_healed", "fault_id": "k"},
        {"type": "fault_requested", "fault_id": "p"},
        {"type": "fault_not_proven", "fault_id": "p", "reason": "no process"},
        {"type": "fault_not_proven", "fault_id": "q"},
        {"type": "progress", "counts": {}},
    )  # fmt: skip
    assert found.faults == (
        FaultRecord(
            "k", "kill", ("a",), ("cut", "kill"), ("broker-1", "broker-2"), [0], [1], [1], [2], target="leader(a)"
        ),
        FaultRecord("p", "?", None, requested=[3], denied="no process"),
        FaultRecord("q", "?", None, denied="no reason given"),
    )
    assert [fault.fault_id for fault in found.concerning("a")] == ["k", "p", "q"]
    assert [fault.fault_id for fault in found.concerning("b")] == ["p", "q"]
    assert found.faults[0].ledger() == FaultLedger(
        fault_id="k", kind="kill", requested_ns=0, proven_ns=1, healed_ns=2, problem=None
    )
    assert found.faults[1].ledger() == FaultLedger(
        fault_id="p", kind="?", requested_ns=3, proven_ns=None, healed_ns=None, problem="not proven: no process"
    )


def test_how_far_the_run_came(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {"type": "run_started", "collects": ["log", "replicas"]},
        {"type": "phase_started", "phase": "one", "lanes": ["a"]},
        {"type": "phase_started", "phase": "two", "lanes": ["b"]},
        {"type": "phase_started", "phase": "three"},
        {"type": "phase_ended", "phase": "one"},
        {"type": "phase_ended", "phase": "never begun"},
        {"type": "outside_faults", "kinds": ["kill"], "lanes": ["a"]},
        {"type": "outside_faults", "kinds": ["stop", "stop"], "lanes": ["a", "b"]},
    )
    assert found.collects == ("log", "replicas")
    assert (found.unfinished("a"), found.unfinished("b")) == (["three"], ["two", "three"])
    assert found.outside == {"a": ("kill", "stop", "stop"), "b": ("stop", "stop")}
    assert found.faults == ()
    assert read(tmp_path, {"type": "outside_faults", "kinds": ["kill"], "lanes": None}).outside == {
        "a": ("kill",),
        "b": ("kill",),
    }
    assert read(tmp_path, {"type": "run_started"}).collects == ()


def test_elections_truncations_and_high_watermarks(tmp_path: Path) -> None:
    place = {"lane": "a", "partition": 1}
    found = read(
        tmp_path,
        {"type": "leader_elected", **place, "broker": 2, "leader_epoch": 3, "start_offset": 40, "isr": [2, 3]},
        {"type": "isr_changed", **place, "before": [2, 3], "isr": [2]},
        {"type": "log_truncated", **place, "broker": 1, "offset": 40, "reason": "asked", "log_end": 50},
        {"type": "log_truncated", "lane": "b", "partition": 0, "broker": 1, "offset": 7},
        {"type": "high_watermark", **place, "broker": 2, "leader_epoch": 3, "high_watermark": 45},
    )
    at = {"lane": "a", "partition": 1}
    assert found.changes == {
        ("a", 1): [
            events.LeaderElected(ts_ns=0, **at, broker=2, leader_epoch=3, start_offset=40, isr=(2, 3)),
            events.IsrChanged(ts_ns=1, **at, before=(2, 3), isr=(2,)),
            events.LogTruncated(ts_ns=2, **at, broker=1, offset=40, reason="asked", log_end=50),
        ],
        ("b", 0): [events.LogTruncated(ts_ns=3, broker=1, lane="b", partition=0, offset=7)],
    }
    mark = events.HighWatermark(ts_ns=4, **at, broker=2, leader_epoch=3, high_watermark=45)
    assert found.reports == {("a", 1): [mark]}


def test_preconditions_of_known_defects(tmp_path: Path) -> None:
    event = {"type": "defect_precondition", "lane": "a", "evidence": "a message timed out"}
    late: dict[str, Any] = {"occurred_ns": 7, "transactional_id": "t", "commits": True}
    implied: dict[str, Any] = {"partition": 1, "messages": 2}
    found = read(
        tmp_path,
        {**event, "defect": "librdkafka-4953", "producer_id": 0},
        {**event, "defect": "librdkafka-4953", "producer_id": 1},
        {**event, "defect": "KAFKA-15591", "producer_id": 3, **implied},
        {**event, "defect": "KAFKA-17754", "producer_id": 1, **late},
    )
    known = {"lane": "a", "evidence": "a message timed out"}
    assert found.preconditions == {
        "a": [
            events.DefectPrecondition(ts_ns=0, **known, defect="librdkafka-4953", producer_id=0),
            events.DefectPrecondition(ts_ns=1, **known, defect="librdkafka-4953", producer_id=1),
            events.DefectPrecondition(ts_ns=2, **known, defect="KAFKA-15591", producer_id=3, **implied),
            events.DefectPrecondition(ts_ns=7, **known, defect="KAFKA-17754", producer_id=1, **late),
        ]
    }


@pytest.mark.parametrize(
    ("client", "said", "doubts"),
    [
        ("java 3.9.1", ("java", "3.9.1"), []),
        ("java", ("java", "4.1.1"), []),
        ("own", ("service", "2"), []),
        (None, ("librdkafka", "2.16.0"), []),
        ("java 3.9.1", ("java", "2.0.0"), ["its producer says that it is java 2.0.0, lanes.json java 3.9.1"]),
        ("kafkajs 2.2.4", ("java", "3.9.1"), ["its producer says that it is java 3.9.1, lanes.json kafkajs 2.2.4"]),
        ("java", ("sarama", "1.0"), ["its producer says that it is sarama 1.0, lanes.json java"]),
        ("own thing", ("sarama", "1.0"), []),
    ],
)
def test_a_client_is_what_it_says(tmp_path: Path, client: str | None, said: tuple[str, str], doubts: list[str]) -> None:
    path = tmp_path / "events.jsonl"
    event = {"type": "client_started", "lane": "a", "role": "producer", "client": said[0], "version": said[1]}
    path.write_text(json.dumps({"ts_ns": 1, **event}) + "\n")
    assert read_events(path, [Lane(lane="a", client=client)]).doubts == {"a": doubts}


@pytest.mark.parametrize(
    ("events", "doubt"),
    [
        ([("run_started", {"lanes": ["a"]})], "events.jsonl names other lanes of the run than lanes.json"),
        ([("run_started", {"lanes": ["a", "b"]})], ""),
        ([("run_started", {})], ""),
        ([("phase_started", {"phase": "p"})] * 2, "phase p began twice"),
        ([("phase_started", {"phase": "p"}), *[("phase_ended", {"phase": "p"})] * 2], "phase p ended twice"),
    ],
)
def test_a_run_and_its_phases_are_told_once(
    tmp_path: Path, events: list[tuple[str, dict[str, Any]]], doubt: str
) -> None:
    found = read(tmp_path, *({"type": kind, **values} for kind, values in events))
    assert found.doubts == {lane: [doubt] if doubt else [] for lane in ("a", "b")}


def test_a_pause_lies_within_the_run(tmp_path: Path) -> None:
    paused = {"type": "harness_paused", "seconds": 1e-9}
    assert read(tmp_path, {"type": "run_started"}, paused).pauses == [(0, 1)]
    with pytest.raises(RunDirectoryError, match=r"line 2: seconds is 2e-09, expected a pause within the run"):
        read(tmp_path, {"type": "run_started"}, {**paused, "seconds": 2e-9})


def test_problems_of_clients(tmp_path: Path) -> None:
    failed = {"type": "client_failed", "lane": "a", "role": "producer", "problem": "ended unexpectedly"}
    found = read(tmp_path, {**failed, "last_lines": ["x"]}, {**failed, "role": "consumer", "problem": "said 'red'"})
    assert found.doubts["a"] == ["its producer ended unexpectedly", "its consumer said 'red'"]


def test_acknowledgements_without_an_offset_are_counted(tmp_path: Path) -> None:
    told = {"type": "acknowledged_without_offset", "lane": "a", "producer_id": 0, "partition": 1, "evidence": "implied"}
    found = read(tmp_path, {**told, "messages": 3}, {**told, "messages": 1, "producer_id": 1})
    assert found.unplaced == {"a": 4}
    with pytest.raises(RunDirectoryError, match="line 1: messages is 0, expected at least 1"):
        read(tmp_path, {**told, "messages": 0})


def test_configuration_that_nobody_may_read_is_a_doubt_of_every_lane(tmp_path: Path) -> None:
    unread = {"configurations": ["of broker 1", "of broker 2"], "untold": ["its metadata mode"]}
    found = read(tmp_path, {"type": "configuration_unread", **unread})
    doubts = [
        f"{doubt}: the prediction may be that of another cluster"
        for doubt in (
            "the run may not read the configuration of broker 1, of broker 2",
            "the cluster does not tell its metadata mode",
        )
    ]
    assert found.doubts == {lane.lane: doubts for lane in LANES}


def test_without_the_file_nothing_is_known(tmp_path: Path) -> None:
    assert read_events(tmp_path / "events.jsonl", LANES) == Events(faults=None)


def test_when_the_harness_did_not_run_and_how_far_everything_was_stable(tmp_path: Path) -> None:
    stable = {"type": "last_stable_offset", "lane": "a", "partition": 1, "broker": 1, "last_stable_offset": 7}
    found = read(tmp_path, stable, {"type": "harness_paused", "seconds": 0.5, "ts_ns": 10**9})
    told = {key: value for key, value in stable.items() if key != "type"}
    assert found.stable == {("a", 1): [events.LastStableOffset(ts_ns=0, **told)]}
    assert found.pauses == [(500_000_000, 1_000_000_000)]


FAULT = {"type": "fault_requested", "fault_id": "k"}
MET = {"type": "defect_precondition", "defect": "librdkafka-4953", "lane": "a", "evidence": "timed out"}
FAILED = {"type": "client_failed", "lane": "a", "role": "producer", "problem": "died"}
MARK = {"type": "high_watermark", "lane": "a", "partition": 0, "leader_epoch": 0, "high_watermark": 1}
LEADER = {"broker": 1, "leader_epoch": 0, "start_offset": 0, "isr": [1]}
ELECTED = {"type": "leader_elected", "lane": "a", "partition": 0, **LEADER}
CALLED = {"type": "call_noted", "lane": "a", "client": "a-0", "call": "send", "began_ns": 5, "ts_ns": 5}
STARTED = {"type": "client_started", "lane": "a", "role": "producer", "client": "service", "version": "1"}


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"fault_id": "k"}, "expected a type"),
        ({"type": 3}, "expected a type"),
        ({**FAULT, "ts_ns": 1.5}, "ts_ns is 1.5, expected whole nanoseconds"),
        ({**FAULT, "ts_ns": True}, "ts_ns is True, expected whole nanoseconds"),
        ({**FAULT, "fault_id": 7}, "fault_id is 7, expected text"),
        ({**FAULT, "lanes": "a"}, "lanes is 'a', expected a list"),
        ({**FAULT, "lanes": ["c"]}, "lane: 'c' is not in lanes.json"),
        ({**FAULT, "fault": "k"},
         "fault_requested has no field 'fault' (at, duration, fault_id, kind, lanes, late, model_faults, "),
        ({**FAULT, "resolvd": []}, "; did you mean 'resolved'?"),
        ({"type": "outside_faults", "kinds": ["bomb"]}, "kinds: 'bomb', expected one of kill"),
        ({**FAULT, "model_faults": ["bomb"]}, "model_faults: 'bomb', expected one of kill"),
        ({"type": "fault_proven"}, "fault_proven without fault_id"),
        ({"type": "run_started", "collects": "log"}, "collects is 'log', expected a list"),
        ({"type": "run_started", "collects": ["logs"]}, "collects: 'logs', expected one of log, replicas"),
        ({**MARK, "high_watermark": "1"}, "high_watermark is '1', expected a whole number"),
        ({**MARK, "leader_epoch": None}, "leader_epoch is None, expected a whole number"),
        ({"type": "harness_paused", "seconds": -1}, "seconds is -1.0, expected how long it was"),
        ({"type": "harness_paused", "seconds": True}, "seconds is True, expected"),
        ({**MARK, "partition": 2}, "lane 'a' has no partition 2"),
        ({**MARK, "partition": -1}, "lane 'a' has no partition -1"),
        ({**MARK, "lane": "c"}, "lane: 'c' is not in lanes.json"),
        ({**MET, "evidnce": ""},
         "defect_precondition has no field 'evidnce' (broker, commits, defect, evidence, lane, messages, "),
        ({"type": "defect_precondition", "lane": "a", "evidence": "x"}, "defect_precondition without defect"),
        ({**MET, "defect": "librdkafka-4954"},
         "defect: 'librdkafka-4954', expected one of librdkafka-4953, KAFKA-15591"),
        ({**MET, "defect": ["librdkafka-4953"]}, "defect is ['librdkafka-4953'], expected text"),
        ({**MET, "lane": "c"}, "lane: 'c' is not in lanes.json"),
        ({**MET, "lane": ["a"]}, "lane is ['a'], expected text"),
        ({**MET, "evidence": ""}, "evidence is '', expected what shows it"),
        ({**MET, "occurred_ns": 1.5}, "occurred_ns is 1.5, expected a whole number"),
        ({**MET, "producer_id": "0"}, "producer_id is '0', expected a whole number"),
        ({**MET, "transactional_id": 3}, "transactional_id is 3, expected text"),
        ({**MET, "commits": 1}, "commits is 1, expected true or false"),
        ({**MET, "evidence": None}, "evidence is None, expected text"),
        ({"type": "client_failed", "lane": "a", "role": "producer"}, "client_failed without problem"),
        ({**FAILED, "lane": "c"}, "lane: 'c' is not in lanes.json"),
        ({**FAILED, "problem": ""}, "problem is '', expected a text"),
        ({**FAILED, "role": 3}, "role is 3, expected text"),
        ({**ELECTED, "isr": 1}, "isr is 1, expected a list"),
        ({**ELECTED, "broker": True}, "broker is True, expected a whole number"),
        ({**ELECTED, "lane": "c"}, "lane: 'c' is not in lanes.json"),
        ({**ELECTED, "partition": 2}, "lane 'a' has no partition 2"),
        ({**ELECTED, "epoch": 1}, "leader_elected has no field 'epoch' ("),
        ({**CALLED, "call": "sleep"}, "call: 'sleep'"),
        ({**CALLED, "ended_ns": 4}, "in this order"),
        ({**CALLED, "began_ns": 6}, "in this order"),
        ({**CALLED, "lane": "c"}, "'c' is not in lanes.json"),
        ({**STARTED, "timeouts": {"request": 1}}, "timeouts: milliseconds were expected"),
        ({**STARTED, "timeouts": {"request_ms": -1}}, "timeouts: milliseconds were expected"),
        ({**STARTED, "timeouts": {"recover_within_ms": 1}}, "timeouts: milliseconds were expected"),
    ],
)  # fmt: skip
def test_an_event_that_makes_no_sense_is_refused(tmp_path: Path, event: dict[str, Any], problem: str) -> None:
    with pytest.raises(RunDirectoryError) as refused:
        read(tmp_path, FAULT, event)
    text = str(refused.value)
    assert text.startswith(f"{tmp_path}/events.jsonl: line 2: ")
    said = text.partition(": line 2: ")[2]
    assert problem in said


def test_a_fault_that_is_proven_twice_has_all_that_showed_it_and_both_times(tmp_path: Path) -> None:
    proven = {"type": "fault_proven", "fault_id": "k"}
    found = read(
        tmp_path, FAULT, {**proven, "evidence": {"one": 1}, "applied_ns": 7}, {**proven, "evidence": {"two": 2}}
    )
    (fault,) = found.faults or ()
    assert (fault.shown, fault.applied, fault.proven) == (("one", "two"), [7, 2], [1, 2])
