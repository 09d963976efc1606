"""anomalies.toml says of every anomaly, and of nothing else, what its judgement rests on."""

import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.contract.lane.families import ALL_ANOMALIES, TRAITS, those

OF_HISTORIES = {"lost_write", "duplicate", "reordered", "phantom", "false_failure", "unseen"}
OF_TRANSACTIONS = {
    *("aborted_read", "torn_transaction", "lost_transaction"),
    *("zombie_commit", "hanging_transaction", "dependency_cycle"),
}


def test_every_anomaly_is_there_and_nothing_else() -> None:
    assert list(toml_of("kafka_chaos.contract.lane", "anomalies.toml")) == [*TRAITS] == [*ALL_ANOMALIES]
    assert all(traits.meaning for traits in TRAITS.values())


@pytest.mark.parametrize(
    ("trait", "anomalies"),
    [
        ("certain", OF_HISTORIES),
        ("certain_in_transactions", OF_TRANSACTIONS | {"lost_write", "unseen", "skipped_poll"}),
        ("not_after_cleanup", {"lost_write", "reordered", "offset_mismatch", "truncated_read", "offset_gap"}),
    ],
)
def test_what_makes_a_lane_unknown_stays_so(trait: str, anomalies: set[str]) -> None:
    assert set(those(ALL_ANOMALIES, trait)) == anomalies


@pytest.mark.parametrize(
    ("verdicts", "gravest"),
    [
        ([], Verdict.CONFORMS),
        (["conforms", "conforms"], Verdict.CONFORMS),
        (["conforms", "unknown"], Verdict.UNKNOWN),
        (["unknown", "violation", "conforms"], Verdict.VIOLATION),
    ],
)
def test_the_gravest_verdict_counts(verdicts: list[str], gravest: Verdict) -> None:
    assert Verdict.gravest(verdicts) is gravest
    assert Verdict.gravest(Verdict(verdict) for verdict in verdicts) is gravest


def test_no_verdict_is_what_the_caller_says() -> None:
    assert Verdict.gravest([], of_none=Verdict.UNKNOWN) is Verdict.UNKNOWN
