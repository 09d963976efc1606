"""The stories of findings: what a run directory has of a case's record is one list in order of time."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import report_runs as runs
from activity_runs import table
from test_page import Page, full_run
from test_trace import line

from kafka_chaos.contract.run_directory import CHECKPOINTS_FILE, TRACE_FILE
from kafka_chaos.harness.report import write_report
from kafka_chaos.harness.report.report_page import LIMIT

S = runs.SECOND
PLACE = {"lane": "orders", "partition": 0, "offset": 41, "producer_id": 0}
BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def told_run(path: Path) -> Path:
    """A record is acknowledged by a frozen leader and lost; another takes its offset."""
    run = full_run(path)
    started = {"monotonic_at_epoch_ns": -int(BEGUN.timestamp()) * S}
    (run / "experiment.yaml").write_text(json.dumps({"name": "demo", "seed": 42, "recorded": {"started": started}}))
    lost = {**PLACE, "anomaly": "lost_write", "cause": "truncation: broker 1 dropped offsets 40 to 59"}
    table(run, "findings", [{**lost, "seq": seq, "offset": seq} for seq in range(41, 61)])
    sent = {**PLACE, "outcome": "ok", "invoke_ns": 3_200_000_000, "complete_ns": 3_250_000_000}
    table(run, "produced", [{**sent, "seq": 41}, {**sent, "seq": 90, "invoke_ns": 6 * S, "complete_ns": 7 * S}])
    table(run, "consumed", [{**PLACE, "consumer": "orders-1", "seq": 90, "poll_ns": 7 * S + 1}])
    table(run, "log", [{**PLACE, "seq": 90}])
    table(run, "replicas", [{**PLACE, "seq": 90, "broker": broker, "leader_epoch": 1} for broker in (1, 2)])
    ends = {str(broker): {"orders/0": {"high_watermark": 99, "log_end_offset": 100}} for broker in (1, 2, 3)}
    (run / CHECKPOINTS_FILE).write_text(json.dumps({"brokers": ends}))
    (run / "logs").mkdir()
    (run / "logs/broker-1.log").write_text(
        "[2026-01-02 03:04:14,000] INFO Truncating orders-0 to offset 40\n"
        "[2026-01-02 03:04:14,000] INFO Truncating orders-01 and its-orders-0\n  at a.stack.Trace of orders-0\n"
    )
    (run / "trace").mkdir()
    asked = {**line(0, "Produce", answered=3_900, partitions=[["orders", 0]]), "ns": 3_210_000_000}
    (run / TRACE_FILE).write_text(json.dumps({**asked, "answered_ns": 3_240_000_000}) + "\n")
    return run


def test_a_record_s_story_is_in_order_of_time_and_says_where_its_bytes_are(tmp_path: Path) -> None:
    page = Page(write_report(told_run(tmp_path)).read_text())
    story = " ".join(page.text[page.text.index("record 41 of producer 0, partition 0, offset 41") :].split())
    told = [
        "fault pause of broker-1 begins",
        "producer 0 sends record 41 of producer 0",
        "Produce to broker-1, answered after: 30.0 ms",
        "record 41 of producer 0 is acknowledged at offset 41 of partition 0 after 50.0 ms",
        "broker 2 logs that it leads partition 0 in leader epoch 1 from offset 40",
        "producer 0 sends another record, 90 of producer 0",
        "orders-1 reads another record, 90 of producer 0 at offset 41",
        "fault pause of broker-1 ends",
        "+8.000 s broker-1 INFO Truncating orders-0 to offset 40",
        "broker 1 truncates partition 0 to offset 40",
    ]
    assert [words for words in told if words not in story] == []
    assert [story.index(words) for words in told[:8]] == sorted(story.index(words) for words in told[:8])
    assert "orders-01" not in story
    assert page.row("final log") == ["final log", "another record, 90 of producer 0 at offset 41"]
    ends = "high watermark 99, log end offset 100"
    assert page.row("broker 2")[1] == f"another record, 90 of producer 0 at offset 41 (leader epoch 1); {ends}"
    assert page.row("broker 3")[1] == f"nothing of it; {ends}"
    assert "19 more cases are in findings/" in story
    assert "kafka-chaos shrink test_a_record_s_story_is_in_or0/run --finding orders:lost_write" in story


def test_the_matrix_links_to_each_finding_and_its_cases_have_anchors(tmp_path: Path) -> None:
    page = Page(write_report(told_run(tmp_path)).read_text())
    assert "#finding-orders-lost_write" in page.values("href")
    assert {"finding-orders-lost_write", "finding-orders-lost_write-1", "time-orders"} <= {*page.values("id")}
    # The verdict counts a duplicate that `findings/` lacks.
    assert "1 more finding has no stories here" in page.text


def test_of_very_many_findings_the_first_of_the_largest_ranges_are_told(tmp_path: Path) -> None:
    run = told_run(tmp_path)
    case = {"lane": "orders", "anomaly": "duplicate", "partition": 0, "producer_id": 0}
    places = [(at, at + at // 7_000 * 10**9) for at in range(20_000)]
    table(run, "findings", [{**case, "offset": offset, "seq": at, "cause": f"case {at}"} for at, offset in places])
    text = write_report(run).read_text()
    assert len(text) < LIMIT / 4
    ids = [name for name in Page(text).values("id") if name.startswith("finding-orders-duplicate-")]
    assert ids == [f"finding-orders-duplicate-{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize("name", ["experiment.yaml", "events.jsonl", CHECKPOINTS_FILE, "log", "consumed", "produced"])
def test_what_a_run_directory_lacks_is_left_out(tmp_path: Path, name: str) -> None:
    run = told_run(tmp_path)
    path = run / name
    if path.is_dir():
        (path / "00000.parquet").unlink()
    else:
        path.unlink()
    assert "record 41 of producer 0, partition 0, offset 41" in Page(write_report(run).read_text()).text
