"""Planted stalls are found with their bound; what faults and the harness's own pauses explain is not; gaps in the
evidence are named."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lane.fault_kinds import COUNTS_AS
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import CALLS, RecoveryAnomaly, Timings
from kafka_chaos.contract.run_directory import EXPERIMENT_FILE, TIMINGS_FILE
from kafka_chaos.verification import LaneVerdict, RunVerdict
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Doubt
from kafka_chaos.verification.recovery.evidence import Recovery
from kafka_chaos.verification.tables.facts import LaneFacts
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows
from tests.verification.samples.together import Together, together

pytestmark = pytest.mark.usefixtures("everything_forbidden")
TOGETHER = Together(is_all_forbidden=True)
SECOND = 1_000_000_000
BEGIN, SECONDS = 1_000 * SECOND, 200
TIMINGS = {
    "session_ms": 3_000,
    "election_ms": 3_000,
    "lag_ms": 10_000,
    "replica_socket_ms": 5_000,
    "abort_check_ms": 1_000,
    "reconnect_ms": 2_000,
    "retry_ms": 500,
    "connect_ms": 3_000,
    "request_ms": 5_000,
    "fetch_ms": 6_000,
}
BROKEN, HANGING, READING, WHOLE = 9.5, 32.5, 33.5, 26.0
"""Bounds in seconds: of producers after kills and after other faults, of consumers, and until an ISR is whole."""
PRODUCER, CONSUMER, ISR, GROUP, TRANSACTION, SHARE = RecoveryAnomaly


def at(seconds: float) -> int:
    return BEGIN + round(seconds * SECOND)


def healthy(apart: int = 1, records: int = SECONDS, **lane: Any) -> Rows:
    """Records so many seconds apart, each acknowledged after 0.1 s and read after 0.2 s, with an ISR of three."""
    rows = Rows(lanes=[{"lane": "a", **lane}], timings={"a": TIMINGS})
    for seq in range(records):
        rows.all(seq, seq)
        rows.produced[-1] |= {"invoke_ns": at(apart * seq), "complete_ns": at(apart * seq + 0.1)}
        rows.consumed[-1]["poll_ns"] = at(apart * seq + 0.2)
    rows.event("phase_started", phase="main", lanes=["a"], ts_ns=at(-1))
    rows.event("isr_changed", lane="a", partition=0, isr=[1, 2, 3], ts_ns=at(-1))
    rows.event("high_watermark", lane="a", partition=0, leader_epoch=0, high_watermark=records, ts_ns=at(records))
    return phase_ended(rows, ts_ns=at(apart * records + 1))


def phase_ended(rows: Rows, **fields: Any) -> Rows:
    """The phase ended then; what an event of it said before, but for these fields, stays."""
    events = rows.events or []
    earlier = next((event for event in events if event["type"] == "phase_ended"), {"phase": "main"})
    rows.events = [event for event in events if event is not earlier]
    rows.events.append({"type": "phase_ended", **earlier, **fields})
    return rows


def silent(rows: Rows, since: float, until: float) -> Rows:
    """No broker answers: what was sent meanwhile is acknowledged after it, or never if that lasts to the end."""
    for row in rows.produced:
        if since <= row["seq"] < until:
            row["complete_ns"] = at(until + 0.1)
            if until >= SECONDS:
                row |= {"outcome": "info", "complete_ns": None, "offset": None}
    rows.consumed = [row for row in rows.consumed if until < SECONDS or row["seq"] < since]
    if until >= SECONDS:
        rows.log = [row for row in rows.log or () if row["seq"] < since]
    return unread(rows, since, until)


def unread(rows: Rows, since: float, until: float) -> Rows:
    """The consumer is not given anything meanwhile."""
    for row in rows.consumed:
        if since <= row["seq"] < until:
            row["poll_ns"] = at(until + 0.2) + row["seq"]
    rows.consumed = [row for row in rows.consumed if row["seq"] < since or until < SECONDS]
    return rows


def shrunk(rows: Rows, since: float, until: float) -> Rows:
    """A follower is out of the ISR meanwhile."""
    rows.event("isr_changed", lane="a", partition=0, isr=[1, 2], ts_ns=at(since))
    return (
        rows if until >= SECONDS else rows.event("isr_changed", lane="a", partition=0, isr=[1, 2, 3], ts_ns=at(until))
    )


def fault(rows: Rows, kind: str, since: float, until: float, *, broker: str = "broker-1") -> Rows:
    fault_id = f"{kind}-{since:g}"
    counts_as = [name for name in (COUNTS_AS[kind],) if name is not None]
    rows.lanes[0].setdefault("faults", []).extend(counts_as)
    what = {"fault_id": fault_id, "kind": kind, "model_faults": counts_as, "resolved": [broker], "lanes": ["a"]}
    rows.event("fault_requested", **what, ts_ns=at(since))
    rows.event("fault_proven", fault_id=fault_id, evidence={broker: {}}, ts_ns=at(since + 0.1))
    return rows.event("fault_healed", fault_id=fault_id, ts_ns=at(until))


Judge = Callable[..., LaneVerdict]
JudgeEach = Callable[..., list[LaneVerdict]]


@pytest.fixture
def judged_each(tmp_path: Path, verified: Verified) -> JudgeEach:
    """Judges these histories as the lanes of one run."""

    def judge(*histories: Rows) -> list[LaneVerdict]:
        run = together({f"lane-{number}": rows for number, rows in enumerate(histories)})
        run.prediction = {"format_version": 1, "lanes": {}}
        return list(verified(run.write(tmp_path / "together")).lanes)

    return judge


@pytest.fixture
def judged(tmp_path: Path, verified: Verified) -> Judge:
    """Judges the lane of a history in a run of its own, which has an experiment if it is planned."""

    def judge(rows: Rows, *, is_planned: bool = False) -> LaneVerdict:
        assert rows.events is not None
        rows.events.sort(key=lambda event: event["ts_ns"])
        rows.prediction = {"format_version": 1, "lanes": {}}
        path = rows.write(tmp_path / f"run-{len(list(tmp_path.iterdir()))}")
        if is_planned:
            (path / EXPERIMENT_FILE).write_text("phases: []\n")
        return verified(path).lane("a")

    return judge


def timed(rows: Rows, **timings: Any) -> Rows:
    """The lane has these time-outs beside the usual ones."""
    rows.timings = {"a": {**TIMINGS, **timings}}
    return rows


def found(lane: LaneVerdict) -> dict[RecoveryAnomaly, int]:
    return {one: lane.observed[one].count for one in RecoveryAnomaly if one in lane.observed}


STALLED = {PRODUCER: "longest gap"}


@TOGETHER.cases(("told", {CONSUMER: "longest gap"}), ("", {}))
def a_passing_consumer_that_reads_again(told: str) -> Rows:
    """It reads the log's start while the lane's own consumer, for which it is taken unless told, is given nothing."""
    rows = unread(healthy(), 60, 60 + READING + 20)
    for seq in range(60):
        again = {"consumer": "a-consumer-1-1", "poll_ns": at(61 + seq)}
        rows.consumed.append({**rows.consumed[seq], **again})
    return rows.event("reader_started", lane="a", consumer="a-consumer-1-1", ts_ns=at(60.5)) if told else rows


@TOGETHER.cases({CONSUMER: "longest gap"})
def no_consumer_but_one_that_comes_and_goes() -> Rows:
    rows = healthy()
    return rows.event("reader_started", lane="a", consumer=rows.consumed[0]["consumer"], ts_ns=at(0))


@TOGETHER.cases({})
def quiet() -> Rows:
    """A partition in which a minute passes between two records. Each second one is read 5 ms before its producer learns
    that it is there, and each fourth one is acknowledged to a retry, without its offset."""
    rows = healthy(apart=60, records=12)
    for row in rows.consumed[1::2]:
        row["poll_ns"] = at(60 * row["seq"] + 0.095)
    for row in rows.produced[3::4]:
        row["offset"] = None
    return rows


@TOGETHER.cases(
    ({6: 360.2 + 55}, {CONSUMER: "longest gap 55.1 s"}),
    # The second record was due while the consumer waited for the first, and is given 40 s after it.
    ({6: 480, 7: 520, 8: 521}, {CONSUMER: "was found: 2: "}),
)
def read_late(reads: dict[int, float]) -> Rows:
    rows = quiet()
    for seq, read in reads.items():
        rows.consumed[seq]["poll_ns"] = at(read)
    return rows


@TOGETHER.cases((0.5, {}), (0.5 + HANGING, STALLED))
def a_record_that_its_producer_gave_up(after: float) -> Rows:
    """Nothing is sent for a minute after it: the partition may have been available all the time."""
    rows = quiet()
    rows.send(100, None, "fail")
    rows.produced[-1] |= {"invoke_ns": at(361), "complete_ns": at(361 + after)}
    rows.send(101, None, "info")
    rows.produced[-1] |= {"invoke_ns": at(481), "complete_ns": None}
    return rows


@TOGETHER.cases({})
def a_record_of_an_aborted_transaction_in_a_group() -> Rows:
    """It is acknowledged, and a minute passes before one is committed."""
    rows = owned(quiet(), (-1, 12 * 60))
    for row in list(rows.consumed):
        if row["seq"] % 3:
            rows.consumed.append({**row, "consumer": "m0", "poll_ns": row["poll_ns"] + SECOND})
    return rows


Planted = Callable[[Rows, float, float], Rows]
STALLS: dict[RecoveryAnomaly, tuple[Planted, float]] = {
    PRODUCER: (silent, HANGING),
    CONSUMER: (unread, READING),
    ISR: (shrunk, WHOLE),
}


@TOGETHER.cases(*((anomaly, seed, (anomaly, seed % 2)) for anomaly in STALLS for seed in range(10)))
def planted_anywhere(anomaly: RecoveryAnomaly, seed: int) -> Rows:
    """Half of the stalls never end; half of those that end come after a fault that did, and is healed."""
    chance = random.Random(seed)
    plant, bound = STALLS[anomaly]
    since = chance.randrange(10, 100)
    rows = plant(healthy(), since, SECONDS if seed % 2 else since + bound + chance.randrange(15, 30))
    return fault(rows, "pause", since - 1, since + 8) if seed % 4 < 2 else rows


@TOGETHER.each(planted_anywhere)
def test_a_stall_that_is_planted_anywhere_is_found(
    run_verdict: RunVerdict, lane: LaneVerdict, expected: tuple[RecoveryAnomaly, bool]
) -> None:
    anomaly, never_ends = expected
    assert lane.verdict is Verdict.VIOLATION
    assert found(lane)[anomaly] == 1
    assert found(lane).keys() <= {anomaly, CONSUMER}
    ((reason,),) = [[text for text in lane.reasons if text.startswith(f"{anomaly} is forbidden and was found: 1: ")]]
    assert f"bound {STALLS[anomaly][1]:g} s (session 3 s + " in reason
    assert ("with no end seen" in reason) == never_ends
    of_run = pq.read_table(Path(run_verdict.run_dir) / "findings").to_pylist()
    of_lane = [row for row in of_run if (row["lane"], row["anomaly"]) == (lane.lane, anomaly)]
    assert [(row["partition"], row["cause"] in reason) for row in of_lane] == [(0, True)]


@TOGETHER.cases(*((anomaly, {}) for anomaly in STALLS))
def what_ends_within_its_bound(anomaly: RecoveryAnomaly) -> Rows:
    plant, bound = STALLS[anomaly]
    return plant(healthy(), 50, 48 + bound)


KRAFT = {"metadata_mode": "kraft"}


@TOGETHER.cases(
    ("kill", {"min_insync_replicas": 2}, BROKEN + 2, STALLED),
    ("kill", {"min_insync_replicas": 2}, BROKEN - 2, {}),
    # Two replicas are not enough: whoever is down is waited for.
    ("kill", {"min_insync_replicas": 3}, BROKEN + 2, {}),
    # Of two brokers that are controllers, one is no majority.
    ("kill", {**KRAFT, "replication_factor": 3}, BROKEN + 2, STALLED),
    ("kill", {**KRAFT, "replication_factor": 2}, BROKEN + 2, {}),
    # Requests to a frozen broker, or to one that can't write, hang until they time out.
    ("pause", {"min_insync_replicas": 2}, BROKEN + 2, {}),
    ("pause", {"min_insync_replicas": 2}, HANGING + 2, STALLED),
    ("pause", {"min_insync_replicas": 3}, HANGING + 2, {}),
    ("read-only-disk", {"min_insync_replicas": 2}, HANGING + 2, STALLED),
    ("failing-segment", {"min_insync_replicas": 2}, HANGING + 2, STALLED),
    ("lost-index", {"min_insync_replicas": 2}, HANGING + 2, STALLED),
    ("truncated-segment", {"min_insync_replicas": 2}, HANGING + 2, STALLED),
    # A broker with a frozen disk keeps its session, and leads on.
    ("freeze-disk", {"min_insync_replicas": 2}, HANGING + 2, {}),
    # A broker that is cut off from others may lead on.
    ("partition", {"min_insync_replicas": 2}, HANGING + 2, {}),
)
def a_fault_that_may_leave_enough_brokers(kind: str, lane: dict[str, Any], lasts: float) -> Rows:
    rows = silent(healthy(acks="all", **lane), 50, 50 + lasts)
    return fault(rows, kind, 49.5, max(90, 51 + lasts))


@TOGETHER.cases({})
def an_isr_that_was_not_whole_before_a_kill() -> Rows:
    return fault(silent(shrunk(healthy(acks="all"), 45, 70), 50, 50 + BROKEN + 2), "kill", 49.5, 65)


@TOGETHER.cases({})
def a_kill_near_another_kill() -> Rows:
    rows = fault(silent(healthy(acks="all", min_insync_replicas=2), 50, 50 + BROKEN + 2), "kill", 49.5, 65)
    return fault(rows, "kill", 40, 45, broker="broker-2")


@TOGETHER.cases((20, {}), (SECONDS, {PRODUCER: "longest gap"}))
def a_record_that_never_had_a_partition(asked: float) -> Rows:
    """It waits for nobody as long as others are answered."""
    rows = healthy().send(1000, None, "fail")
    rows.produced[-1] |= {"partition": None, "invoke_ns": at(asked), "complete_ns": at(asked + 170)}
    return rows


@pytest.mark.parametrize(
    ("broker", "ended", "lasts", "is_found"),
    [
        # Nobody tells of a session: the kill broke connections at once, and nothing else happened.
        (None, 0, BROKEN + 2, True),
        (2, 55, BROKEN + 2, False),
        # With the session that it was not heard of, an outage of 35.5 s would be within the bound.
        (2, 55, HANGING + 2, False),
        (2, 55, HANGING + 5, True),
        # The session of the broker that was killed, one long before, and one after.
        (1, 52, BROKEN + 2, True),
        (2, 10, BROKEN + 2, True),
        (2, 70, BROKEN + 2, True),
    ],
)
def test_a_session_that_no_fault_ended_widens_the_bound_as_a_fault_does(
    judged: Judge, broker: int | None, ended: float, lasts: float, is_found: bool
) -> None:
    rows = silent(healthy(acks="all", min_insync_replicas=2), 50, 50 + lasts)
    fault(rows, "kill", 49.5, 51)
    if broker is not None:
        rows.event("broker_session_ended", broker=broker, controller=3, ts_ns=at(ended))
    assert found(judged(rows)) == ({PRODUCER: 1} if is_found else {})


@TOGETHER.cases(("kept", STALLED), ("elected", {}))
def a_broker_that_left_the_isr_without_a_fault(elected: str) -> Rows:
    """Seen on a machine with too much to do: the new leader lost its session, too."""
    rows = silent(healthy(acks="all", min_insync_replicas=2), 50, 50 + BROKEN + 2)
    rows.event("isr_changed", lane="a", partition=0, isr=[2, 3], ts_ns=at(55))
    rows.event("isr_changed", lane="a", partition=0, isr=[1, 2, 3], ts_ns=at(72))
    if elected == "elected":
        place = {"lane": "a", "partition": 0, "broker": 3, "leader_epoch": 3, "start_offset": 50}
        rows.event("leader_elected", **place, isr=[3], ts_ns=at(58))
    return fault(rows, "kill", 49.5, 70)


@TOGETHER.cases({})
def a_producer_that_gave_up_and_sends_no_more() -> Rows:
    """The phase may go on for long, until replicas have caught up and consumers have read everything."""
    rows = healthy().send(SECONDS, None, "info")
    rows.produced[-1] |= {"invoke_ns": at(SECONDS), "complete_ns": at(SECONDS + 10)}
    return phase_ended(rows, ts_ns=at(SECONDS + 10 * HANGING))


def test_time_in_which_the_harness_did_not_run_does_not_count(judged: Judge) -> None:
    rows = silent(healthy(), 50, 50 + HANGING + 2)
    rows.event("harness_paused", seconds=5.0, ts_ns=at(60))
    lane = judged(rows)
    assert found(lane) == {}
    # Only what was late within the gap.
    rows = silent(healthy(), 50, 50 + HANGING + 2)
    rows.event("harness_paused", seconds=5.0, ts_ns=at(20))
    assert found(judged(rows))[PRODUCER] == 1


@TOGETHER.cases((3_000, {}), (1_000, {PRODUCER: "retry 0.5 s + linger 1 s)"}))
def a_producer_that_waits_for_more_records(linger_ms: int) -> Rows:
    return timed(silent(healthy(), 50, 50 + HANGING + 2), linger_ms=linger_ms)


def owned(rows: Rows, *spans: tuple[float, float | None]) -> Rows:
    """A group that reads the lane: from when to when a member had the partition."""
    rows.lanes[0]["group"] = {"members": 1, "session_timeout_ms": 2_000, "max_poll_interval_ms": 4_000}
    rows.transactions, rows.assignments, rows.commits = None, [], []
    for number, (since, until) in enumerate(spans):
        row = {"lane": "a", "group": "a-group", "consumer": f"m{number}", "member": "m", "generation": number}
        times = {"start_ns": at(since), "end_ns": None if until is None else at(until)}
        rows.assignments.append({**row, **times, "partition": 0, "isolation": "read_uncommitted"})
    return rows


@TOGETHER.cases(
    ((-1, 50), (60, 200), {CONSUMER: ""}),
    ((-1, 50), (100, 200), {GROUP: "", CONSUMER: ""}),
    ((-1, 50), {GROUP: "", CONSUMER: ""}),
    # Nobody knows when a member that was killed let go.
    ((-1, None), (100, 200), {CONSUMER: ""}),
    ((-1, 50), (40, 200), {CONSUMER: ""}),
)
def a_partition_with_owners(*spans: tuple[float, float | None]) -> Rows:
    """None of them reads anything."""
    return owned(healthy(), *spans)


SHARED = {"client": "java 4.2.2", "kafka_version": "4.4.0", "metadata_mode": "kraft", "share": {"lock_ms": 2_000}}
SHARING = READING + 2 * (2 + 6)
"""And twice a lock, and a session of a member."""


@TOGETHER.cases(
    {},
    ((50, 51 + SHARING - 2), {}),
    ((50, 51 + SHARING + 2), {SHARE: ""}),
    ((SECONDS - SHARING - 5, SECONDS + 1), {SHARE: ""}),
)
def a_share_group_that_waits(*pauses: tuple[float, float]) -> Rows:
    """A share group that is given each record 0.3 s after it was sent, or at the end of a pause."""
    rows = healthy(**SHARED)
    rows.deliveries, rows.share_starts = [], []
    for row in rows.consumed:
        due = row["offset"] + 0.3
        ns = at(next((until for since, until in pauses if since <= due < until), due))
        given = {"lane": "a", "group": "a-share", "member": f"m{row['offset'] % 2}", "delivery_count": 1}
        given |= {name: row[name] for name in ("partition", "offset", "producer_id", "seq")}
        given |= {"asked_ns": ns - SECOND // 10, "delivered_ns": ns, "acknowledgement": "accept", "outcome": "ok"}
        if ns < at(SECONDS):
            rows.deliveries.append({**given, "invoke_ns": ns + 1, "complete_ns": ns + 2})
    end = len(rows.deliveries)
    told = {"lane": "a", "group": "a-share", "member": "m0", "partition": 0}
    for offset, seconds in ((0, 0), (end, SECONDS)):
        rows.share_starts.append({**told, "offset": offset, "invoke_ns": at(seconds), "complete_ns": at(seconds) + 1})
    return rows


@TOGETHER.cases(({},))
def a_share_group_that_is_given_records_in_no_order() -> Rows:
    """The last three come within a second, the highest offset second; then there is nothing to give for long."""
    rows = a_share_group_that_waits()
    for table in (rows.produced, rows.consumed, rows.log or [], rows.deliveries or []):
        table[:] = [row for row in table if not 51 < row["seq"] < 60 + SHARING]
    for row in rows.deliveries or ():
        late = {49: SECOND * 39 // 20, 50: SECOND * 11 // 10}.get(row["seq"], 0)
        row |= {name: row[name] + late for name in ("delivered_ns", "invoke_ns", "complete_ns")}
    return rows


def stable(rows: Rows, *reports: tuple[float, int]) -> Rows:
    """A transactional lane, of which the high watermark rises every second, with its last stable offsets."""
    rows.lanes[0] |= {"idempotence": True, "transactional": {"size": 1, "timeout_ms": 5_000}}
    rows.transactions, rows.assignments = [], []
    for seconds in range(SECONDS):
        mark = {"lane": "a", "partition": 0, "leader_epoch": 0, "high_watermark": seconds}
        rows.event("high_watermark", **mark, ts_ns=at(seconds))
    for seconds, offset in reports:
        lso(rows, seconds, offset, broker=1)
    return rows


@TOGETHER.cases((90, {TRANSACTION: ""}), (70, {}), (SECONDS, {TRANSACTION: ""}))
def a_transaction_that_holds_consumers_back(until: int) -> Rows:
    reports = [(seconds, seconds) for seconds in range(SECONDS) if not 40 < seconds < until]
    return stable(healthy(), *reports)


ENDED = "a-3 waited for the end of a transaction: longest gap 110.0 s, bound"
NEVER_ENDED = "a-3 waited for the end of a transaction: longest gap 161.0 s, with no end seen, bound"


@TOGETHER.cases(
    (None, "info", "_TIMED_OUT", {PRODUCER: NEVER_ENDED, TRANSACTION: ""}),
    (None, "aborted", "_TIMED_OUT", {PRODUCER: NEVER_ENDED, TRANSACTION: ""}),
    (150, "committed", None, {PRODUCER: ENDED, TRANSACTION: ""}),
    (70, "aborted", None, {}),
    # A client that was killed awaits nothing; one that was fenced has its answer.
    (None, "info", None, {}),
    (45, "info", "_FENCED", {}),
)
def with_one_transaction(until: float | None, outcome: str, error: str | None) -> Rows:
    """A transaction begins at 40 s, and its client awaits its end. Others of its lane go on, and no partition's last
    stable offset stands still: a coordinator refuses this one."""
    rows = stable(healthy(), *((seconds, seconds) for seconds in range(SECONDS)))
    rows.transactions = [
        {"lane": "a", "producer_id": 9, "transaction": 0, "transactional_id": "a-3", "initialised_ns": at(0)}
        | {"begin_ns": at(40), "end_ns": None if until is None else at(until), "outcome": outcome, "error": error}
    ]
    return rows


def elect(rows: Rows, since: float, start_offset: int, *, broker: int = 2, leader_epoch: int = 1) -> Rows:
    place = {"lane": "a", "partition": 0, "broker": broker, "leader_epoch": leader_epoch}
    return rows.event("leader_elected", **place, start_offset=start_offset, isr=[1, 2, 3], ts_ns=at(since))


def mark(rows: Rows, since: float, offset: int, *, broker: int = 2, leader_epoch: int = 1) -> Rows:
    place = {"lane": "a", "partition": 0, "broker": broker, "leader_epoch": leader_epoch}
    return rows.event("high_watermark", **place, high_watermark=offset, ts_ns=at(since))


def lso(rows: Rows, since: float, offset: int, *, broker: int = 2) -> Rows:
    place = {"lane": "a", "partition": 0, "broker": broker}
    return rows.event("last_stable_offset", **place, last_stable_offset=offset, ts_ns=at(since) + 1)


def led_by_1(until: int) -> Rows:
    """Up to a moment, broker 1 leads a transactional lane, of which both offsets rise every second."""
    rows = without(stable(healthy()), "high_watermark")
    for seconds in range(until):
        lso(mark(rows, seconds, seconds, broker=1, leader_epoch=0), seconds, seconds, broker=1)
    return rows


STANDS_STILL = "longest gap 60.0 s, bound"


@TOGETHER.cases((40, {TRANSACTION: STANDS_STILL}), (35, {TRANSACTION: STANDS_STILL}))
def a_last_stable_offset_that_is_told_again(again: int) -> Rows:
    """A new leader tells where it stands, at first behind what the former one had told."""
    rows = mark(led_by_1(41), 60, 60, broker=1, leader_epoch=0)
    lso(mark(elect(rows, 65, 65), 66, again), 66, again)
    return lso(mark(rows, 67, 67), 120, 67)


@TOGETHER.cases(("elected", {}), ("first high watermark", {}))
def a_leader_without_the_open_transaction(begins: str) -> Rows:
    """Of a log that lost its end, the last stable offset begins anew, and takes long to be where it was."""
    rows = mark(led_by_1(41), 41, 41, broker=1, leader_epoch=0)
    if begins == "elected":
        elect(rows, 42, 10)
    for seconds in range(43, SECONDS):
        lso(mark(rows, seconds, 10 + seconds // 10), seconds, 10 + seconds // 10)
    return rows


@TOGETHER.cases({})
def what_a_former_leader_tells() -> Rows:
    rows = elect(led_by_1(41), 42, 10)
    lso(mark(rows, 43, 49), 43, 49)
    return lso(mark(rows, 44, 53, broker=1, leader_epoch=0), 44, 51, broker=1)


@TOGETHER.cases({TRANSACTION: "longest gap 77.0 s, bound"})
def what_a_former_leader_tells_hides_nothing() -> Rows:
    rows = mark(elect(led_by_1(41), 42, 10), 43, 30)
    lso(lso(rows, 44, 5), 45, 53, broker=1)
    return lso(rows, 120, 30)


@TOGETHER.cases({})
def what_a_broker_told_before_it_led_again() -> Rows:
    """A broker tells each offset once: its last stable offset before its high watermark of the same moment."""
    rows = mark(led_by_1(100), 100, 99, broker=1, leader_epoch=0)
    lso(rows, 100, 105, broker=1)
    elect(elect(rows, 101, 105), 102, 105, broker=1, leader_epoch=2)
    return mark(rows, 103, 105, broker=1, leader_epoch=2)


@TOGETHER.cases(("clock-step", {}), ("pause", {TRANSACTION: "longest gap 89.0 s, with no end seen, bound"}))
def elections_that_have_no_time_where_clocks_are_moved(kind: str) -> Rows:
    rows = fault(mark(led_by_1(100), 100, 99, broker=1, leader_epoch=0), kind, 20, 30)
    rows.lanes[0]["faults"] = ["pause"]
    return mark(elect(rows, 110, 50), 112, 99, broker=1, leader_epoch=2)


def test_time_outs_of_other_lanes_are_none(tmp_path: Path) -> None:
    (folder := tmp_path / "run").mkdir()
    run = RunDirectory(folder, (Lane(lane="a"),), {})
    assert list(Recovery(run, run.lanes[0], LaneFacts()).lacks()) == []
    (folder / EXPERIMENT_FILE).touch()
    assert list(Recovery(run, run.lanes[0], LaneFacts()).lacks()) == []
    (folder / TIMINGS_FILE).touch()
    expected = "timings.json does not name this lane, though its run has planned it"
    assert list(Recovery(run, run.lanes[0], LaneFacts()).lacks()) == [Doubt(expected)]
    named = replace(run, timings={"a": Timings(**TIMINGS)})
    assert list(Recovery(named, run.lanes[0], LaneFacts()).lacks()) == []


def without(rows: Rows, kind: str) -> Rows:
    return replace(rows, events=[event for event in rows.events or () if event["type"] != kind])


UNKNOWN = dict.fromkeys(("reconnect_ms", "retry_ms", "connect_ms", "request_ms", "fetch_ms"))


def test_what_was_not_observed_is_named_and_not_judged(judged_each: JudgeEach) -> None:
    reports = [(seconds, seconds) for seconds in range(SECONDS)]
    others = silent(healthy(faults=["kill"]), 50, SECONDS).event("outside_faults", kinds=["kill"], lanes=["a"])
    of_unknown, of_no_isr, of_one_isr, of_one_shrunk, of_one_stable, of_no_replica, of_open, of_others, of_acks = (
        judged_each(
            timed(silent(healthy(), 50, SECONDS), **UNKNOWN),
            without(healthy(), "isr_changed"),
            healthy(partitions=2),
            shrunk(healthy(partitions=2), 30, 150),
            stable(healthy(partitions=2), *reports),
            without(healthy(replication_factor=1), "isr_changed"),
            shrunk(healthy(), 190, SECONDS),
            others,
            silent(healthy(acks="0"), 50, SECONDS),
        )
    )
    expected = "timings.json does not say which time-outs its clients have, and the lane has no recover_within"
    assert of_unknown.not_judged[PRODUCER] == expected
    assert {PRODUCER, CONSUMER} <= of_unknown.not_judged.keys()
    assert ISR not in of_unknown.not_judged
    assert of_no_isr.not_judged[ISR] == "events.jsonl holds no ISR of partition 0"
    assert of_one_isr.not_judged[ISR] == "events.jsonl holds no ISR of partition 1"
    assert (found(of_one_shrunk), of_one_shrunk.verdict) == ({ISR: 1}, Verdict.VIOLATION)
    assert of_one_stable.not_judged[TRANSACTION] == "events.jsonl holds no last stable offset of partition 1"
    assert not set(RecoveryAnomaly) & {*of_no_replica.not_judged}, "a lane without replicas has no ISR to restore"
    ended = "partition 0: the run ended before its bound: longest gap 11.0 s, with no"
    assert of_open.not_judged[ISR].startswith(ended)
    assert set(of_others.not_judged) >= {PRODUCER, CONSUMER, ISR}
    assert of_acks.not_judged[PRODUCER] == "with acks=0 nobody is told that a broker has a record"


THROTTLED = "follower.replication.throttled.replicas"


@TOGETHER.cases(THROTTLED)
def assuming() -> Rows:
    return shrunk(healthy(assume=[THROTTLED]), 20, 120)


@TOGETHER.each(assuming)
def test_what_is_assumed_to_hold_nothing_back_is_not_judged(lane: LaneVerdict, expected: str) -> None:
    assert lane.verdict is Verdict.CONFORMS, lane.reasons
    assert all(expected in lane.not_judged[anomaly] for anomaly in (PRODUCER, CONSUMER, ISR))


def test_an_old_directory_is_not_judged_for_recovery_and_says_so(tmp_path: Path, verified: Verified) -> None:
    path = silent(healthy(), 50, 150).write(tmp_path / "run")
    (path / TIMINGS_FILE).unlink()
    lane = verified(path).lane("a")
    assert lane.ledger is not None
    assert "no timings.json: recovery is not judged" in lane.ledger.left_out
    assert not set(RecoveryAnomaly) & {*lane.predicted, *lane.observed}
    assert lane.ledger.recovery == ()


def shifted(rows: Rows, shift: int) -> Rows:
    for table, names in ((rows.produced, ("invoke_ns", "complete_ns")), (rows.consumed, ("poll_ns",))):
        for row in table:
            row |= {name: row[name] + shift for name in names}
    for event in rows.events or ():
        event["ts_ns"] += shift
    return rows


def test_when_a_run_took_place_changes_nothing(judged_each: JudgeEach) -> None:
    shifts = (0, -500 * SECOND, 10**15)
    usual, *moved = judged_each(*(shifted(shrunk(silent(healthy(), 50, 110), 20, 120), shift) for shift in shifts))
    assert found(usual).keys() | {CONSUMER} == {PRODUCER, CONSUMER, ISR}
    assert {*found(usual).values()} == {1}
    for lane in moved:
        assert (found(lane), lane.reasons) == (found(usual), usual.reasons)


def called(rows: Rows, call: str, since: float, until: float | None, client: str = "a-0", **more: Any) -> Rows:
    """A client makes a call; `until` None: it has no answer."""
    rows.event("call_noted", lane="a", client=client, call=call, began_ns=at(since), ts_ns=at(since + 1), **more)
    if until is not None:
        ended = {"began_ns": at(since), "ended_ns": at(until), "ts_ns": at(until)}
        rows.event("call_noted", lane="a", client=client, call=call, **ended, **more)
    return rows


_TIMED = [call for call in CALLS if call != "flush"]
UNANSWERED = "a-0 waited for {}: longest gap 101.0 s, with no end seen"


@TOGETHER.cases(
    *((call, None, {CALLS[call]: UNANSWERED.format(call)}) for call in _TIMED), *((call, 110, {}) for call in _TIMED)
)
def a_call_that_counts_to_its_answer_or_the_end_of_the_phase(call: str, until: float | None) -> Rows:
    """All that the lane sends is acknowledged and read at once: nothing else is late."""
    rows = healthy()
    if CALLS[call] == GROUP:
        rows = owned(rows, (-1, 200))
        rows.consumed += [{**row, "consumer": "m0", "poll_ns": row["poll_ns"] + 1} for row in rows.consumed]
    return called(rows, call, 100, until)


def test_a_call_without_an_answer_is_no_conformity_because_the_harness_had_no_processor(judged: Judge) -> None:
    rows = called(healthy(), "commit_transaction", 100, None)
    rows.event("harness_paused", seconds=95.0, ts_ns=at(199))
    lane = judged(rows)
    assert (lane.verdict, found(lane)) == (Verdict.UNKNOWN, {})
    assert UNANSWERED.format("commit_transaction") in lane.reasons[0]
    assert "the harness had no processor for 95.0 s" in lane.reasons[0]


@TOGETHER.cases({PRODUCER: "", TRANSACTION: ""})
def a_call_within_a_transaction_whose_end_is_awaited() -> Rows:
    return called(with_one_transaction(None, "info", "_TIMED_OUT"), "commit_transaction", 41, None, "a-3")


@TOGETHER.cases((None, {}), ("flush", {PRODUCER: "longest gap 125.0 s, with no end seen"}))
def a_load_that_ends_before_all_is_answered(waits_for: str | None) -> Rows:
    """It ends 5 s after its last acknowledgement, and nobody learns of the rest for two minutes."""
    rows = silent(healthy(), SECONDS - 5, SECONDS)
    phase_ended(rows, ts_ns=at(SECONDS + 120))
    return called(rows, waits_for, SECONDS, None, "a") if waits_for else rows


def test_what_a_client_says_of_its_time_outs_makes_its_bound(judged_each: JudgeEach) -> None:
    """Of two processes, the one that waits longer counts; an objective of the lane's own goes before both."""
    said = {name: TIMINGS[name] for name in UNKNOWN}
    saying = timed(silent(healthy(client="own"), 50, SECONDS), **UNKNOWN)
    for role, timeouts in (("consumer", {**said, "request_ms": 1}), ("producer", said)):
        started = {"role": role, "client": "service", "version": "1", "timeouts": timeouts}
        saying.event("client_started", lane="a", **started, ts_ns=at(0))
    # How long another producer waits that tells nothing, nobody knows.
    with_another = deepcopy(saying).event("client_started", lane="a", **{**started, "timeouts": {}}, ts_ns=at(0))
    of_saying, of_another, of_aiming, of_aiming_alone = judged_each(
        saying,
        with_another,
        timed(silent(healthy(), 50, 50 + HANGING - 2), recover_within_ms=20_000),
        timed(silent(healthy(), 50, 50 + HANGING - 2), **UNKNOWN, recover_within_ms=20_000),
    )
    assert found(of_saying)[PRODUCER] == 1
    assert f"bound {HANGING:g} s (session 3 s + " in of_saying.reasons[0]
    assert (found(of_another), {PRODUCER, CONSUMER} <= of_another.not_judged.keys()) == ({}, True)
    assert f"bound 20 s (recover_within 20 s; its time-outs allow {HANGING:g} s (session 3 s + " in of_aiming.reasons[0]
    assert (found(of_aiming_alone), of_aiming_alone.not_judged.keys() & RecoveryAnomaly) == ({PRODUCER: 1}, set())


def loaded(rows: Rows, until: float = SECONDS) -> Rows:
    """The load lasted from the first second until then."""
    return phase_ended(rows, load=[at(0), at(until)])


def unsent(rows: Rows, since: float, until: float) -> Rows:
    """Nothing is attempted meanwhile."""
    for table in (rows.produced, rows.consumed, rows.log):
        assert table is not None
        table[:] = [row for row in table if not since <= row["seq"] < until]
        for row in table:
            if row["seq"] >= until:
                row |= {name: row[name] - round(until - since) for name in ("seq", "offset")}
    return rows


IDLE = {PRODUCER: "nothing was attempted: longest gap"}


@TOGETHER.cases(
    (160, None, IDLE),
    (SECONDS, None, IDLE),
    (160, "a producer that failed for good", {}),
    (100 + HANGING - 2, None, {}),
)
def clients_that_attempt_nothing_under_load(until: float, retries: str | None) -> Rows:
    rows = loaded(unsent(healthy(), 100, until))
    call = {"lane": "a", "client": "a-0", "call": "send", "began_ns": at(100), "ended_ns": at(100)}
    return rows.event("call_noted", **call, error=retries, ts_ns=at(100)) if retries else rows


def test_a_fault_in_whose_time_nothing_was_attempted_has_not_tested_the_lane(judged: Judge) -> None:
    """A lane whose client waits for an answer meanwhile has been tested."""
    rows = fault(loaded(unsent(healthy(), 95, 120)), "pause", 100, 110)
    lane = judged(rows, is_planned=True)
    assert "fault pause-100 has not tested this lane: its clients attempted nothing meanwhile" in lane.reasons
    assert lane.verdict is Verdict.UNKNOWN
    sent = fault(loaded(unsent(healthy(), 95, 109)), "pause", 100, 110)
    awaited = fault(loaded(unsent(healthy(), 95, 120)), "pause", 100, 110)
    for rows in (sent, called(awaited, "commit_transaction", 97, 111)):
        lane = judged(rows, is_planned=True)
        assert not any("has not tested" in reason for reason in lane.reasons), lane.reasons


@pytest.mark.parametrize(
    ("paused", "expected"),
    [(60, (Verdict.UNKNOWN, {})), (30, (Verdict.VIOLATION, {PRODUCER: 1})), (0, (Verdict.VIOLATION, {PRODUCER: 1}))],
)
def test_a_slow_machine_excuses_no_more_than_the_bound_itself(
    judged: Judge, paused: int, expected: tuple[Verdict, dict[RecoveryAnomaly, int]]
) -> None:
    """Beyond, a stall is not found, and the lane does not conform either."""
    rows = silent(healthy(), 50, 50 + 2 * HANGING + 10.5)
    if paused:
        rows.event("run_started", run_id="r", lanes=["a"], collects=[], ts_ns=at(-2))
        rows.event("harness_paused", seconds=float(paused), ts_ns=at(51 + paused))
    lane = judged(rows, is_planned=True)
    assert (lane.verdict, found(lane)) == expected, lane.reasons
    hidden = "stalled_producer can be neither shown nor excluded: longest gap 75."
    assert any(reason.startswith(hidden) for reason in lane.reasons) == (paused == 60)


def test_no_processor_in_the_time_of_a_fault_excuses_nothing_twice(judged: Judge) -> None:
    rows = fault(silent(healthy(), 50, 50 + HANGING + 25), "pause", 49, 70)
    rows.event("harness_paused", seconds=15.0, ts_ns=at(69))
    assert found(judged(rows)) == {PRODUCER: 1}


WAITED = {CONSUMER: "a-consumer-1-1 waited for records: longest gap"}


@TOGETHER.cases((SECONDS, 0, WAITED), (40, 0, {}), (SECONDS, SECONDS, {}), (None, 0, {}), (SECONDS, 60, WAITED))
def a_consumer_that_comes_and_goes(ended: float | None, read: int) -> Rows:
    """The lane's own consumer is given everything."""
    rows = healthy()
    for seq in range(read):
        again = {"consumer": "a-consumer-1-1", "poll_ns": max(at(30), at(seq + 0.3)) + seq}
        rows.consumed.append({**rows.consumed[seq], **again})
    rows.event("reader_started", lane="a", consumer="a-consumer-1-1", ts_ns=at(20))
    named = {"lane": "a", "consumer": "a-consumer-1-1", "member": "passing"}
    rows.assignments = [{**named, "partition": 0, "isolation": "read_committed", "start_ns": at(20)}]
    if ended is not None:
        rows.event("reader_ended", lane="a", consumer="a-consumer-1-1", ts_ns=at(ended))
    return rows


@TOGETHER.cases(("leader-transfer", STALLED), ("pause", {}))
def leadership_that_moved_hangs_no_follower(kind: str) -> Rows:
    """15 s of the bound are for a follower that hangs."""
    rows = fault(silent(healthy(), 50, 50 + HANGING - 10), kind, 49, 90)
    rows.lanes[0]["faults"] = ["pause"]
    return rows


@TOGETHER.each(but=(planted_anywhere, assuming))
def test_an_outage_beyond_its_bound_is_found_and_nothing_else(
    lane: LaneVerdict, expected: dict[RecoveryAnomaly, str]
) -> None:
    """`expected`: the anomalies that are found, each with a part of what is said of it."""
    assert found(lane).keys() == expected.keys(), lane.reasons
    assert lane.verdict is Verdict.VIOLATION or not expected, lane.reasons
    for anomaly, said in expected.items():
        of_anomaly = [reason for reason in lane.reasons if reason.startswith(f"{anomaly} is forbidden and was found: ")]
        assert [said in reason for reason in of_anomaly] == [True], lane.reasons
        assert found(lane)[anomaly] == (2 if "was found: 2: " in said else 1)


@TOGETHER.each(
    a_passing_consumer_that_reads_again, quiet, a_record_that_its_producer_gave_up, what_ends_within_its_bound
)
def test_a_lane_conforms_whose_outages_end_within_their_bounds(
    lane: LaneVerdict, expected: dict[RecoveryAnomaly, str]
) -> None:
    assert lane.verdict is (Verdict.VIOLATION if expected else Verdict.CONFORMS), lane.reasons


def test_the_ledger_tells_bounds(judged: Judge) -> None:
    lane = judged(healthy())
    assert (lane.verdict, found(lane)) == (Verdict.CONFORMS, {}), lane.reasons
    assert lane.ledger is not None
    told = {one.anomaly: (one.longest_s, one.bound_s) for one in lane.ledger.recovery}
    assert told == {PRODUCER: (0.1, HANGING), CONSUMER: (0.1, READING), ISR: (0.0, WHOLE)}
    assert lane.ledger.recovery[0].derivation == (
        "32.5 s (session 3 s + election 3 s + lag of a follower 15 s + request 5 s + connection 3 s + reconnect 3 s + "
        "retry 0.5 s)"
    )
