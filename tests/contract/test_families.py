"""Every anomaly says what it means and what its judgement rests on."""

import pytest

from kafka_chaos.contract.anomalies import Verdict


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
    assert Verdict.gravest([], default=Verdict.UNKNOWN) is Verdict.UNKNOWN
