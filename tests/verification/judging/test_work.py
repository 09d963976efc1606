"""What was asked for, attempted and acknowledged stands beside each other, with the errors of the rest."""

from pathlib import Path

import pytest

from kafka_chaos.verification import verify
from kafka_chaos.verification.judging.work import asked_of
from kafka_chaos.verification.telling import print_verdict
from tests.verification.samples.run_dirs import Rows, rows_of

EXPERIMENT = """
cluster: {{}}
recorded: {{}}
phases:
- workload: {{rate: 10, duration: {duration}}}
  lanes:
  - {{lane: a}}
"""


def failing() -> Rows:
    rows = rows_of(20)
    for seq, error in enumerate(
        ("INVALID_TXN_STATE: 3 ms", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_TXN_STATE: 4"), 20
    ):
        rows.send(seq, None, "fail")
        rows.produced[-1]["error"] = error
    return rows


@pytest.mark.parametrize(
    ("duration", "less"), [(2.5, []), (2.6, ["attempted 23 of 26 records that were asked for (88%)"])]
)
def test_less_than_asked_is_said_with_the_errors(
    tmp_path: Path, duration: float, less: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = failing().write(tmp_path / "run")
    (run_dir / "experiment.yaml").write_text(EXPERIMENT.format(duration=duration))
    (run_dir / "events.jsonl").write_text("")
    verdict = verify(run_dir, engine="duckdb")
    (lane,) = verdict.to_json()["lanes"]
    errors = {"INVALID_TXN_STATE": 2, "OUT_OF_ORDER_SEQUENCE_NUMBER": 1}
    asked = round(10 * duration)
    assert lane["work"] == {"asked": asked, "attempted": 23, "acknowledged": 20, "errors": {"produced": errors}}
    said = [*less, "errors of records: INVALID_TXN_STATE 2, OUT_OF_ORDER_SEQUENCE_NUMBER 1"]
    print_verdict(verdict)
    printed = " ".join(capsys.readouterr().out.split())
    assert all(f"a: {line}" in printed for line in said)
    assert ("that were asked for" in printed) is bool(less)


def test_a_directory_of_other_origin_says_that_nobody_knows_what_was_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = verify(failing().write(tmp_path / "run"), engine="duckdb")
    assert verdict.to_json()["lanes"][0]["work"]["asked"] is None
    print_verdict(verdict)
    assert "not known" in capsys.readouterr().out


@pytest.mark.parametrize(("more", "asked"), [("created_at: 1.0", 10), ("loop: {source: b}", None)])
def test_what_is_asked_of_lanes_that_begin_later_or_send_what_they_read(
    tmp_path: Path, more: str, asked: int | None
) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT.format(duration=2.0).replace("{lane: a}", f"{{lane: a, {more}}}"))
    assert asked_of(path, {}, {}).get("a") == asked
    path.write_text(EXPERIMENT.format(duration=".inf"))
    assert asked_of(path, {}, {}) == {}


@pytest.mark.parametrize(
    ("begun_ns", "more", "asked"),
    [
        # From the first record on: 3 s before the load of 4 s counted.
        (2_000_000_000, "", 70),
        (6_000_000_000, "", 40),
        (2_000_000_000, "lives: [{role: producer, at: 0.0}]", 40),
        (2_000_000_000, "lives: [{role: consumer, at: 0.0}]", 70),
    ],
)
def test_a_lane_is_asked_for_what_it_sends_while_other_clients_are_on_their_way(
    tmp_path: Path, begun_ns: int, more: str, asked: int
) -> None:
    path = tmp_path / "experiment.yaml"
    text = EXPERIMENT.format(duration=4.0).replace("- workload", "- phase: p\n  workload")
    path.write_text(text.replace("{lane: a}", f"{{lane: a, {more}}}"))
    assert asked_of(path, {"p": (5_000_000_000, 9_000_000_000)}, {"a": begun_ns})["a"] == asked
