"""Finds the first cases of each finding, and the rows of a run's tables about their records and their offsets.

Guarantee: a table is read once for all cases. A finding keeps at most `MOST_CASES` cases, and a case at most
`MOST_ROWS` rows of each table, or of each broker's replica. Of a node's log, the last `MOST_BYTES` are searched.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.harness.report.inputs.series import FindingRange
from kafka_chaos.harness.report.inputs.table_queries import ask

MOST_CASES = 3
MOST_ROWS = 12
MOST_BYTES = 32 << 20  # 32 MiB

# `recursive` makes a row of each case, with a column for each of its keys. WHERE repeats the join's condition with
# constants, which leave few rows: a join of whole tables takes twice as long.
_MATCHES = """
WITH cases AS (SELECT unnest($cases, recursive := true))
SELECT number, row(e.producer_id, e.seq) IS DISTINCT FROM row(c.producer_id, c.seq) AS other, e.*
FROM entries e JOIN cases c ON e.lane = c.lane AND ((e.producer_id = c.producer_id AND e.seq = c.seq)
  OR (e.partition = c.partition AND e."offset" = c."offset"))
WHERE e.seq IN ({seqs}) OR e."offset" IN ({offsets})
QUALIFY row_number() OVER (PARTITION BY {case_key} ORDER BY other, e."offset", e.seq) <= $most
ORDER BY {case_key}, other, e."offset", e.seq
"""


@dataclass(frozen=True)
class Case:
    """One case of a finding. `rows`: by table, the rows about the case's record, and, marked as `other`, rows about
    another record at its offset. A table that the run directory lacks has no entry."""

    lane: str
    anomaly: str
    partition: int | None
    offset: int | None
    producer_id: int | None
    seq: int | None
    cause: str | None = None
    rows: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)


def first_cases(ranges: Iterable[FindingRange]) -> dict[tuple[str, str], list[Case]]:
    """By lane and anomaly, the first case of each of the largest ranges, without rows. Cases of a range are alike."""
    cases: dict[tuple[str, str], list[Case]] = {}
    for finding in sorted(ranges, key=lambda finding: -finding.count):
        finding_cases = cases.setdefault((finding.lane, finding.anomaly), [])
        offset = None if finding.by_sequence else finding.first
        producer_id, seq = finding.record.get("producer_id"), finding.record.get("seq")
        if len(finding_cases) < MOST_CASES:
            case = Case(finding.lane, finding.anomaly, finding.partition, offset, producer_id, seq, finding.cause)
            finding_cases.append(case)
    return cases


def fill_rows(cases: Sequence[Case], run_dir: Path) -> None:
    """Read the `rows` of all cases from the tables of the run."""
    fields = ("lane", "partition", "offset", "producer_id", "seq")
    keys = [{"number": number, **{key: getattr(case, key) for key in fields}} for number, case in enumerate(cases)]
    offsets, seqs = (
        ", ".join({str(key[name]) for key in keys if key[name] is not None}) or "NULL" for name in ("offset", "seq")
    )
    for table in ("produced", "consumed", "deliveries", "log", "replicas") if cases else ():
        case_key = "number, broker" if table == "replicas" else "number"
        matches = _MATCHES.format(case_key=case_key, offsets=offsets, seqs=seqs)
        if files := sorted((run_dir / table).glob("*.parquet")):
            for case in cases:
                case.rows[table] = []
            for row in ask(matches, files, TABLES[table], cases=keys, most=MOST_ROWS):
                cases[row["number"]].rows[table].append(row)


def log_lines(files: Collection[Path], partitions: Collection[str]) -> Iterator[tuple[int, str, str, str]]:
    """The lines of nodes' logs that name one of the `partitions`, such as `orders-0`: nanoseconds since the epoch, the
    node, the partition, and the line without its time."""
    # Longer names come first: a shorter one may be their beginning.
    names = "|".join(sorted(map(re.escape, partitions), key=len, reverse=True))
    time = r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]"
    line = re.compile(rf"{time}(.*?(?<![\w.-])({names})(?!\d).*)$".encode(), re.MULTILINE)
    for file in files if names else ():
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - MOST_BYTES))
            for match in line.finditer(opened.read()):
                # Nodes log in UTC.
                seconds = datetime.fromisoformat(f"{match[1].decode().replace(',', '.')}+00:00").timestamp()
                text = match[2].decode(errors="replace").strip()
                yield int(seconds * 1000) * 1_000_000, file.stem, match[3].decode(), text
