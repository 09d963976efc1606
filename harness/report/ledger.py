"""The evidence ledger of verdict.json as a table: per lane what was recorded, and whether it suffices for a verdict.

Guarantee: a number that the ledger does not have is shown as unknown, never as 0; a verdict without a ledger has no
table, and whatever part of one is malformed is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_chaos.contract.errors import counted
from kafka_chaos.harness.report.inputs.evidence import Evidence, as_dict, as_list
from kafka_chaos.harness.report.words import join

COLUMNS = {
    "Acknowledged records judged": "acknowledged records whose fate the evidence shows",
    "Partitions read to the end": "some consumer read past the last record",
    "Faults proven and healed": "requested, then proven, then healed",
    "Replicas": "replicas collected with their high watermark, of those that the topic has",
    "High watermark reports": "high watermarks that the brokers reported while the run went on",
    "Prediction": "whether this verification computed the model's prediction again",
}
"""The table's columns, and what each counts."""


@dataclass(frozen=True)
class Cell:
    """One kind of evidence of a lane. `state`: `whole`, `short`, or `none` where there is nothing to expect."""

    text: str
    state: str


@dataclass(frozen=True)
class Row:
    """A lane's line of the ledger; `missing` says in sentences what its evidence lacks."""

    lane: str
    complete: bool
    cells: Sequence[Cell]
    missing: Sequence[str]


@dataclass(frozen=True)
class Ledger:
    """The run's ledger. `left_out`: evidence that the run did not collect; `tables`: rows of the run's files.

    `cross_check`: what the plain checker looked at, and where it disagrees with Spark; empty where nothing says so.
    """

    rows: Sequence[Row]
    tables: Sequence[Cell]
    left_out: Sequence[str]
    watermark_reports: int
    cross_check: str

    @property
    def by_lane(self) -> Mapping[str, Row]:
        """The lines by lane."""
        return {row.lane: row for row in self.rows}

    @property
    def summary(self) -> str:
        """How many lanes have all the evidence that their predictions ask for, in one sentence."""
        short = sum(not row.complete for row in self.rows)
        if not short:
            return (
                f"The evidence of {'the lane' if len(self.rows) == 1 else f'all {len(self.rows)} lanes'} is complete."
            )
        verb = "has" if short == 1 else "have"
        return f"{short:,} of {counted(len(self.rows), 'lane')} {verb} incomplete evidence."


def ledger_of(evidence: Evidence) -> Ledger | None:
    """The ledger of a verdict; None where it was written without one."""
    ledgers = {lane: entry["ledger"] for lane, entry in evidence.judged.items() if as_dict(entry.get("ledger"))}
    if not ledgers:
        return None
    return Ledger(
        rows=[_row(lane, ledger) for lane, ledger in ledgers.items()],
        tables=[_table(name, as_dict(table)) for name, table in evidence.verified_tables.items()],
        left_out=_left_out(ledgers),
        cross_check=_cross_check(evidence.cross_check),
        watermark_reports=sum(_int(ledger.get("high_watermark_reports")) or 0 for ledger in ledgers.values()),
    )


def incomplete(lane: str, entry: Mapping[str, Any]) -> str:
    """One line about a lane of verdict.json whose evidence is incomplete; empty where it is complete or unknown."""
    ledger = as_dict(entry.get("ledger"))
    if not ledger or ledger.get("complete") is True:
        return ""
    return f"{lane}: incomplete evidence: {'; '.join(_sentences(ledger.get('missing'))) or 'no reason given'}"


def _row(lane: str, ledger: Mapping[str, Any]) -> Row:
    cells = (
        _acknowledged(as_dict(ledger.get("acknowledged"))),
        _partitions(as_list(ledger.get("partitions"))),
        _faults(as_dict(ledger.get("faults"))),
        _replicas(ledger.get("replicas")),
        _reports(_int(ledger.get("high_watermark_reports"))),
        _prediction(as_dict(ledger.get("prediction"))),
    )
    return Row(lane, ledger.get("complete") is True, cells, _sentences(ledger.get("missing")))


def _cross_check(look: Mapping[str, Any]) -> str:
    lanes, rows, of_rows = (_int(look.get(name)) for name in ("lanes", "rows", "of_rows"))
    if lanes is None or rows is None or of_rows is None:
        return ""
    if look.get("problem"):
        return f"No cross-check: {look['problem']}."
    seen = f"Cross-check by the plain checker: {counted(lanes, 'lane')}, {rows:,} of {counted(of_rows, 'row')}. "
    named = [
        f"{one.get('lane')}: {one.get('anomaly')} is {one.get('spark')} by Spark, {one.get('plain')} by this checker."
        for one in map(as_dict, as_list(look.get("disagreements"))[:20])
    ]
    return seen + (f"It disagrees. {' '.join(named)}" if named else "It agrees with Spark.")


def _acknowledged(counts: Mapping[str, Any]) -> Cell:
    return _share(_int(counts.get("judged")), _int(counts.get("records")))


def _partitions(partitions: Sequence[Any]) -> Cell:
    return _share(sum(as_dict(one).get("end_reached") is True for one in partitions), len(partitions))


def _faults(faults: Mapping[str, Any]) -> Cell:
    events, declared = faults.get("events"), as_list(faults.get("declared"))
    if not isinstance(events, list):
        return Cell("no events", "short" if declared else "none")
    if not events and not declared:
        return Cell("no faults", "none")
    return _share(sum(as_dict(one).get("problem") is None for one in events), len(events) or len(declared))


def _replicas(replicas: object) -> Cell:
    if not isinstance(replicas, dict):
        return Cell("left out", "none")
    factor = _int(replicas.get("replication_factor"))
    partitions = [as_list(as_dict(one).get("brokers")) for one in as_list(replicas.get("partitions"))]
    marked = [sum(_int(as_dict(one).get("high_watermark")) is not None for one in brokers) for brokers in partitions]
    return _share(min(marked, default=0), factor)


def _reports(reports: int | None) -> Cell:
    return Cell("unknown", "short") if reports is None else Cell(f"{reports:,}", "whole" if reports else "none")


def _prediction(prediction: Mapping[str, Any]) -> Cell:
    return Cell("computed again", "whole") if prediction.get("recomputed") is True else Cell("as given", "short")


def _table(name: str, table: Mapping[str, Any]) -> Cell:
    """A table's rows as its footers promise them and as they were read."""
    footers, read = _int(table.get("rows_by_footer")), _int(table.get("rows_as_read"))
    files = counted(len(as_list(table.get("files"))), "file")
    if footers is None or read is None:
        return Cell(f"{name}/: rows unknown", "short")
    if footers == read:
        return Cell(f"{name}/: {counted(read, 'row')} in {files}", "whole" if read else "none")
    return Cell(f"{name}/: {read:,} of {counted(footers, 'row')} in {files} were read", "short")


def _share(part: int | None, whole: int | None) -> Cell:
    if part is None or whole is None:
        return Cell("unknown", "short")
    return Cell(f"{part:,} of {whole:,}", "whole" if part >= whole > 0 else "short")


def _left_out(ledgers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What was left out, each once, with its lanes where it is not left out everywhere."""
    lanes: dict[str, list[str]] = {}
    for lane, ledger in ledgers.items():
        for sentence in _sentences(ledger.get("left_out")):
            lanes.setdefault(sentence, []).append(lane)
    return [text if len(at) == len(ledgers) else f"{text} ({join(at)})" for text, at in lanes.items()]


def _sentences(value: object) -> list[str]:
    return [str(one) for one in as_list(value)]


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
