"""Compares what Spark found with what the plain checker found in the same rows.

Guarantee: a disagreement makes its lane and the run `unknown`, and names both counts. Pure Python, no Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.columns import FINDINGS, arrow_schema
from kafka_chaos.contract.families import anomaly_named
from kafka_chaos.contract.ledger import CrossCheck, Disagreement
from kafka_chaos.verification.judging.result import LaneVerdict, RunVerdict
from kafka_chaos.verification.plain.anomalies import LOOKED_FOR, SAMPLED
from kafka_chaos.verification.plain.cases import Case
from kafka_chaos.verification.plain.cross_check import Checked, LaneChecked

Found = Mapping[str, Counter[Case]]
"""By lane the rows of findings/ that concern a sample."""


def with_cross_check(verdict: RunVerdict, checked: Checked, findings: Path | None, rows: int) -> RunVerdict:
    """The verdict after the cross-check. `findings`: the folder, None if it was not written; then samples are not
    compared. `rows`: those of the run.
    """
    samples = {lane: one for lane, one in checked.lanes.items() if one.identities is not None}
    compared = {lane: one for lane, one in checked.lanes.items() if lane not in samples or findings is not None}
    found = _found(findings, samples) if findings is not None and samples else {}
    disagreements: list[Disagreement] = []
    lanes = []
    for lane in verdict.lanes:
        problems = _disagreements(lane, compared[lane.lane], found) if lane.lane in compared else []
        disagreements += problems
        lanes.append(_doubted(lane, problems) if problems else lane)
    cross_check = CrossCheck(
        lanes=len(compared),
        whole_lanes=len(compared.keys() - samples.keys()),
        rows=sum(one.rows for one in compared.values()),
        of_rows=rows,
        disagreements=tuple(disagreements),
        problem=checked.problem,
    )
    gravest = Verdict.UNKNOWN if disagreements else verdict.verdict
    return replace(verdict, lanes=tuple(lanes), verdict=gravest, cross_check=cross_check)


def _doubted(lane: LaneVerdict, problems: list[Disagreement]) -> LaneVerdict:
    return replace(lane, verdict=Verdict.UNKNOWN, reasons=(*map(str, problems), *lane.reasons))


def _disagreements(lane: LaneVerdict, checked: LaneChecked, found: Found) -> list[Disagreement]:
    plain: Counter[str] = Counter()
    for case, units in checked.cases.items():
        plain[case.anomaly] += units
    if checked.identities is None:
        spark = Counter({name: lane.count(anomaly_named(name)) or 0 for name in LOOKED_FOR})
        differing = [name for name in LOOKED_FOR if spark[name] != plain[name]]
    else:
        cases = found.get(lane.lane, Counter())
        spark = Counter(case.anomaly for case in cases.elements())
        one_sided = {case.anomaly for case in cases.keys() ^ set(checked.cases)}
        differing = [name for name in SAMPLED if name in one_sided]
    return [
        Disagreement(lane=lane.lane, anomaly=name, spark=spark[name], plain=plain[name])
        for name in differing
        if anomaly_named(name) not in lane.not_judged
    ]


def _found(findings: Path, samples: Mapping[str, LaneChecked]) -> dict[str, Counter[Case]]:
    """The cases of the sampled records, as findings/ holds them."""
    found: dict[str, Counter[Case]] = {lane: Counter() for lane in samples}
    wanted = pc.field("lane").isin(list(samples)) & pc.field("anomaly").isin(list(SAMPLED))
    files = sorted(str(file) for file in findings.glob("*.parquet"))
    dataset = ds.dataset(files, schema=arrow_schema(FINDINGS), format="parquet")
    for batch in dataset.to_batches(columns=["lane", *Case._fields], filter=wanted):
        for lane, *values in zip(*batch.to_pydict().values(), strict=True):
            case = Case(*values)
            identities = samples[lane].identities
            if identities is not None and (case.producer_id, case.seq) in identities:
                found[lane][case] += 1
    return found
