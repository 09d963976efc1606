"""The story on the terminal: as printed, where something differs, and over repeated runs."""

import io

from rich.console import Console

from kafka_chaos.conformance.scenario.record import Expectation, ScenarioRecord
from kafka_chaos.conformance.scenario.registry import Scenario
from kafka_chaos.conformance.scenario.telling.console import ConsoleReporter, summary
from tests.conformance.scenario.samples import SOURCE, planted_difference, scenario_record, sharing, truncation
from tests.harness.snapshots import assert_same


def printed(*records: ScenarioRecord) -> str:
    """The reporter's output for these runs of one scenario."""
    out = io.StringIO()
    reporter = ConsoleReporter(Console(file=out, width=120, highlight=False), repeat=len(records))
    story = "X loses what only it had."
    for record in records:
        reporter("scenario", Scenario(record.scenario, SOURCE, record.title, story, "a.yaml", lambda play: None))
        for one in record.acts:
            reporter("act", one)
            for taken in one.steps:
                reporter("step", (one, taken))
            for expectation in one.expectations:
                reporter("expectation", expectation)
            for fact in one.facts.items():
                reporter("fact", fact)
        reporter("verdict", record)
    return out.getvalue()


def test_the_story_as_printed_without_a_terminal() -> None:
    assert_same("scenario-story.txt", printed(truncation()).strip())


def test_a_planted_difference_names_the_replica() -> None:
    lines = printed(planted_difference()).splitlines()
    sentence = "✗ X (broker 1), log: Kafka has M1·0 M3·1, the model allows M1·0 M2·0"
    assert [line for line in lines if sentence in line]
    assert "violation" in lines[-2]


def test_what_members_of_a_share_group_did_is_told_where_it_changed() -> None:
    lines = [line.strip() for line in printed(sharing()).splitlines()]
    assert "member 1: given 0 (delivery 1), accept 0: NONE" in lines
    assert "Share group: start offset 0" in lines
    assert lines.count("member 2:") == 2


def test_a_failed_expectation_shows_what_was_expected_and_observed() -> None:
    record = truncation()
    (played,) = record.acts
    played.expectations = [Expectation("M2 is kept", ["M1", "M2"], ["M1", "M3"], False)]
    record.verdict, record.reason = "violation", "M2 is kept: …"
    text = printed(record)
    assert '✗ M2 is kept: expected ["M1", "M2"], observed ["M1", "M3"]' in text


def test_of_repeated_runs_the_first_and_those_that_do_not_conform_are_printed_in_full() -> None:
    text = printed(truncation(), truncation(), planted_difference(), truncation())
    assert "acks-1-recovery (run 1 of 4)" in text
    assert "acks-1-recovery, run 2 of 4: conforms in 12.3 s" in text
    assert "acks-1-recovery (run 3 of 4)" in text
    assert text.rstrip().endswith("acks-1-recovery, run 4 of 4: conforms in 12.3 s")
    assert text.count("X is killed; a producer sends M3.") == 2


def test_the_summary_counts_runs_and_times() -> None:
    records = [truncation(), truncation(), planted_difference(), scenario_record(name="acks-0", verdict="unknown")]
    for record, seconds in zip(records, (1.0, 2.0, 9.0, 4.0), strict=True):
        record.seconds = seconds
    out = io.StringIO()
    Console(file=out, width=100).print(summary(records))
    rows = [line.split() for line in out.getvalue().splitlines()]
    assert rows[1] == ["acks-1-recovery", "violation", "2/3", "1/3", "1.0", "2.0", "9.0"]
    assert rows[2] == ["acks-0", "unknown", "1/1", "4.0", "4.0", "4.0"]
