"""Planted stalls are found with their bound; what faults and the harness's own pauses explain is not; gaps in the
evidence are named."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lane.fault_kinds import COUNTS_AS
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import CALLS, RecoveryAnomaly, Timings
from kafka_chaos.contract.run_directory import EXPERIMENT_FILE, TIMINGS_FILE
from kafka_chaos.verification import LaneVerdict
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Doubt
from kafka_chaos.verification.recovery.evidence import Recovery
from kafka_chaos.verification.tables.facts import LaneFacts
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows

pytestmark = pytest.mark.usefixtures("everything_forbidden")
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
    rows = Rows(lanes=[{"lane": "a", **lane}])
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


@pytest.fixture
def judged(tmp_path: Path, verified: Verified) -> Judge:
    """Judges the lane of each history in a folder of its own: with these timings beside the usual ones, and where it
    is planned with the experiment that a run of this project has."""
    folders = count()

    def judge(rows: Rows, timings: Mapping[str, Any] | None = None, *, is_planned: bool = False) -> LaneVerdict:
        assert rows.events is not None
        rows.events.sort(key=lambda event: event["ts_ns"])
        rows.timings = {"a": {**TIMINGS, **(timings or {})}}
        path = rows.write(tmp_path / f"run-{next(folders)}")
        (path / "prediction.json").unlink()
        if is_planned:
            (path / EXPERIMENT_FILE).write_text("phases: []\n")
        return verified(path).lane("a")

    return judge


def found(lane: LaneVerdict) -> dict[RecoveryAnomaly, int]:
    return {one: lane.observed[one].count for one in RecoveryAnomaly if one in lane.observed}


def test_a_lane_that_is_well_conforms_and_its_bounds_are_told(judged: Judge) -> None:
    lane = judged(healthy())
    assert (lane.verdict, found(lane)) == (Verdict.CONFORMS, {}), lane.reasons
    assert lane.ledger is not None
    told = {one.anomaly: (one.longest_s, one.bound_s) for one in lane.ledger.recovery}
    assert told == {PRODUCER: (0.1, HANGING), CONSUMER: (0.1, READING), ISR: (0.0, WHOLE)}
    assert lane.ledger.recovery[0].derivation == (
        "32.5 s (session 3 s + election 3 s + lag of a follower 15 s + request 5 s + connection 3 s + reconnect 3 s + "
        "retry 0.5 s)"
    )


@pytest.mark.parametrize("told", [True, False])
def test_what_a_passing_consumer_reads_again_hides_no_stall(judged: Judge, told: bool) -> None:
    """Its reads of the log's start come while the lane's own consumer is given nothing. Unless events tell of it, it is
    taken for that one."""
    rows = unread(healthy(), 60, 60 + READING + 20)
    for seq in range(60):
        again = {"consumer": "a-consumer-1-1", "poll_ns": at(61 + seq)}
        rows.consumed.append({**rows.consumed[seq], **again})
    if told:
        rows.event("reader_started", lane="a", consumer="a-consumer-1-1", ts_ns=at(60.5))
    lane = judged(rows)
    assert (lane.verdict, found(lane)) == ((Verdict.VIOLATION, {CONSUMER: 1}) if told else (Verdict.CONFORMS, {}))


def test_a_lane_whose_only_consumer_comes_and_goes_has_a_reader_that_stalled(judged: Judge) -> None:
    rows = healthy()
    rows.event("reader_started", lane="a", consumer=rows.consumed[0]["consumer"], ts_ns=at(0))
    lane = judged(rows)
    assert (lane.verdict, found(lane)) == (Verdict.VIOLATION, {CONSUMER: 1})


def quiet() -> Rows:
    """A partition in which a minute passes between two records. Each second one is read 5 ms before its producer learns
    that it is there, and each fourth one is acknowledged to a retry, without its offset."""
    rows = healthy(apart=60, records=12)
    for row in rows.consumed[1::2]:
        row["poll_ns"] = at(60 * row["seq"] + 0.095)
    for row in rows.produced[3::4]:
        row["offset"] = None
    return rows


def test_nobody_awaits_a_record_that_was_read_before_its_acknowledgement(judged: Judge) -> None:
    lane = judged(quiet())
    assert (lane.verdict, found(lane)) == (Verdict.CONFORMS, {}), lane.reasons
    rows = quiet()
    rows.consumed[6]["poll_ns"] += 55 * SECOND
    lane = judged(rows)
    assert (lane.verdict, found(lane)) == (Verdict.VIOLATION, {CONSUMER: 1})
    assert "longest gap 55.1 s" in lane.reasons[0]
    rows = quiet()
    # The second record was due while the consumer waited for the first, and is given 40 s after it.
    for seq, read in ((6, 480), (7, 520), (8, 521)):
        rows.consumed[seq]["poll_ns"] = at(read)
    lane = judged(rows)
    assert found(lane) == {CONSUMER: 2}, lane.reasons


def test_nobody_awaits_a_record_that_its_producer_has_given_up(judged: Judge) -> None:
    """Nothing is sent for a minute after it: the partition may have been available all the time."""
    rows = quiet()
    rows.send(100, None, "fail")
    rows.produced[-1] |= {"invoke_ns": at(361), "complete_ns": at(361.5)}
    rows.send(101, None, "info")
    rows.produced[-1] |= {"invoke_ns": at(481), "complete_ns": None}
    lane = judged(rows)
    assert (lane.verdict, found(lane)) == (Verdict.CONFORMS, {}), lane.reasons
    rows.produced[-2] |= {"complete_ns": at(361.5 + HANGING)}
    assert found(judged(rows)) == {PRODUCER: 1}


def test_a_group_awaits_no_record_of_an_aborted_transaction(judged: Judge) -> None:
    """A record of it is acknowledged, and a minute passes before one is committed."""
    rows = owned(quiet(), (-1, 12 * 60))
    for row in list(rows.consumed):
        if row["seq"] % 3:
            rows.consumed.append({**row, "consumer": "m0", "poll_ns": row["poll_ns"] + SECOND})
    assert found(judged(rows)) == {}


Planted = Callable[[Rows, float, float], Rows]
STALLS: dict[RecoveryAnomaly, tuple[Planted, float]] = {
    PRODUCER: (silent, HANGING),
    CONSUMER: (unread, READING),
    ISR: (shrunk, WHOLE),
}


@pytest.mark.parametrize("anomaly", STALLS)
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 10))])
def test_a_stall_that_is_planted_anywhere_is_found(
    tmp_path: Path, judged: Judge, anomaly: RecoveryAnomaly, seed: int
) -> None:
    """Half of them never end; half of those that end come after a fault that did, and is healed."""
    chance = random.Random(seed)
    plant, bound = STALLS[anomaly]
    since = chance.randrange(10, 100)
    until = SECONDS if seed % 2 else since + bound + chance.randrange(15, 30)
    rows = plant(healthy(), since, until)
    if seed % 4 < 2:
        fault(rows, "pause", since - 1, since + 8)
    lane = judged(rows)
    assert lane.verdict is Verdict.VIOLATION
    assert found(lane)[anomaly] == 1
    assert found(lane).keys() <= {anomaly, CONSUMER}
    ((reason,),) = [[text for text in lane.reasons if text.startswith(f"{anomaly} is forbidden and was found: 1: ")]]
    assert f"bound {bound:g} s (session 3 s + " in reason
    assert ("with no end seen" in reason) == (until >= SECONDS)
    rows_of = [row for row in pq.read_table(next(tmp_path.glob("*/findings"))).to_pylist() if row["anomaly"] == anomaly]
    assert [(row["lane"], row["partition"], row["cause"] in reason) for row in rows_of] == [("a", 0, True)]


@pytest.mark.parametrize("anomaly", STALLS)
def test_what_ends_within_its_bound_is_no_stall(judged: Judge, anomaly: RecoveryAnomaly) -> None:
    plant, bound = STALLS[anomaly]
    lane = judged(plant(healthy(), 50, 48 + bound))
    assert (lane.verdict, found(lane)) == (Verdict.CONFORMS, {}), lane.reasons


KRAFT = {"metadata_mode": "kraft"}


@pytest.mark.parametrize(
    ("kind", "lane", "lasts", "is_found"),
    [
        ("kill", {"min_insync_replicas": 2}, BROKEN + 2, True),
        ("kill", {"min_insync_replicas": 2}, BROKEN - 2, False),
        # Two replicas are not enough: whoever is down is waited for.
        ("kill", {"min_insync_replicas": 3}, BROKEN + 2, False),
        # Of two brokers that are controllers, one is no majority.
        ("kill", {**KRAFT, "replication_factor": 3}, BROKEN + 2, True),
        ("kill", {**KRAFT, "replication_factor": 2}, BROKEN + 2, False),
        # Requests to a frozen broker, or to one that can't write, hang until they time out.
        ("pause", {"min_insync_replicas": 2}, BROKEN + 2, False),
        ("pause", {"min_insync_replicas": 2}, HANGING + 2, True),
        ("pause", {"min_insync_replicas": 3}, HANGING + 2, False),
        ("read-only-disk", {"min_insync_replicas": 2}, HANGING + 2, True),
        ("failing-segment", {"min_insync_replicas": 2}, HANGING + 2, True),
        ("lost-index", {"min_insync_replicas": 2}, HANGING + 2, True),
        ("truncated-segment", {"min_insync_replicas": 2}, HANGING + 2, True),
        # A broker with a frozen disk keeps its session, and leads on.
        ("freeze-disk", {"min_insync_replicas": 2}, HANGING + 2, False),
        # A broker that is cut off from others may lead on.
        ("partition", {"min_insync_replicas": 2}, HANGING + 2, False),
    ],
)
def test_a_lane_has_to_be_available_amid_a_fault_that_leaves_enough_brokers(
    judged: Judge, kind: str, lane: dict[str, Any], lasts: float, is_found: bool
) -> None:
    rows = silent(healthy(acks="all", **lane), 50, 50 + lasts)
    verdict = judged(fault(rows, kind, 49.5, max(90, 51 + lasts)))
    assert found(verdict) == ({PRODUCER: 1} if is_found else {}), verdict.reasons


def test_an_isr_that_was_not_whole_before_a_kill_and_another_kill_near_it_excuse_the_lane(judged: Judge) -> None:
    rows = silent(shrunk(healthy(acks="all"), 45, 70), 50, 50 + BROKEN + 2)
    assert found(judged(fault(rows, "kill", 49.5, 65))) == {}
    rows = fault(silent(healthy(acks="all", min_insync_replicas=2), 50, 50 + BROKEN + 2), "kill", 49.5, 65)
    fault(rows, "kill", 40, 45, broker="broker-2")
    assert found(judged(rows)) == {}


def test_records_that_never_had_a_partition_wait_for_nobody(judged: Judge) -> None:
    rows = healthy()
    rows.send(1000, None, "fail")
    rows.produced[-1] |= {"partition": None, "invoke_ns": at(20), "complete_ns": at(190)}
    assert found(judged(rows)) == {}


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


def test_a_broker_that_left_the_isr_without_a_fault_excuses_the_lane(judged: Judge) -> None:
    """Seen on a machine with too much to do: the new leader lost its session, too."""
    rows = silent(healthy(acks="all", min_insync_replicas=2), 50, 50 + BROKEN + 2)
    rows.event("isr_changed", lane="a", partition=0, isr=[2, 3], ts_ns=at(55))
    rows.event("isr_changed", lane="a", partition=0, isr=[1, 2, 3], ts_ns=at(72))
    kept = judged(fault(rows, "kill", 49.5, 70))
    assert found(kept) == {PRODUCER: 1}
    elected = {"lane": "a", "partition": 0, "broker": 3, "leader_epoch": 3, "start_offset": 50}
    rows.event("leader_elected", **elected, isr=[3], ts_ns=at(58))
    assert found(judged(rows)) == {}


def test_a_producer_that_gave_up_and_sends_no_more_waits_for_nothing(judged: Judge) -> None:
    """The phase may go on for long, until replicas have caught up and consumers have read everything."""
    rows = healthy()
    rows.send(SECONDS, None, "info")
    rows.produced[-1] |= {"invoke_ns": at(SECONDS), "complete_ns": at(SECONDS + 10)}
    phase_ended(rows, ts_ns=at(SECONDS + 10 * HANGING))
    lane = judged(rows)
    assert found(lane) == {}, lane.reasons


def test_time_in_which_the_harness_did_not_run_does_not_count(judged: Judge) -> None:
    rows = silent(healthy(), 50, 50 + HANGING + 2)
    rows.event("harness_paused", seconds=5.0, ts_ns=at(60))
    lane = judged(rows)
    assert found(lane) == {}
    # Only what was late within the gap.
    rows = silent(healthy(), 50, 50 + HANGING + 2)
    rows.event("harness_paused", seconds=5.0, ts_ns=at(20))
    assert found(judged(rows))[PRODUCER] == 1


def test_a_producer_that_waits_for_more_records_has_so_much_longer(judged: Judge) -> None:
    rows = silent(healthy(), 50, 50 + HANGING + 2)
    assert found(judged(rows, {"linger_ms": 3_000})) == {}
    lane = judged(rows, {"linger_ms": 1_000})
    assert found(lane)[PRODUCER] == 1
    assert "retry 0.5 s + linger 1 s)" in lane.reasons[0]


def owned(rows: Rows, *spans: tuple[float, float | None]) -> Rows:
    """A group that reads the lane: from when to when a member had the partition."""
    rows.lanes[0]["group"] = {"members": 1, "session_timeout_ms": 2_000, "max_poll_interval_ms": 4_000}
    rows.transactions, rows.assignments, rows.commits = None, [], []
    for number, (since, until) in enumerate(spans):
        row = {"lane": "a", "group": "a-group", "consumer": f"m{number}", "member": "m", "generation": number}
        times = {"start_ns": at(since), "end_ns": None if until is None else at(until)}
        rows.assignments.append({**row, **times, "partition": 0, "isolation": "read_uncommitted"})
    return rows


@pytest.mark.parametrize(
    ("spans", "is_found"),
    [
        ([(-1, 50), (60, 200)], False),
        ([(-1, 50), (100, 200)], True),
        ([(-1, 50)], True),
        # Nobody knows when a member that was killed let go.
        ([(-1, None), (100, 200)], False),
        ([(-1, 50), (40, 200)], False),
    ],
)
def test_a_partition_that_no_member_owns_is_found(
    judged: Judge, spans: list[tuple[float, float | None]], is_found: bool
) -> None:
    assert (GROUP in found(judged(owned(healthy(), *spans)))) == is_found


SHARED = {"client": "java 4.2.2", "kafka_version": "4.4.0", "metadata_mode": "kraft", "share": {"lock_ms": 2_000}}
SHARING = READING + 2 * (2 + 6)
"""And twice a lock, and a session of a member."""


def shared(rows: Rows, *pauses: tuple[float, float]) -> Rows:
    """A share group that is given each record 0.3 s after it was sent, or at the end of a pause."""
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


@pytest.mark.parametrize(
    ("pauses", "counts"),
    [
        ([], {}),
        ([(50, 51 + SHARING - 2)], {}),
        ([(50, 51 + SHARING + 2)], {SHARE: 1}),
        ([(SECONDS - SHARING - 5, SECONDS + 1)], {SHARE: 1}),
    ],
)
def test_a_share_group_that_is_given_nothing_is_found(
    judged: Judge, pauses: list[tuple[float, float]], counts: dict[RecoveryAnomaly, int]
) -> None:
    lane = judged(shared(healthy(**SHARED), *pauses))
    assert found(lane) == counts, lane.reasons


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


@pytest.mark.parametrize(
    ("until", "is_found"), [(90, True), (70, False), (SECONDS, True)], ids=["ends late", "ends", "never ends"]
)
def test_a_transaction_that_holds_consumers_back_is_found(judged: Judge, until: int, is_found: bool) -> None:
    reports = [(seconds, seconds) for seconds in range(SECONDS) if not 40 < seconds < until]
    lane = judged(stable(healthy(), *reports))
    assert (TRANSACTION in found(lane)) == is_found, lane.reasons


def with_one_transaction(until: float | None, outcome: str, error: str | None) -> Rows:
    """A transactional lane of which one transaction begins at 40 s, beside others that go on."""
    rows = stable(healthy(), *((seconds, seconds) for seconds in range(SECONDS)))
    rows.transactions = [
        {"lane": "a", "producer_id": 9, "transaction": 0, "transactional_id": "a-3", "initialised_ns": at(0)}
        | {"begin_ns": at(40), "end_ns": None if until is None else at(until), "outcome": outcome, "error": error}
    ]
    return rows


@pytest.mark.parametrize(
    ("until", "outcome", "error", "is_found"),
    [
        (None, "info", "_TIMED_OUT", True),
        (None, "aborted", "_TIMED_OUT", True),
        (150, "committed", None, True),
        (70, "aborted", None, False),
        # A client that was killed awaits nothing; one that was fenced has its answer.
        (None, "info", None, False),
        (45, "info", "_FENCED", False),
    ],
)
def test_a_client_that_awaits_the_end_of_its_transaction_has_asked(
    judged: Judge, until: float | None, outcome: str, error: str | None, is_found: bool
) -> None:
    """Others of its lane go on, and no partition's last stable offset stands still: a coordinator refuses this one."""
    lane = judged(with_one_transaction(until, outcome, error))
    assert found(lane) == ({PRODUCER: 1, TRANSACTION: 1} if is_found else {}), lane.reasons
    if is_found:
        lasted = "161.0 s, with no end seen" if until is None else "110.0 s"
        assert any(
            f"a-3 waited for the end of a transaction: longest gap {lasted}, bound" in one for one in lane.reasons
        )


def elect(rows: Rows, since: float, start_offset: int, *, broker: int = 2, leader_epoch: int = 1) -> Rows:
    place = {"lane": "a", "partition": 0, "broker": broker, "leader_epoch": leader_epoch}
    return rows.event("leader_elected", **place, start_offset=start_offset, isr=[1, 2, 3], ts_ns=at(since))


def mark(rows: Rows, since: float, offset: int, *, broker: int = 2, leader_epoch: int = 1) -> Rows:
    place = {"lane": "a", "partition": 0, "broker": broker, "leader_epoch": leader_epoch}
    return rows.event("high_watermark", **place, high_watermark=offset, ts_ns=at(since))


def lso(rows: Rows, since: float, offset: int, *, broker: int = 2) -> Rows:
    place = {"lane": "a", "partition": 0, "broker": broker}
    return rows.event("last_stable_offset", **place, last_stable_offset=offset, ts_ns=at(since) + 1)


def stalls(judged: Judge, rows: Rows) -> list[str]:
    """The outages by transactions, as the verdict says them."""
    seen = judged(rows).observed.get(TRANSACTION)
    return [] if seen is None else [str(one["cause"]).partition(", bound")[0] for one in seen.examples]


def led_by_1(until: int) -> Rows:
    """Up to a moment, broker 1 leads a transactional lane, of which both offsets rise every second."""
    rows = without(stable(healthy()), "high_watermark")
    for seconds in range(until):
        lso(mark(rows, seconds, seconds, broker=1, leader_epoch=0), seconds, seconds, broker=1)
    return rows


@pytest.mark.parametrize("again", [40, 35])
def test_a_last_stable_offset_that_is_told_again_stands_still_all_the_same(judged: Judge, again: int) -> None:
    """A new leader tells where it stands, at first behind what the former one had told."""
    rows = mark(led_by_1(41), 60, 60, broker=1, leader_epoch=0)
    lso(mark(elect(rows, 65, 65), 66, again), 66, again)
    lso(mark(rows, 67, 67), 120, 67)
    assert stalls(judged, rows) == ["longest gap 60.0 s"]


@pytest.mark.parametrize("is_known", [True, False], ids=["elected", "first high watermark"])
def test_a_leader_without_the_open_transaction_holds_nobody_back(judged: Judge, is_known: bool) -> None:
    """Of a log that lost its end, the last stable offset begins anew, and takes long to be where it was."""
    rows = mark(led_by_1(41), 41, 41, broker=1, leader_epoch=0)
    if is_known:
        elect(rows, 42, 10)
    for seconds in range(43, SECONDS):
        lso(mark(rows, seconds, 10 + seconds // 10), seconds, 10 + seconds // 10)
    assert stalls(judged, rows) == []


def test_what_a_former_leader_tells_is_not_so(judged: Judge) -> None:
    rows = elect(led_by_1(41), 42, 10)
    lso(mark(rows, 43, 49), 43, 49)
    lso(mark(rows, 44, 53, broker=1, leader_epoch=0), 44, 51, broker=1)
    assert stalls(judged, rows) == []
    hidden = mark(elect(led_by_1(41), 42, 10), 43, 30)
    lso(lso(hidden, 44, 5), 45, 53, broker=1)
    lso(hidden, 120, 30)
    assert stalls(judged, hidden) == ["longest gap 77.0 s"]


def test_what_a_broker_told_before_it_led_again_is_still_so(judged: Judge) -> None:
    """It tells each offset once: its last stable offset before its high watermark of the same moment."""
    rows = mark(led_by_1(100), 100, 99, broker=1, leader_epoch=0)
    lso(rows, 100, 105, broker=1)
    elect(elect(rows, 101, 105), 102, 105, broker=1, leader_epoch=2)
    mark(rows, 103, 105, broker=1, leader_epoch=2)
    assert stalls(judged, rows) == []


def test_where_clocks_are_moved_elections_have_no_time(judged: Judge) -> None:
    rows = fault(mark(led_by_1(100), 100, 99, broker=1, leader_epoch=0), "clock-step", 20, 30)
    mark(elect(rows, 110, 50), 112, 99, broker=1, leader_epoch=2)
    rows.lanes[0]["faults"] = ["pause"]
    assert stalls(judged, rows) == []
    for event in rows.events or ():
        event.update({"kind": "pause"} if event.get("kind") == "clock-step" else {})
    assert stalls(judged, rows) == ["longest gap 89.0 s, with no end seen"]


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


def test_what_was_not_observed_is_named_and_not_judged(judged: Judge) -> None:
    stalled = silent(healthy(), 50, SECONDS)
    unknown = dict.fromkeys(("reconnect_ms", "retry_ms", "connect_ms", "request_ms", "fetch_ms"))
    lane = judged(stalled, unknown)
    expected = "timings.json does not say which time-outs its clients have, and the lane has no recover_within"
    assert lane.not_judged[PRODUCER] == expected
    assert {PRODUCER, CONSUMER} <= lane.not_judged.keys()
    assert ISR not in lane.not_judged

    lane = judged(without(healthy(), "isr_changed"))
    assert lane.not_judged[ISR] == "events.jsonl holds no ISR of partition 0"
    lane = judged(healthy(partitions=2))
    assert lane.not_judged[ISR] == "events.jsonl holds no ISR of partition 1"
    lane = judged(shrunk(healthy(partitions=2), 30, 150))
    assert (found(lane), lane.verdict) == ({ISR: 1}, Verdict.VIOLATION)
    reports = [(seconds, seconds) for seconds in range(SECONDS)]
    lane = judged(stable(healthy(partitions=2), *reports))
    assert lane.not_judged[TRANSACTION] == "events.jsonl holds no last stable offset of partition 1"

    lane = judged(without(healthy(replication_factor=1), "isr_changed"))
    assert not set(RecoveryAnomaly) & {*lane.not_judged}, "a lane without replicas has no ISR to restore"

    lane = judged(shrunk(healthy(), 190, SECONDS))
    assert lane.not_judged[ISR].startswith("partition 0: the run ended before its bound: longest gap 11.0 s, with no")

    others = silent(healthy(faults=["kill"]), 50, SECONDS).event("outside_faults", kinds=["kill"], lanes=["a"])
    lane = judged(others)
    assert set(lane.not_judged) >= {PRODUCER, CONSUMER, ISR}

    lane = judged(silent(healthy(acks="0"), 50, SECONDS))
    assert lane.not_judged[PRODUCER] == "with acks=0 nobody is told that a broker has a record"


def test_what_is_assumed_to_hold_nothing_back_is_not_judged(judged: Judge) -> None:
    key = "follower.replication.throttled.replicas"
    lane = judged(shrunk(healthy(assume=[key]), 20, 120))
    assert lane.verdict is Verdict.CONFORMS, lane.reasons
    assert all(key in lane.not_judged[anomaly] for anomaly in (PRODUCER, CONSUMER, ISR))


def test_an_old_directory_is_not_judged_for_recovery_and_says_so(tmp_path: Path, verified: Verified) -> None:
    path = silent(healthy(), 50, 150).write(tmp_path / "run")
    lane = verified(path).lane("a")
    assert lane.ledger is not None
    assert "no timings.json: recovery is not judged" in lane.ledger.left_out
    assert not set(RecoveryAnomaly) & {*lane.predicted, *lane.observed}
    assert lane.ledger.recovery == ()


@pytest.mark.parametrize("shift", [-500 * SECOND, 10**15])
def test_when_a_run_took_place_changes_nothing(judged: Judge, shift: int) -> None:
    rows = shrunk(silent(healthy(), 50, 110), 20, 120)
    expected = judged(rows)
    for table, names in ((rows.produced, ("invoke_ns", "complete_ns")), (rows.consumed, ("poll_ns",))):
        for row in table:
            row |= {name: row[name] + shift for name in names}
    for event in rows.events or ():
        event["ts_ns"] += shift
    moved = judged(rows)
    assert (
        found(moved)
        == found(expected)
        == {PRODUCER: 1, ISR: 1, **({CONSUMER: 1} if CONSUMER in found(expected) else {})}
    )
    assert moved.reasons == expected.reasons


def called(rows: Rows, call: str, since: float, until: float | None, client: str = "a-0", **more: Any) -> Rows:
    """A client makes a call; `until` None: it has no answer."""
    rows.event("call_noted", lane="a", client=client, call=call, began_ns=at(since), ts_ns=at(since + 1), **more)
    if until is not None:
        ended = {"began_ns": at(since), "ended_ns": at(until), "ts_ns": at(until)}
        rows.event("call_noted", lane="a", client=client, call=call, **ended, **more)
    return rows


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, marks=[] if call in ("send", "commit_transaction", "join") else [pytest.mark.slow])
        for call in CALLS
        if call != "flush"
    ],
)
def test_a_call_without_an_answer_counts_to_the_end_of_the_phase(judged: Judge, call: str) -> None:
    """All that the lane sends is acknowledged and read at once: nothing else is late."""
    rows = healthy()
    if CALLS[call] == GROUP:
        rows = owned(rows, (-1, 200))
        rows.consumed += [{**row, "consumer": "m0", "poll_ns": row["poll_ns"] + 1} for row in rows.consumed]
    lane = judged(called(rows, call, 100, None))
    assert (lane.verdict, found(lane)) == (Verdict.VIOLATION, {CALLS[call]: 1})
    assert f"a-0 waited for {call}: longest gap 101.0 s, with no end seen" in lane.reasons[0]
    assert found(judged(called(without(rows, "call_noted"), call, 100, 110))) == {}


def test_a_call_without_an_answer_is_no_conformity_because_the_harness_had_no_processor(judged: Judge) -> None:
    rows = called(healthy(), "commit_transaction", 100, None)
    rows.event("harness_paused", seconds=95.0, ts_ns=at(199))
    lane = judged(rows)
    assert (lane.verdict, found(lane)) == (Verdict.UNKNOWN, {})
    assert "a-0 waited for commit_transaction: longest gap 101.0 s, with no end seen" in lane.reasons[0]
    assert "the harness had no processor for 95.0 s" in lane.reasons[0]


def test_a_call_within_a_transaction_whose_end_is_awaited_is_no_outage_of_its_own(judged: Judge) -> None:
    rows = with_one_transaction(None, "info", "_TIMED_OUT")
    called(rows, "commit_transaction", 41, None, "a-3")
    assert found(judged(rows)) == {PRODUCER: 1, TRANSACTION: 1}


def test_records_are_awaited_after_the_load_as_long_as_their_producer_waits(judged: Judge) -> None:
    """The load ends 5 s after its last acknowledgement, and nobody learns of the rest for two minutes."""
    rows = silent(healthy(), SECONDS - 5, SECONDS)
    phase_ended(rows, ts_ns=at(SECONDS + 120))
    assert found(judged(rows)) == {}
    called(rows, "flush", SECONDS, None, "a")
    lane = judged(rows)
    assert found(lane) == {PRODUCER: 1}
    assert "longest gap 125.0 s, with no end seen" in lane.reasons[0]


def test_what_a_client_says_of_its_time_outs_makes_its_bound(judged: Judge) -> None:
    """Of two processes, the one that waits longer counts; an objective of the lane's own goes before both."""
    names = ("reconnect_ms", "retry_ms", "connect_ms", "request_ms", "fetch_ms")
    unknown, said = dict.fromkeys(names), {name: TIMINGS[name] for name in names}
    rows = silent(healthy(client="own"), 50, SECONDS)
    for role, timeouts in (("consumer", {**said, "request_ms": 1}), ("producer", said)):
        started = {"role": role, "client": "service", "version": "1", "timeouts": timeouts}
        rows.event("client_started", lane="a", **started, ts_ns=at(0))
    lane = judged(rows, unknown)
    assert found(lane)[PRODUCER] == 1
    assert f"bound {HANGING:g} s (session 3 s + " in lane.reasons[0]
    rows = silent(healthy(), 50, 50 + HANGING - 2)
    lane = judged(rows, {"recover_within_ms": 20_000})
    assert f"bound 20 s (recover_within 20 s; its time-outs allow {HANGING:g} s (session 3 s + " in lane.reasons[0]
    lane = judged(rows, {**unknown, "recover_within_ms": 20_000})
    assert (found(lane), lane.not_judged.keys() & RecoveryAnomaly) == ({PRODUCER: 1}, set())


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


@pytest.mark.parametrize(
    ("until", "more", "is_found"),
    [
        (160, {}, True),
        (SECONDS, {}, True),
        (160, {"retries": "a producer that failed for good"}, False),
        (100 + HANGING - 2, {}, False),
    ],
)
def test_a_lane_under_load_whose_clients_attempt_nothing_has_stalled(
    judged: Judge, until: float, more: dict[str, str], is_found: bool
) -> None:
    rows = loaded(unsent(healthy(), 100, until))
    if more:
        call = {"lane": "a", "client": "a-0", "call": "send", "began_ns": at(100), "ended_ns": at(100)}
        rows.event("call_noted", **call, error=more["retries"], ts_ns=at(100))
    lane = judged(rows)
    assert found(lane) == ({PRODUCER: 1} if is_found else {}), lane.reasons
    assert not is_found or "nothing was attempted: longest gap" in lane.reasons[0]


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


@pytest.mark.parametrize(
    ("ended", "read", "is_found"),
    [(SECONDS, 0, True), (40, 0, False), (SECONDS, SECONDS, False), (None, 0, False), (SECONDS, 60, True)],
)
def test_a_consumer_that_comes_and_goes_awaits_what_it_is_not_given(
    judged: Judge, ended: float | None, read: int, is_found: bool
) -> None:
    """The lane's own consumer is given everything."""
    rows = healthy()
    for seq in range(read):
        again = {"consumer": "a-consumer-1-1", "poll_ns": max(at(30), at(seq + 0.3)) + seq}
        rows.consumed.append({**rows.consumed[seq], **again})
    rows.event("reader_started", lane="a", consumer="a-consumer-1-1", ts_ns=at(20))
    if ended is not None:
        rows.event("reader_ended", lane="a", consumer="a-consumer-1-1", ts_ns=at(ended))
    lane = judged(rows)
    assert found(lane) == ({CONSUMER: 1} if is_found else {}), lane.reasons
    assert not is_found or "a-consumer-1-1 waited for records: longest gap" in lane.reasons[0]


@pytest.mark.parametrize(("kind", "is_found"), [("leader-transfer", True), ("pause", False)])
def test_leadership_that_has_moved_excuses_nothing_and_hangs_no_follower(
    judged: Judge, kind: str, is_found: bool
) -> None:
    """15 s of the bound are for a follower that hangs."""
    rows = fault(silent(healthy(), 50, 50 + HANGING - 10), kind, 49, 90)
    rows.lanes[0]["faults"] = ["pause"]
    lane = judged(rows)
    assert found(lane) == ({PRODUCER: 1} if is_found else {}), lane.reasons
