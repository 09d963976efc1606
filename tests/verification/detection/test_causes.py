"""The cause of every lost, duplicated and overtaken record, and the evidence that it takes to name one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.events import LeaderElected, PartitionChanged, PartitionOffline
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import Timings
from kafka_chaos.verification.inputs.documents.checkpoints import Checkpoints
from kafka_chaos.verification.inputs.documents.events import LOG_TIME_NS, Change, Events
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.causes import Drop, PartitionCauses, Span, causes_of
from tests.verification.samples.changes import elected, isr_seen, truncated
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows

MS = 1_000_000
PAUSE = FaultRecord(
    "pause-1", "pause", ("a",), resolved=("broker-1",), requested=[10 * MS], proven=[11 * MS], healed=[40 * MS]
)
WHOLE = (1, 2, 3)
FIRST = elected(MS, 1, 0, 0, WHOLE)
SECOND = elected(20 * MS, 2, 1, 5, (2, 3))
CUT = truncated(50 * MS, 1, 5, 9)


def found(
    *changes: Change,
    faults: tuple[FaultRecord, ...] = (),
    epochs: Checkpoints | None = None,
    kept: Sequence[PartitionChanged | PartitionOffline] = (),
    timings: Timings | None = None,
    lane: Mapping[str, Any] | None = None,
    **events: Any,
) -> PartitionCauses:
    """The explanations for partition 0 of lane a, which has the settings `lane`."""
    run = RunDirectory(
        path=None,
        lanes=(Lane.from_json({"lane": "a", **(lane or {})}),),
        tables={},
        events=Events(faults=faults, changes={("a", 0): changes}, kept={("a", 0): kept}, **events),
        checkpoints=epochs or Checkpoints(),
        timings={} if timings is None else {"a": timings},
    )
    return next((one for one in causes_of(run) if one.partition == 0), PartitionCauses("a", 0))


def test_a_truncation_comes_before_the_election_that_led_to_it() -> None:
    cut, *elections = found(CUT, SECOND, FIRST).drops[1:]
    text = "truncation: broker 1 dropped offsets 5 to 8; broker 2 became leader in epoch 1 at offset 5"
    assert cut == Drop(5, 9, 50 * MS + LOG_TIME_NS, text)
    assert elections == [Drop(5, None, 21 * MS, "election: broker 2 became leader in epoch 1 at offset 5")]
    (drop,) = found(truncated(50 * MS, 1, 5, None)).drops
    assert (drop.end, drop.cause) == (None, "truncation: broker 1 dropped everything from offset 5 on")


@pytest.mark.parametrize(
    "election",
    [
        elected(20 * MS, 1, 1, 5, (1, 2)),  # the broker itself
        elected(51 * MS, 2, 1, 5, (2, 3)),  # later
        elected(20 * MS, 2, 1, 4, (2, 3)),  # its log ended before what was dropped
    ],
)
def test_a_truncation_names_only_an_election_that_can_have_led_to_it(election: LeaderElected) -> None:
    causes = found(CUT, election)
    assert "truncation: broker 1 dropped offsets 5 to 8" in [drop.cause for drop in causes.drops]
    assert not causes.sends


@pytest.mark.parametrize(
    ("isr", "before", "kind"),
    [
        ((2,), [FIRST, isr_seen(15 * MS, (1,))], "unclean_election"),
        ((2,), [FIRST, isr_seen(15 * MS, (1, 2))], "election"),
        ((2, 3), [FIRST, isr_seen(15 * MS, (1,))], "election"),
        ((2,), [], "election"),
    ],
)
def test_an_election_is_unclean_if_the_leader_is_known_to_have_been_outside_of_the_isr(
    isr: tuple[int, ...], before: list[Change], kind: str
) -> None:
    causes = found(*before, elected(20 * MS, 2, 1, 5, isr), isr_seen(21 * MS, (2,)))
    text = causes.drops[-1].cause
    assert text.partition(":")[0] == kind
    assert text.endswith("though it was not in the ISR") is (kind == "unclean_election")


def test_the_former_leader_takes_records_from_the_fault_to_its_truncation() -> None:
    over = FaultRecord("over", "kill", ("a",), requested=[2 * MS], proven=[3 * MS], healed=[4 * MS])
    causes = found(FIRST, SECOND, CUT, faults=(over, PAUSE))
    assert causes.sends[0] == Span(10 * MS, 50 * MS + LOG_TIME_NS, causes.drops[1].cause)
    assert causes.sends[1:] == [
        Span(2 * MS, 4 * MS, "fault: sent during fault over (kill)"),
        Span(10 * MS, 40 * MS, "fault: sent during fault pause-1 (pause of broker-1)"),
    ]
    assert found(FIRST, SECOND, CUT).sends[0].since_ns == SECOND.ts_ns


def test_the_final_log_s_leader_epochs_tell_where_to_look() -> None:
    chain = Checkpoints(chain={("a", 0): ((0, 0), (3, 20))}, given=True)
    assert found(SECOND, epochs=chain).drops == [
        Drop(5, None, 21 * MS, "election: broker 2 became leader in epoch 1 at offset 5"),
        Drop(0, 20, None, "unobserved: the offset is of leader epoch 0, which began at 0"),
        Drop(20, None, None, "unobserved: the offset is of leader epoch 3, which began at 20"),
    ]


def test_two_followers_truncate_after_one_unclean_election() -> None:
    outside = [FIRST, isr_seen(15 * MS, (1,)), elected(20 * MS, 2, 1, 5, (2,))]
    causes = found(*outside, truncated(50 * MS, 3, 4, 9), CUT)
    led = "broker 2 became leader in epoch 1 at offset 5, though it was not in the ISR"
    assert [drop.cause for drop in causes.drops[1:]] == [
        f"truncation: broker 3 dropped offsets 4 to 8; {led}",
        f"truncation: broker 1 dropped offsets 5 to 8; {led}",
        f"unclean_election: {led}",
    ]
    assert causes.retries[0].cause == f"retry: {led}"


def test_events_out_of_order_are_put_in_order_of_time() -> None:
    causes = found(elected(30 * MS, 3, 2, 5, (3,)), CUT, SECOND, FIRST)
    assert [((drop.until_ns or 0) - LOG_TIME_NS) // MS for drop in causes.drops] == [1, 20, 50, 30]


@pytest.mark.parametrize("doubt", [{"proven": []}, {"requested": []}, {"denied": "no"}, {"kind": "lockstep"}])
def test_a_fault_without_proof_explains_nothing(doubt: dict[str, Any]) -> None:
    fault = FaultRecord(**{"fault_id": "f", "kind": "kill", "requested": [MS], "proven": [MS], "healed": [MS], **doubt})
    causes = found(faults=(fault,))
    assert not causes.sends
    assert not causes.retries


def test_retries_span_changes_of_the_leader_and_faults_and_brokers_recognise_those_of_an_idempotent_producer() -> None:
    never_healed = FaultRecord("k", "kill", None, requested=[30 * MS], proven=[30 * MS])
    assert found(FIRST, SECOND, faults=(never_healed,)).retries == [
        Span(20 * MS, 21 * MS, "retry: broker 2 became leader in epoch 1 at offset 5"),
        Span(30 * MS, None, "retry: sent during fault k (kill)"),
    ]
    assert not found(FIRST, SECOND, faults=(PAUSE,), lane={"acks": "all", "idempotence": True}).retries


def planted(rows: Rows) -> Rows:
    """Lane a, partitions 0 and 1: ten records each; those at 6 of partition 0 and at 6 of partition 1 are lost."""
    rows.lanes = [{"lane": "a", "partitions": 2, "acks": "1"}]
    for offset in range(10):
        for partition in range(2):
            where = {"producer_id": partition, "partition": partition}
            if offset == 6:
                rows.send(6, 6, **where)
            else:
                rows.all(offset, offset, **where)
    return rows


def causes(run_dir: Path, verified: Verified, anomaly: str) -> list[str]:
    verdict = verified(run_dir).to_json()
    rows = [row for row in pq.read_table(run_dir / "findings").to_pylist() if row["anomaly"] == anomaly]
    texts = [row["cause"] for row in sorted(rows, key=lambda row: (row["producer_id"], row["seq"]))]
    counted: dict[str, int] = {}
    for text in texts:
        counted[text.partition(":")[0]] = counted.get(text.partition(":")[0], 0) + 1
    assert verdict["lanes"][0]["anomalies"][anomaly]["causes"] == counted
    return texts


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        ({}, "truncation: broker 1 dropped offsets 5 to 8"),
        ({"log_end": None}, "truncation: broker 1 dropped everything from offset 5 on"),
        ({"log_end": 6}, "unobserved"),
        ({"offset": 7}, "unobserved"),
        ({"partition": 1}, "unobserved"),
        ({"ts_ns": -2 * MS}, "unobserved"),
    ],
    ids=["covered", "open end", "ends below", "begins above", "other partition", "before the acknowledgement"],
)
def test_a_loss_is_traced_to_a_truncation_that_covers_it(
    tmp_path: Path, verified: Verified, cut: dict[str, Any], expected: str
) -> None:
    rows = planted(Rows(clock=10 * MS))
    event = {"lane": "a", "partition": 0, "broker": 1, "offset": 5, "log_end": 9, "reason": "planted", **cut}
    lost = next(row for row in rows.produced if (row["producer_id"], row["seq"]) == (0, 6))
    rows.event("log_truncated", **{**event, "ts_ns": lost["complete_ns"] + cut.get("ts_ns", 0)})
    assert causes(rows.write(tmp_path / "run"), verified, "lost_write")[0] == expected


def test_a_loss_without_an_observed_cause_names_the_leader_epoch_that_has_its_offset(
    tmp_path: Path, verified: Verified
) -> None:
    rows = planted(Rows(clock=10 * MS))
    chain = {"high_watermark": 10, "log_end_offset": 10, "leader_epochs": [[0, 0], [3, 6]]}
    rows.checkpoints = {"brokers": {"1": {"a/0": chain}}}
    assert causes(rows.write(tmp_path / "run"), verified, "lost_write") == [
        "unobserved: the offset is of leader epoch 3, which began at 6",
        "unobserved",
    ]


def test_a_loss_without_an_offset_is_traced_by_the_time_of_its_sending(tmp_path: Path, verified: Verified) -> None:
    rows = Rows(lanes=[{"lane": "a", "acks": "0"}]).all(0, 0)
    rows.event("fault_requested", fault_id="k", kind="kill", lanes=["a"], resolved=["broker-1"])
    rows.event("fault_proven", fault_id="k")
    rows.send(1, None)
    rows.event("fault_healed", fault_id="k")
    rows.send(2, None).all(1, 3)
    assert causes(rows.write(tmp_path / "run"), verified, "lost_write") == [
        "fault: sent during fault k (kill of broker-1)",
        "unobserved",
    ]


@pytest.mark.parametrize(
    ("idempotence", "expected"), [(False, "retry: sent during fault k (kill); "), (True, "unobserved: ")]
)
def test_a_duplicate_is_traced_to_the_fault_that_its_sending_spans(
    tmp_path: Path, verified: Verified, idempotence: bool, expected: str
) -> None:
    rows = Rows(lanes=[{"lane": "a", "acks": "all", "idempotence": idempotence}])
    rows.all(0, 0).store(1, 0).read(1, 0)
    at = rows.produced[0]["invoke_ns"] + 1
    rows.event("fault_requested", ts_ns=at, fault_id="k", kind="kill")
    rows.event("fault_proven", ts_ns=at, fault_id="k").event("fault_healed", ts_ns=at, fault_id="k")
    rows.send(2, 2).store(2, 2).read(2, 2).store(3, 2).read(3, 2)
    assert causes(rows.write(tmp_path / "run"), verified, "duplicate") == [
        f"{expected}first at partition 0, offset 0",
        "unobserved: first at partition 0, offset 2",
    ]


def test_a_duplicate_of_an_idempotent_producer_is_traced_to_its_producer_epochs(
    tmp_path: Path, verified: Verified
) -> None:
    rows = Rows(lanes=[{"lane": "a", "acks": "all", "idempotence": True}])
    for offset, seq, epoch in ((0, 0, 0), (1, 0, 1), (2, 2, 0), (3, 2, 0)):
        rows.store(offset, seq).read(offset, seq).replica(1, offset, seq, producer_epoch=epoch)
    rows.send(0, 0).send(2, 2)
    assert causes(rows.write(tmp_path / "run"), verified, "duplicate") == [
        "producer_epoch: sent in producer epochs 0 and 1; first at partition 0, offset 0",
        "unobserved: first at partition 0, offset 2",
    ]


def test_what_every_later_leader_had_is_lost_by_nothing_that_the_model_knows() -> None:
    """That needs all elections: from epoch 0 to the last one that the final log names, with those that nobody won."""
    known = Checkpoints({("a", 0): ((0, 0), (1, 5))})
    text = "unexplained: no later leader began at or below it, so each of them had it"
    assert found(FIRST, SECOND, epochs=known).drops[0] == Drop(0, 5, None, text)
    assert found(FIRST, epochs=Checkpoints({("a", 0): ((0, 0),)})).drops[0] == Drop(0, None, None, text)
    again = elected(30 * MS, 1, 0, 3, (1,))
    assert found(FIRST, again, SECOND, epochs=known).drops[0].end == 3
    for later_ns, end in ((0, 5), (LOG_TIME_NS, 5), (LOG_TIME_NS + 1, 0)):
        twice = replace(FIRST, ts_ns=FIRST.ts_ns + later_ns)
        assert found(FIRST, twice, SECOND, epochs=known).drops[0].end == end
    third = elected(30 * MS, 3, 3, 9, (2, 3))
    later = Checkpoints({("a", 0): ((0, 0), (1, 5), (3, 9))})
    for changes, epochs in (
        ((FIRST, SECOND), later),
        ((FIRST, SECOND, third), later),
        ((SECOND,), known),
        ((FIRST, SECOND), Checkpoints()),
    ):
        assert not found(*changes, epochs=epochs).drops[0].cause.startswith("unexplained")
    nobody = PartitionOffline(ts_ns=29 * MS, controller=3, lane="a", partition=0, leader_epoch=2)
    assert found(FIRST, SECOND, third, epochs=later, kept=[nobody]).drops[0] == Drop(0, 5, None, text)
    cleaned = [found(FIRST, SECOND, epochs=known, lane={"cleanup_policy": by}).drops[0] for by in ("compact", "delete")]
    assert [drop.cause.startswith("unexplained") for drop in cleaned] == [True, False]


@pytest.mark.parametrize("offset", [2, 6])
@pytest.mark.parametrize("stored", [None, 8])
def test_a_record_that_every_later_leader_had_is_a_violation_where_it_may_be_lost_or_moved(
    tmp_path: Path, verified: Verified, offset: int, stored: int | None
) -> None:
    """With acks=1 and a paused leader, a zombie may lose what it acknowledged past its successor's log end alone."""
    rows = Rows(lanes=[{"lane": "a", "acks": "1", "faults": ["pause"]}])
    rows.clock = 0
    for seq in range(8):
        rows.all(seq, seq)
    rows.send(8, offset)
    if stored is not None:
        rows.store(stored, 8).read(stored, 8)
    rows.event("fault_requested", ts_ns=10 * MS, fault_id="f", kind="pause", resolved=["broker-1"])
    rows.event("fault_proven", ts_ns=11 * MS, fault_id="f").event("fault_healed", ts_ns=40 * MS, fault_id="f")
    for won in (FIRST, SECOND):
        rows.event("leader_elected", **{key: value for key, value in won.to_json().items() if key != "type"})
    end = len(rows.log or ())
    rows.checkpoints = {
        "brokers": {"2": {"a/0": {"high_watermark": end, "log_end_offset": end, "leader_epochs": [[0, 0], [1, 5]]}}}
    }
    rows.prediction = {"format_version": 1, "lanes": {}}
    (lane,) = verified(rows.write(tmp_path / "run")).lanes
    found = ("lost_write" if stored is None else "offset_mismatch", "inconsistent_offset")
    texts = [f"{anomaly} is permitted, but no behaviour of the model explains 1 of 1" for anomaly in found]
    assert sorted(lane.reasons) == (sorted(texts) if offset == 2 else []), lane.reasons
    assert lane.verdict.value == ("violation" if offset == 2 else "conforms")
    cause = "unexplained" if offset == 2 else "election"
    assert {str(anomaly): seen.causes for anomaly, seen in lane.observed.items()} == {one: {cause: 1} for one in found}


def test_of_two_records_at_one_offset_either_may_have_been_dropped(tmp_path: Path, verified: Verified) -> None:
    """The truncation was before the higher one of both was sent."""
    rows = Rows().send(0, 0)
    rows.event("log_truncated", lane="a", partition=0, broker=1, offset=0, log_end=1)
    rows.clock += 10 * MS
    rows.all(0, 1)
    assert causes(rows.write(tmp_path / "run"), verified, "inconsistent_offset") == [
        "truncation: broker 1 dropped offsets 0 to 0; also producer 0, seq 0"
    ]
