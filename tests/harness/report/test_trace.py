"""The trace of a run: how it is read, printed and drawn, and what it says of known defects."""

import json
from pathlib import Path
from typing import Any

import pytest
from activity_runs import table
from click.testing import CliRunner

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.run_directory import EVENTS_FILE, TRACE_FILE
from kafka_chaos.harness.cli.trace_command import trace_command
from kafka_chaos.harness.report.inputs.trace import hit_requests, read_trace
from kafka_chaos.harness.run.observing.late_requests import late_end_txns

MS = 1_000_000
START = 5_000_000_000


def line(at: int, api: str = "EndTxn", *, answered: int | None = None, **more: Any) -> dict[str, Any]:
    """A line of a trace; times in milliseconds from the run's start."""
    return {
        "ns": START + at * MS, "sender": "clients", "node": "broker-1", "port": 9094, "connection": 1,
        "api": api, "version": 1, "correlation_id": at, "client_id": "c", "bytes": 40,
        "answered_ns": None if answered is None else START + answered * MS, "answer_bytes": 10, **more,
    }  # fmt: skip


def fault(action: str, at: int, until: int | None = None, *, side: str = "request", rule: str = "r") -> dict[str, Any]:
    told: dict[str, Any] = {"rule": rule, "action": action, "side": side, "at_ns": START + at * MS}
    return told if until is None else {**told, "until_ns": START + until * MS}


ENDS = {"transactional_ids": ["late-0"], "detail": {"committed": True, "producer_id": 7}}
LINES = [
    line(2000, answered=2010, **ENDS),
    line(3000, answered=7010, fault=fault("hold", 3000, 7000), errors=[48], **ENDS),
    line(4500, answered=4510, **ENDS),
    line(
        4600, "Produce", answered=4650, partitions=[["orders", 0]], fault=fault("cut", 4650, side="response", rule="s")
    ),
    line(4700, "Fetch", partitions=[["orders", n] for n in range(9)], node="broker-2", sender="broker-1", port=9092),
    line(6900, answered=6990, **ENDS),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    trace = tmp_path / TRACE_FILE
    trace.parent.mkdir()
    # Lines come in the order of the answers.
    trace.write_text("".join(json.dumps(one) + "\n" for one in [LINES[0], *reversed(LINES[1:])]))
    (tmp_path / EVENTS_FILE).write_text(json.dumps({"ts_ns": START}) + "\n")
    return tmp_path


def test_a_torn_last_line_is_left_out_and_any_other_is_refused(run: Path) -> None:
    trace = run / TRACE_FILE
    trace.write_text(trace.read_text() + '{"ns": 12')
    assert len(read_trace(run)) == len(LINES)
    trace.write_text('{"ns": 12\n' + trace.read_text())
    with pytest.raises(UsageFailure, match=r"requests.jsonl: line 1: not valid JSON"):
        read_trace(run)


def test_a_run_without_links_says_how_to_get_a_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match="links: true"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ((), [2000, 3000, 4500, 4600, 4700, 6900]), (("--api", "Produce", "--api", "Fetch"), [4600, 4700]),
        (("--node", "broker-2"), [4700]), (("--about", "late-0"), [2000, 3000, 4500, 6900]),
        (("--about", "orders"), [4600, 4700]), (("--about", "orders-8"), [4700]),
        (("--from", "3", "--until", "4.6"), [3000, 4500, 4600]), (("--faults",), [3000, 4600]),
        (("--limit", "2"), [2000, 3000]), (("--limit", "0"), [2000, 3000, 4500, 4600, 4700, 6900]),
    ],
)  # fmt: skip
def test_options_choose(run: Path, options: tuple[str, ...], ids: list[int]) -> None:
    result = CliRunner().invoke(trace_command, [str(run), "--json", *options], catch_exceptions=False)
    assert [json.loads(text)["correlation_id"] for text in result.stdout.splitlines()] == ids


def test_the_table_says_what_became_of_each(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = CliRunner().invoke(trace_command, [str(run)]).output.splitlines()
    words = [" ".join(text.split()) for text in lines]
    assert "3.000 s clients broker-1:9094 EndTxn v1 late-0, commit 3000 4,010.0 ms error 48 request held 4 s" in words
    assert "4.600 s clients broker-1:9094 Produce v1 orders-0 4600 50.0 ms response cut off" in words
    assert "4.700 s broker-1 broker-2:9092 Fetch v1 orders-0, orders-1, orders-2, 6 more 4700 never" in words


def test_a_report_shows_each_fault_once_with_what_was_around(run: Path) -> None:
    found = hit_requests(read_trace(run), 6)
    assert [title for title, _ in found] == [
        "EndTxn of clients to broker-1, late-0, commit, request held 4 s",
        "Produce of clients to broker-1, orders-0, response cut off",
    ]
    assert [one.correlation_id for one in found[0][1]] == [2000, 3000, 4500, 6900]
    assert len(hit_requests(read_trace(run), 1)) == 1


def test_an_end_that_arrives_after_it_was_sent_again_is_the_precondition_of_a_defect(run: Path) -> None:
    committed = {"lane": "late", "transactional_id": "late-0", "transaction": 0, "outcome": "committed"}
    begins = [START + began * MS for began in (1000, 5000)]
    rows = [{"producer_id": number, "initialised_ns": at, "begin_ns": at} for number, at in enumerate(begins)]
    table(run, "transactions", [committed | row for row in rows])
    (event,) = late_end_txns(run, {"late-0": "late"})
    assert (event.defect, event.lane, event.producer_id) == ("KAFKA-17754", "late", 0)
    assert event.evidence == (
        "an EndTxn request of late-0 (correlation id 3000) arrived 4.0 s late, 2.5 s after it had been sent again"
    )
    assert not list(late_end_txns(run, {"control-0": "control"}))
    rows[1]["initialised_ns"] = START + 4000 * MS
    table(run, "transactions", [committed | row for row in rows])
    assert not list(late_end_txns(run, {"late-0": "late"})), "a later incarnation sent the next one"


def test_an_end_that_nobody_sent_again_is_none(run: Path) -> None:
    kept = [one for one in LINES if one["correlation_id"] not in (4500, 6900)]
    (run / TRACE_FILE).write_text("".join(json.dumps(one) + "\n" for one in kept))
    assert not list(late_end_txns(run, {"late-0": "late"}))
