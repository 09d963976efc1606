"""Verdicts on lanes, as far as a test says what they are."""

from typing import Any

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.verification.judging.result import LaneVerdict


def lane_verdict(lane: str, verdict: Verdict = Verdict.CONFORMS, *, records: int = 100, **given: Any) -> LaneVerdict:
    """Of so many records, all acknowledged and read; nothing is predicted, found or left out but what is `given`."""
    counts = dict.fromkeys(("produced", "acknowledged", "consumed"), records)
    nothing = {"predicted": {}, "observed": {}, "not_judged": {}}
    return LaneVerdict(**{"lane": lane, "verdict": verdict, **counts, **nothing, **given})
