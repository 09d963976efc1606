"""Every anomaly says what it means and what its judgement rests on."""

import pytest

from kafka_chaos.contract.anomalies import Trait, Verdict, those
from kafka_chaos.contract.lane.families import ALL_ANOMALIES

OF_HISTORIES = {"lost_write", "duplicate", "reordered", "phantom", "false_failure", "unseen"}


def test_every_anomaly_means_something_and_has_one_name() -> None:
    assert all(anomaly.meaning for anomaly in ALL_ANOMALIES)
    assert len(set(ALL_ANOMALIES)) == len(ALL_ANOMALIES)


@pytest.mark.parametrize(
    ("trait", "anomalies"),
    [
        (Trait.CERTAIN, OF_HISTORIES),
        (Trait.CERTAIN_IN_TRANSACTIONS, {"lost_write", "unseen", "skipped_poll"}),
        (Trait.NOT_AFTER_CLEANUP, {"lost_write", "reordered", "offset_mismatch", "truncated_read", "offset_gap"}),
    ],
)
def test_what_makes_a_lane_unknown_stays_so(trait: Trait, anomalies: set[str]) -> None:
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
