"""A cross-check at a run: the plain checker judges what fits it, from the same files and without Spark.

Guarantee: rows are read by PyArrow alone. Small lanes are looked at whole. Of larger ones, it looks at records evenly
spread over each producer's sequence, with everything that was sent, read and stored of them. Which ones depends on the
run alone, so every cross-check is the same. One that fails is reported, and never ends the verification. A disagreement
makes its lane and the run `unknown`, and names both counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.columns import FINDINGS, arrow_schema
from kafka_chaos.contract.lane.families import anomaly_named
from kafka_chaos.contract.ledger import CrossCheck, Disagreement
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.result import LaneVerdict, RunVerdict
from kafka_chaos.verification.plain.anomalies import LOOKED_FOR, SAMPLED, SAMPLED_BY_READS, check_sample, find
from kafka_chaos.verification.plain.engine import groups_in
from kafka_chaos.verification.plain.rows import Case, Finding, LaneHistory, View
from kafka_chaos.verification.plain.tables import KINDS, add_metadata, batches, empty_histories, values_of

ROWS = 20_000
"""About as many rows as it looks at."""
MOST_SCANNED = 5_000_000
"""It leaves a larger run alone: to find rows of a sample, it reads all."""
WINDOWS = 8
"""A sample has as many pieces of consecutive sequence numbers."""


@dataclass(frozen=True, slots=True)
class LaneChecked:
    """The plain checker's findings in a lane; `identities` None: it looked at all rows, otherwise at these records.

    `cases`: with the number of counted units that each stands for. `looked_for`: the anomalies.
    """

    rows: int
    cases: Counter[Case]
    identities: frozenset[tuple[int, int]] | None = None
    looked_for: Sequence[str] = LOOKED_FOR


@dataclass(frozen=True, slots=True)
class Checked:
    """By lane what was looked at; `problem`: why nothing was."""

    lanes: Mapping[str, LaneChecked] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    """By lane: of every `stride` sequence numbers, the first `width` belong to the sample; all if they are equal."""

    lanes: tuple[str, ...]
    strides: np.ndarray[Any, Any]
    widths: np.ndarray[Any, Any]

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that belong to it; of a table without sequence numbers, all rows of its lanes."""
        codes = pc.fill_null(pc.index_in(batch.column("lane"), pa.array(self.lanes)), -1).to_numpy(zero_copy_only=False)
        if "seq" not in batch.schema.names:
            return batch.filter(pa.array(codes >= 0))
        seqs = batch.column("seq").to_numpy(zero_copy_only=False)
        chosen = (codes >= 0) & (seqs % self.strides[codes] < self.widths[codes])
        return batch.filter(pa.array(chosen))


def cross_checked(run: RunDirectory) -> Checked:
    """The plain checker's findings in as much of the run as fits it; files that cannot be read are its `problem`."""
    if not isinstance(run.path, Path):
        return Checked(problem="only local run directories are looked at twice")
    if any(table.counted for table in run.tables.values()):
        return Checked(problem="not all tables are files of the run directory")
    if run.rows > MOST_SCANNED:
        return Checked(problem=f"the run has more than {MOST_SCANNED:,} rows")
    try:
        return Checked(_checked(run))
    except (RunDirectoryError, OSError, ValueError, pa.ArrowException) as error:
        # Whatever is wrong with a file, Spark's answer is about what Spark could read.
        return Checked(problem=f"it failed: {type(error).__name__}: {error}")


def _checked(run: RunDirectory) -> dict[str, LaneChecked]:
    rows, last_seqs = _rows_by_lane(run)
    whole: list[str] = []
    left = ROWS
    for lane in sorted(rows, key=lambda lane: (rows[lane], lane)):
        if rows[lane] <= left:
            left -= rows[lane]
            whole.append(lane)
    views = {lane: View(history) for lane, history in _histories(run, whole).items()}
    found = {
        lane.lane: LaneChecked(rows[lane.lane], _units(find(views[lane.lane], groups_in(run, lane, views))))
        for lane in run.lanes
        # A group needs the lane that it reads.
        if {lane.lane, *groups_of_lane(lane).values()} <= views.keys()
    }
    # What a record of a transaction or a loop means is known only with all others.
    left_out = {lane.lane for lane in run.lanes if lane.transactional is not None or lane.group_anomalies}
    rest = [lane for lane in rows if lane not in whole and lane not in left_out]
    if rest and left:
        # A record has about three rows: sent, read, stored.
        share = max(1, left // len(rest) // 3 // WINDOWS)
        strides = [max(1, (last_seqs.get(lane, 0) + 1) // WINDOWS) for lane in rest]
        sample = _Sample(tuple(rest), np.array(strides), np.minimum(np.array(strides), share))
        for lane, history in _read(run, sample, ("produced", "consumed", "log")).items():
            _keep_producers(history, 2 * left // len(rest))
            identities = frozenset((row.producer_id, row.seq) for row in history.produced)
            if identities:
                size = sum(map(len, (history.produced, history.consumed, history.log or ())))
                looked_for = SAMPLED_BY_READS if history.log is None else SAMPLED
                found[lane] = LaneChecked(size, Counter(check_sample(history)), identities, looked_for)
    return found


def _units(findings: Iterable[Finding]) -> Counter[Case]:
    units: Counter[Case] = Counter()
    for one in findings:
        units[one.case] += one.units
    return units


def _histories(run: RunDirectory, lanes: list[str]) -> dict[str, LaneHistory]:
    """The lanes with all their rows."""
    if not lanes:
        return {}
    everything = np.ones(len(lanes), dtype=np.int64)
    found = _read(run, _Sample(tuple(lanes), everything, everything), tuple(KINDS))
    add_metadata(run, found)
    return found


def _read(run: RunDirectory, sample: _Sample, tables: tuple[str, ...]) -> dict[str, LaneHistory]:
    found = empty_histories(run, sample.lanes)
    for name in tables:
        kind = KINDS[name]
        for _, batch in batches(run, name, ["lane", *kind._fields]):
            chosen = sample.of(batch)
            for lane, *values in zip(*map(values_of, chosen.columns), strict=True):
                getattr(found[lane], name).append(kind(*values))
    return found


def _keep_producers(history: LaneHistory, most: int) -> None:
    """Leave out the producers with the highest ids until at most `most` rows remain."""
    sizes = Counter(row.producer_id for row in (*history.produced, *history.consumed, *(history.log or ())))
    kept, total = set(), 0
    for producer_id in sorted(sizes):
        total += sizes[producer_id]
        if total <= most:
            kept.add(producer_id)
    history.produced = [row for row in history.produced if row.producer_id in kept]
    history.consumed = [row for row in history.consumed if row.producer_id in kept]
    if history.log is not None:
        history.log = [row for row in history.log if row.producer_id in kept]


def _rows_by_lane(run: RunDirectory) -> tuple[Counter[str], dict[str, int]]:
    """The rows of each lane in all tables, and the highest sequence number that it sent."""
    rows: Counter[str] = Counter()
    last_seqs: dict[str, int] = {}
    for name in KINDS:
        number = next(key for key in ("seq", "partition", "producer_id") if key in KINDS[name]._fields)
        for _, batch in batches(run, name, ["lane", number]):
            table = pa.Table.from_batches([batch])
            grouped = table.group_by("lane").aggregate([(number, "count"), (number, "max")]).to_pydict()
            columns = (grouped[key] for key in ("lane", f"{number}_count", f"{number}_max"))
            for lane, count, highest in zip(*columns, strict=True):
                rows[lane] += count
                if name == "produced":
                    last_seqs[lane] = max(highest, last_seqs.get(lane, 0))
    return rows, last_seqs


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
        if problems:
            lane = replace(lane, verdict=Verdict.UNKNOWN, reasons=(*map(str, problems), *lane.reasons))
        lanes.append(lane)
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


def _disagreements(lane: LaneVerdict, checked: LaneChecked, found: Found) -> list[Disagreement]:
    plain: Counter[str] = Counter()
    for case, units in checked.cases.items():
        plain[case.anomaly] += units
    if checked.identities is None:
        spark = Counter({name: lane.count(anomaly_named(name)) or 0 for name in checked.looked_for})
        differing = [name for name in checked.looked_for if spark[name] != plain[name]]
    else:
        cases = found.get(lane.lane, Counter())
        spark = Counter(case.anomaly for case in cases.elements())
        one_sided = {case.anomaly for case in cases.keys() ^ set(checked.cases)}
        differing = [name for name in checked.looked_for if name in one_sided]
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
