"""Each anomaly planted alone, at borders and in pairs, one lane per plant: found exactly, and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kafka_chaos.contract.anomalies import WIDEST_LISTED_GAP, Anomaly, Verdict
from tests.night import a_third_by_day
from tests.verification.oracle.anomalies import check
from tests.verification.oracle.rows import Case, LaneHistory, Produced, Read, Replicated, Stored, case_order
from tests.verification.samples.engines import Verified, counted, verified_by_duckdb
from tests.verification.samples.random_histories import random_unplaced_history
from tests.verification.samples.run_dirs import Rows, read_cases, write_histories

RECORDS = 200
Plant = Callable[[LaneHistory, int], Case]


def valid() -> LaneHistory:
    """One partition, one producer, a follower, three replicas that agree; the last record's outcome is info."""
    outcome = ["ok"] * (RECORDS - 1) + ["info"]
    return LaneHistory(
        produced=[Produced(0, i, 0, i if outcome[i] == "ok" else None, outcome[i]) for i in range(RECORDS)],
        log=[Stored(0, i, 0, i) for i in range(RECORDS)],
        consumed=[Read("c", 0, i, 0, i, i) for i in range(RECORDS)],
        replicas=[Replicated(0, broker, i, 0, 0, i) for broker in (1, 2, 3) for i in range(RECORDS)],
        high_watermarks={0: RECORDS},
    )


def end(history: LaneHistory) -> int:
    assert history.log is not None
    return max(row.offset for row in history.log) + 1


def fresh_seq(history: LaneHistory) -> int:
    return max(row.seq for row in history.produced) + 1


def append(history: LaneHistory, offset: int, seq: int) -> None:
    assert history.log is not None
    history.log.append(Stored(0, offset, 0, seq))
    history.consumed.append(Read(f"tail-{offset}", 0, offset, 0, seq, 1_000_000 + offset))


def lost_write(history: LaneHistory, at: int) -> Case:
    seq = fresh_seq(history)
    history.produced.append(Produced(0, seq, None, None, "ok"))
    return Case("lost_write", None, None, 0, seq)


def duplicate(history: LaneHistory, at: int) -> Case:
    offset = end(history)
    append(history, offset, at)
    return Case("duplicate", 0, offset, 0, at)


def false_failure(history: LaneHistory, at: int) -> Case:
    history.produced[at] = history.produced[at]._replace(outcome="fail")
    assert history.log is not None
    place = min(row.offset for row in history.log if row.seq == at)
    return Case("false_failure", 0, place, 0, at)


def phantom(history: LaneHistory, at: int) -> Case:
    offset = end(history)
    append(history, offset, 10_000 + at)
    return Case("phantom", 0, offset, 0, 10_000 + at)


def inconsistent_offset(history: LaneHistory, at: int) -> Case:
    seq = fresh_seq(history)
    history.produced.append(Produced(0, seq, 0, at, "info"))
    append(history, end(history), seq)
    return Case("inconsistent_offset", 0, at, 0, seq)


def offset_mismatch(history: LaneHistory, at: int) -> Case:
    history.produced[at] = history.produced[at]._replace(offset=5000 + at, outcome="ok")
    return Case("offset_mismatch", 0, 5000 + at, 0, at)


def truncated_read(history: LaneHistory, at: int) -> Case:
    seq = fresh_seq(history)
    history.produced.append(Produced(0, seq, None, None, "info"))
    history.consumed.append(Read(f"other-{seq}", 0, 9000 + at, 0, seq, 7))
    return Case("truncated_read", 0, 9000 + at, 0, seq)


def reordered(history: LaneHistory, at: int) -> Case:
    assert history.log is not None
    one, two = fresh_seq(history), fresh_seq(history) + 1
    offset = end(history)
    for place, seq in ((offset, two), (offset + 1, one)):
        history.produced.append(Produced(0, seq, 0, place, "ok"))
        append(history, place, seq)
    return Case("reordered", 0, offset + 1, 0, one)


def unseen(history: LaneHistory, at: int) -> Case:
    at = min(at, RECORDS - 2)  # the end itself, unread, would be an end that nobody reached
    # The reading ends before the record and goes on behind it under another name: nobody stepped over it.
    history.consumed = [
        row._replace(consumer=f"{row.consumer}-{at}") if row.offset > at and row.consumer == "c" else row
        for row in history.consumed
        if row.offset != at
    ]
    return Case("unseen", 0, at, 0, at)


def nonmonotonic_poll(history: LaneHistory, at: int) -> Case:
    history.consumed += [Read(f"again-{at}", 0, at, 0, at, poll) for poll in (1, 2)]
    return Case("nonmonotonic_poll", 0, at, 0, at)


def skipped_poll(history: LaneHistory, at: int) -> Case:
    inner = min(max(at, 1), RECORDS - 2)
    history.consumed += [Read(f"skips-{at}", 0, inner + step, 0, inner + step, step + 5) for step in (-1, 1)]
    return Case("skipped_poll", 0, inner, 0, inner)


def offset_gap(history: LaneHistory, at: int) -> Case:
    seq, hole = fresh_seq(history), end(history)
    history.produced.append(Produced(0, seq, 0, hole + 1, "ok"))
    append(history, hole + 1, seq)
    return Case("offset_gap", 0, hole, None, None)


def replica_divergence(history: LaneHistory, at: int) -> Case:
    history.replicas = [
        row._replace(leader_epoch=1) if row.broker == 2 and row.offset == at else row for row in history.replicas
    ]
    return Case("replica_divergence", 0, at, 0, at)


PLANTS: list[Plant] = [
    lost_write,
    duplicate,
    false_failure,
    phantom,
    inconsistent_offset,
    offset_mismatch,
    truncated_read,
    reordered,
    unseen,
    nonmonotonic_poll,
    skipped_poll,
    offset_gap,
    replica_divergence,
]


def planted() -> tuple[dict[str, LaneHistory], dict[str, list[Case]]]:
    """Every plant at the first, an inner and the last record, and every pair of plants in either order."""
    histories, expected = {"clean": valid()}, {"clean": list[Case]()}
    for plant in PLANTS:
        for at in (0, 70, RECORDS - 1):
            name = f"{plant.__name__}@{at}"
            histories[name] = valid()
            expected[name] = [plant(histories[name], at)]
    for first in PLANTS:
        for second in PLANTS:
            if first is not second:
                name = f"{first.__name__}+{second.__name__}"
                histories[name] = valid()
                expected[name] = [first(histories[name], 20), second(histories[name], 130)]
    return histories, expected


def test_planted_anomalies_are_found_and_nothing_else(tmp_path: Path, verified: Verified) -> None:
    histories, expected = planted()
    verdict = verified(write_histories(tmp_path / "run", histories))
    found = read_cases(tmp_path / "run")
    wrong = {
        name: (found.get(name, []), cases)
        for name, cases in expected.items()
        if sorted(found.get(name, []), key=str) != sorted(cases, key=str)
    }
    assert not wrong
    assert verdict.lane("clean").count("lost_write") == 0  # type: ignore[arg-type]
    assert {lane.lane: lane.verdict.value for lane in verdict.lanes if lane.lane != "clean"} == dict.fromkeys(
        [name for name in expected if name != "clean"], "violation"
    )


def test_what_retention_removed_is_lost_where_less_is_left_than_it_had_to_leave(
    tmp_path: Path, verified: Verified
) -> None:
    sizes = {"early": 89, "in-time": 90, "untold": None, "absent": 90, "other broker": 10}
    keys = {lane: {"cleanup_policy": "delete", "retention_bytes": 100} for lane in sizes}
    histories = {lane: valid() for lane in sizes}
    for history in histories.values():
        history.log = [row for row in history.log or () if row.offset >= 7]
        history.replicas = [row for row in history.replicas if row.offset >= 7]
    run = write_histories(tmp_path / "run", histories, keys)
    checkpoints = json.loads((run / "checkpoints.json").read_text())
    for lane, left in sizes.items():
        checkpoints["brokers"]["1"][f"{lane}/0"] |= {"log_start_offset": 7, "log_bytes": left}
    del checkpoints["brokers"]["1"]["absent/0"]
    checkpoints["brokers"].setdefault("2", {})["other broker/0"] = {"log_start_offset": 0, "log_bytes": 95}
    (run / "checkpoints.json").write_text(json.dumps(checkpoints))
    verdict = verified(run)
    lost = [Case("lost_write", 0, offset, 0, offset) for offset in range(7)]
    found = read_cases(run)
    assert [found.get(lane, []) for lane in ("early", "in-time", "other broker")] == [lost, [], lost]
    violations = dict.fromkeys(["early", "other broker"], "violation")
    assert {lane.lane: lane.verdict.value for lane in verdict.lanes} == violations | dict.fromkeys(
        ["in-time", "untold", "absent"], "unknown"
    )
    assert [lane.lane for lane in verdict.lanes if "lost_write" in lane.not_judged] == ["untold", "absent"]


def test_what_lay_within_the_log_was_not_removed_by_retention(tmp_path: Path, verified: Verified) -> None:
    histories = {name: valid() for name in ("removed", "hole", "again")}
    for name, history in histories.items():
        gone = {*range(7), *([50] if name == "hole" else [])}
        history.log = [row for row in history.log or () if row.offset not in gone]
        history.replicas = [row for row in history.replicas if row.offset not in gone]
    histories["again"].consumed = [row for row in histories["again"].consumed if row.seq != 3]
    append(histories["again"], RECORDS, 3)
    keys = {"cleanup_policy": "delete", "idempotence": True}
    verified(write_histories(tmp_path / "run", histories, dict.fromkeys(histories, keys)))
    hole = [Case(name, 0, 50, 0, 50) for name in ("lost_write", "truncated_read")]
    again = [Case(name, 0, RECORDS, 0, 3) for name in ("duplicate", "reordered")]
    expected = {"hole": [hole[0], Case("offset_gap", 0, 50, None, None), hole[1]], "again": again}
    assert read_cases(tmp_path / "run") == expected


def test_a_hole_of_any_width_and_a_high_watermark_that_goes_back_within_an_epoch(
    tmp_path: Path, verified: Verified
) -> None:
    """The second hole is too wide for its offsets to be listed."""
    rows = Rows(lanes=[{"lane": name} for name in ("it's", "b")])
    for seq, offset in enumerate((0, WIDEST_LISTED_GAP + 1, 10**12)):
        rows.all(offset, seq, lane="it's")
        rows.all(seq, seq, lane="b")
    for epoch, mark in ((0, 5), (0, 7), (0, 7), (0, 6), (1, 3), (1, 2)):
        rows.event("high_watermark", lane="b", partition=0, broker=1, leader_epoch=epoch, high_watermark=mark)
    verdict = verified(rows.write(tmp_path / "run"))
    assert {lane.verdict for lane in verdict.lanes} == {Verdict.VIOLATION}
    assert verdict.lane("it's").count(Anomaly.OFFSET_GAP) == 10**12 - 2
    assert verdict.lane("b").count(Anomaly.HIGH_WATERMARK_REGRESSION) == 2


def test_a_record_that_was_sent_after_a_consumer_had_passed_its_offset_was_not_skipped(
    tmp_path: Path, verified: Verified
) -> None:
    """The log was replaced since: what stands there now was not there when the consumer went on."""
    histories = {"then": valid(), "later": valid()}
    for history in histories.values():
        history.consumed = [row._replace(poll_ns=row.poll_ns + 1_000) for row in history.consumed]
        skipped_poll(history, 70)
    replaced = histories["later"].produced
    replaced[70] = replaced[70]._replace(invoke_ns=100, complete_ns=101)
    verified(write_histories(tmp_path / "run", histories))
    assert [case.anomaly for case in read_cases(tmp_path / "run").get("then", [])] == ["skipped_poll"]
    assert read_cases(tmp_path / "run").get("later", []) == []


def test_where_producers_are_told_no_place_the_log_alone_proves_records_clean(tmp_path: Path) -> None:
    random = Random(5)
    sent = [Produced(-1, -1, None, None, "ok")]
    undecodable = LaneHistory(sent, [Read("c", 0, 0, -1, -1, 0)], [Stored(0, 0, -1, -1)])
    histories = {f"lane-{number}": random_unplaced_history(random) for number in range(150)} | {"none": undecodable}
    clients = {lane: {"acks": "0"} for lane in histories}
    assert counted(verified_by_duckdb(write_histories(tmp_path / "run", histories, clients))).total() > 1000


def at_stride(history: LaneHistory, stride: int) -> LaneHistory:
    """The history of a producer that sends only every `stride`-th record to this partition."""
    return LaneHistory(
        produced=[row._replace(seq=row.seq * stride) for row in history.produced],
        consumed=[row._replace(seq=row.seq * stride, poll_ns=row.poll_ns * 10) for row in history.consumed],
        log=[row._replace(seq=row.seq * stride) for row in history.log or ()],
        replicas=[row._replace(seq=row.seq * stride) for row in history.replicas],
        high_watermarks=history.high_watermarks,
    )


def two_at_one_offset(history: LaneHistory, at: int) -> None:
    """Only the log itself shows that two records are at one offset."""
    assert history.log is not None
    history.produced.append(Produced(1, 0, None, None, "ok"))
    history.log.append(Stored(0, at, 1, 0))
    history.consumed.append(Read("other", 0, at, 1, 0, 5))


def polls_that_interleave(history: LaneHistory, at: int) -> None:
    """The second part is read in order, but begins before the first has ended."""
    history.consumed = [
        row._replace(poll_ns=row.poll_ns - 50 if row.offset >= 128 else row.poll_ns) for row in history.consumed
    ]


def claim_of_an_offset(history: LaneHistory, at: int) -> None:
    """Only an `info` names the offset of another record; its own record is elsewhere in the log."""
    seq, offset = fresh_seq(history), end(history)
    history.produced.append(Produced(0, seq, 0, at, "info"))
    append(history, offset, seq)


ALONE: list[Callable[[LaneHistory, int], object]] = [
    *PLANTS,
    two_at_one_offset,
    polls_that_interleave,
    claim_of_an_offset,
]


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("plant", a_third_by_day(ALONE), ids=lambda plant: plant.__name__)
def test_an_anomaly_that_is_alone_in_its_run(
    tmp_path: Path, plant: Callable[[LaneHistory, int], object], stride: int
) -> None:
    history = valid()
    plant(history, 70)
    history = at_stride(history, stride)
    run_dir = write_histories(tmp_path / "run", {"a": history})
    expected = check(history)
    assert expected
    verified_by_duckdb(run_dir)
    assert sorted(read_cases(run_dir).get("a", []), key=case_order) == expected
