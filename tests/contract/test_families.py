"""Of several verdicts, the gravest counts."""

from kafka_chaos.contract.anomalies import Verdict


def test_the_gravest_verdict_counts() -> None:
    assert Verdict.gravest(["unknown", "violation", "conforms"]) is Verdict.VIOLATION
    assert Verdict.gravest(["conforms", "unknown"]) is Verdict.UNKNOWN
    assert (Verdict.gravest([]), Verdict.gravest([], default=Verdict.UNKNOWN)) == ("conforms", "unknown")
