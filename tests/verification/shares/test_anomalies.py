"""The anomalies of share groups: planted ones are found alone, and evidence that lacks is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lane.share import OF_DEAD_LETTERS, ShareAnomaly
from kafka_chaos.verification import LaneVerdict, RunDirectoryError, RunVerdict
from tests.verification.conftest import forbid_everything
from tests.verification.oracle.rows import LaneHistory
from tests.verification.oracle.shares import FOUND
from tests.verification.samples import planted_shares as planted
from tests.verification.samples.engines import Verified
from tests.verification.samples.planted_shares import LANE, PARTITIONS, PLANTS, RECORDS, SECOND, clean, lane_keys
from tests.verification.samples.run_dirs import Rows, read_cases, rows_of_histories
from tests.verification.samples.together import Together, together

pytestmark = pytest.mark.usefixtures("everything_forbidden")
TOGETHER = Together(is_all_forbidden=True)


def rows_of(history: LaneHistory, **share: Any) -> Rows:
    return rows_of_histories({LANE: history}, {LANE: lane_keys(**share)})


@pytest.mark.parametrize("committed", [False, True])
def test_planted_anomalies_are_found_and_nothing_else(tmp_path: Path, verified: Verified, committed: bool) -> None:
    """Each in a lane of its own; lanes without transactions have no replicas here."""
    made = {plant.__name__: plant() for plant in PLANTS}
    made = {name: plant for name, plant in made.items() if plant[0].is_share_committed == committed}
    keys = {LANE: lane_keys(**({"isolation": "read_committed"} if committed else {}))}
    run = together({name: rows_of_histories({LANE: history}, keys) for name, (history, _) in made.items()})
    run_dir = run.write(tmp_path / "run", files=2)
    verdict, found = verified(run_dir), read_cases(run_dir)
    of_shares = {*ShareAnomaly, "aborted_read", "phantom", "truncated_read", "inconsistent_offset"}
    unlike_log = {ShareAnomaly.NEVER_DELIVERED, ShareAnomaly.ARCHIVED_EARLY, ShareAnomaly.DEAD_LETTER_MISSING}
    for name, (_, cases) in made.items():
        assert [case for case in found.get(name, []) if case.anomaly in of_shares] == cases, name
        lane = verdict.lane(name)
        is_unlike_log = any(case.anomaly in {*of_shares} - {*ShareAnomaly, "aborted_read"} for case in cases)
        assert {*lane.not_judged} & {*ShareAnomaly} == (unlike_log if is_unlike_log else set()), lane.not_judged
        assert lane.verdict == (Verdict.VIOLATION if cases else Verdict.CONFORMS), (name, lane.reasons)


def test_every_anomaly_is_planted_and_looked_for() -> None:
    assert {case.anomaly for plant in PLANTS for case in plant()[1]} >= set(ShareAnomaly) == set(FOUND)


def without(rows: str) -> Callable[[LaneHistory], None]:
    def change(history: LaneHistory) -> None:
        setattr(history, rows, [])

    change.__name__ = f"without_{rows}"
    return change


def delivered(**values: Any) -> Callable[[LaneHistory], None]:
    """The first delivery, with these values."""

    def change(history: LaneHistory) -> None:
        history.deliveries[0] = history.deliveries[0]._replace(**values)

    return change


def not_past_the_end(history: LaneHistory) -> None:
    history.share_starts = [row for row in history.share_starts if (row.partition, row.offset) != (1, RECORDS // 2)]


def alone(history: LaneHistory) -> None:
    history.deliveries = [row._replace(member="m0") for row in history.deliveries]


def rejects_nothing(history: LaneHistory) -> None:
    history.deliveries = [row for row in history.deliveries if row.seq != 5] + [planted.delivery(5, 9 * SECOND)]
    history.dead_letters = []


def given_twice(history: LaneHistory) -> None:
    history.deliveries.append(history.deliveries[0])


def accepts_nothing(history: LaneHistory) -> None:
    history.deliveries = [row._replace(outcome="fail") for row in history.deliveries if row.seq != 5]
    history.deliveries.append(planted.delivery(5, 9 * SECOND, kind="reject"))
    history.share_starts = [row._replace(offset=0) for row in history.share_starts]


A = ShareAnomaly
BY_THE_STARTS = {A.NEVER_DELIVERED, A.ARCHIVED_EARLY, A.DEAD_LETTER_MISSING}


@TOGETHER.cases(
    (without("deliveries"), (set(A), "deliveries/ holds no delivery of group changed-0-share")),
    (without("share_starts"), ({*BY_THE_STARTS, A.SHARE_START_WENT_BACK}, "share_starts/ holds no start offset")),
    (delivered(asked_ns=None), ({A.DELIVERED_TO_TWO, A.REDELIVERED_AFTER_ACCEPT}, "when 1 delivery were asked for")),
    (not_past_the_end, (BY_THE_STARTS, "the group was not past the last record of 1 partition")),
    (alone, ({A.DELIVERED_TO_TWO}, "fewer than two members were given records")),
    (accepts_nothing, ({*BY_THE_STARTS, A.REDELIVERED_AFTER_ACCEPT}, "no accept was acknowledged")),
    (rejects_nothing, ({*OF_DEAD_LETTERS}, "no record was rejected, and there is no dead letter")),
    (given_twice, (set(), "deliveries/ holds 1 row of the lane twice")),
)
def changed(change: Callable[[LaneHistory], None]) -> Rows:
    history = clean()
    change(history)
    return rows_of(history)


@TOGETHER.each(changed)
def test_what_the_evidence_does_not_show_is_not_judged(
    lane: LaneVerdict, expected: tuple[set[ShareAnomaly], str]
) -> None:
    unjudged, reason = expected
    assert {one for one in lane.not_judged if isinstance(one, ShareAnomaly)} == unjudged
    assert lane.verdict == Verdict.UNKNOWN
    assert any(reason in said for said in lane.reasons), lane.reasons


@TOGETHER.cases((0, Verdict.CONFORMS), (1, Verdict.UNKNOWN))
def lagging(lag: int) -> Rows:
    """Nobody knows the offsets of acks=0, and the last start offset that was written trails."""
    history = clean()
    history.produced = [row._replace(partition=None, offset=None) for row in history.produced]
    history.share_starts = [row._replace(offset=0, lag=lag) for row in history.share_starts]
    return rows_of_histories({LANE: history}, {LANE: {**lane_keys(), "acks": "0"}})


@TOGETHER.each(lagging)
def test_without_a_lag_the_group_is_past_what_its_members_were_given(lane: LaneVerdict, expected: Verdict) -> None:
    assert lane.verdict == expected


@TOGETHER.cases((1, 2, 1), (1, 3, 0), (2, 1, 1), (2, 5, 0))
def delivered_so_often(crashes: int, times: int) -> Rows:
    """A member that crashed may have been given the record again, up to the limit. Where that may be true of each
    record, as with two crashes, the model permits it and all are told."""
    history = clean()
    history.deliveries = [row for row in history.deliveries if row.seq != 3]
    history.deliveries += [planted.delivery(3, (40 + n) * SECOND, count=n, kind="release") for n in range(1, times + 1)]
    history.dead_letters += [planted.letter(3, 1)] if times == planted.LIMIT else []
    return rows_of(history, crashes=crashes)


@TOGETHER.each(delivered_so_often)
def test_lost_deliveries_count_towards_the_limit(lane: LaneVerdict, expected: int) -> None:
    assert (lane.count(ShareAnomaly.ARCHIVED_EARLY), lane.verdict == Verdict.CONFORMS) == (expected, not expected)


@TOGETHER.cases(("copies", 4, {}, 1), ("headers", 5, {}, 1), ("headers", 5, {"producer_id": None, "seq": None}, 0))
def lettered(kind: str, seq: int, content: dict[str, Any]) -> Rows:
    """Any delivery may have been lost, but 4 was accepted in time, and 5 rejected."""
    history = clean()
    history.dead_letters = [planted.letter(seq, **content)]
    return rows_of(history, crashes=5, dead_letters=kind)


@TOGETHER.each(lettered)
def test_a_letter_is_of_what_was_given_up_and_holds_what_was_asked_for(lane: LaneVerdict, expected: int) -> None:
    assert lane.count(ShareAnomaly.DEAD_LETTER_ALTERED) == expected


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("deliveries", {"acknowledgement": "keep"}, "acknowledgement: 'keep', expected one of accept, release"),
        ("deliveries", {"outcome": "done"}, "outcome: 'done', expected one of ok, fail, info"),
        ("deliveries", {"delivery_count": 0}, "delivery_count: 0, expected a count of at least 1"),
        ("deliveries", {"group": "other"}, "group: 'other', expected the share group of the lane"),
        ("share_starts", {"offset": -1}, "offset: -1, expected 0 to 2^62"),
        ("deliveries", {"lane": "b"}, "lane: 'b' is not in lanes.json"),
        ("deliveries", {"partition": 9}, f"partition: lane '{LANE}' has partitions 0 to {PARTITIONS - 1}, not 9"),
        ("deliveries", {"invoke_ns": 1}, "invoke_ns: 1, expected no acknowledgement before the delivery"),
        ("share_starts", {"complete_ns": 1}, "complete_ns: 1, expected no report before it was asked for"),
    ],
)
def test_stray_values_are_refused(
    tmp_path: Path, verified: Verified, table: str, change: dict[str, Any], message: str
) -> None:
    run_dir = rows_of(clean()).write(tmp_path / "run")
    file = run_dir / table / "part-00000.parquet"
    schema, rows = pq.read_schema(file), pq.read_table(file).to_pylist()
    pq.write_table(pa.Table.from_pylist([{**rows[0], **change}, *rows[1:]], schema=schema), file)
    with pytest.raises(RunDirectoryError) as raised:
        verified(run_dir)
    assert message in str(raised.value)


@pytest.mark.parametrize("table", ["deliveries", "share_starts"])
def test_a_table_that_is_missing_is_refused(tmp_path: Path, verified: Verified, table: str) -> None:
    run_dir = rows_of(clean()).write(tmp_path / "run")
    shutil.rmtree(run_dir / table)
    with pytest.raises(RunDirectoryError, match=f"{table}: missing, expected rows .* which has a share group"):
        verified(run_dir)


def test_without_their_table_no_anomaly_of_dead_letters_is_judged(tmp_path: Path, verified: Verified) -> None:
    run_dir = rows_of(clean()).write(tmp_path / "run")
    shutil.rmtree(run_dir / "dead_letters")
    lane = verified(run_dir).lane(LANE)
    assert (lane.verdict, {*lane.not_judged} & {*A}) == (Verdict.UNKNOWN, {*OF_DEAD_LETTERS})


def told_past_the_end(history: LaneHistory) -> None:
    history.share_starts.append(history.share_starts[-1]._replace(offset=99))


def told_late(history: LaneHistory) -> None:
    history.share_starts[-1] = history.share_starts[-1]._replace(invoke_ns=200 * SECOND, complete_ns=201 * SECOND)


def told_to_a_stranger(history: LaneHistory) -> None:
    history.share_starts.append(history.share_starts[-1]._replace(member="x"))


def a_letter_twice(history: LaneHistory) -> None:
    history.dead_letters.append(history.dead_letters[0])


ELSEWHERE = {"partition": 1, "offset": 50}
UNRESOLVED: dict[str, tuple[Callable[[LaneHistory], None], str]] = {
    "at an offset that the log lacks": (delivered(**ELSEWHERE), "of a record that the log does not hold at its offset"),
    "before it was sent": (delivered(asked_ns=5, delivered_ns=9), "given to a member before the record was sent"),
    "late": (
        delivered(delivered_ns=200 * SECOND, invoke_ns=200 * SECOND, complete_ns=201 * SECOND),
        "asked for or given to a member before the run began, or given after its phase had ended",
    ),
    "begun late": (lambda _: None, "a member that never began by events.jsonl, or only later"),
    "told late": (told_late, "share_starts: told before the run began, or after its phase had ended"),
    "without a time": (delivered(complete_ns=None), "acknowledged without a time or an outcome"),
    "without an outcome": (delivered(outcome=None), "acknowledged without a time or an outcome"),
    "without an acknowledgement": (delivered(acknowledgement=None), "answered without either"),
    "to a stranger": (delivered(member="x"), "a member that never began by events.jsonl"),
    "a start offset of a stranger": (told_to_a_stranger, "a member that never began by events.jsonl"),
    "past the end": (told_past_the_end, "share_starts: a start offset past the end of the log"),
    "a letter twice": (a_letter_twice, "one that was read twice"),
    "without letters": (lambda _: None, "of a lane without dead letters"),
    "of no group": (lambda _: None, "of a lane without a share group"),
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, verified: Verified) -> RunVerdict:
    """A run with its plan and its events: when its members began, and its phases. Its lanes hold what is unresolved."""
    histories = {}
    for name, (change, _) in {"resolved": (lambda _: None, None), **UNRESOLVED}.items():
        history = clean()
        change(history)
        rows = histories[name] = rows_of(history).event("phase_started", ts_ns=1, phase="p", lanes=[LANE])
        for member in ("m0", "m1"):
            begun_ns = 50 * SECOND if name == "begun late" else 2
            rows.event("member_changed", ts_ns=begun_ns, group=f"{LANE}-share", member=member, change="begins")
        rows.event("phase_ended", ts_ns=100 * SECOND, phase="p")
    run = together(histories)
    by_name = {lane["lane"]: lane for lane in run.lanes}
    del by_name["of no group"]["share"], by_name["without letters"]["share"]["dead_letters"]
    folder = run.write(tmp_path_factory.mktemp("planned"))
    phases = [{"phase": name, "lanes": [{"lane": name}]} for name in histories]
    (folder / "experiment.yaml").write_text(json.dumps({"phases": phases}))
    with pytest.MonkeyPatch.context() as patch:
        forbid_everything(patch)
        return verified(folder)


@pytest.mark.parametrize("name", ["resolved", *UNRESOLVED])
def test_rows_that_fit_no_other_table_are_a_doubt_that_names_them(planned: RunVerdict, name: str) -> None:
    lane = planned.lane(name)
    doubts = [
        reason for reason in lane.reasons if reason.startswith(("deliveries: ", "share_starts: ", "dead_letters: "))
    ]
    if name == "resolved":
        assert doubts == []
    else:
        assert lane.verdict != Verdict.CONFORMS
        assert any(UNRESOLVED[name][1] in doubt for doubt in doubts), lane.reasons
