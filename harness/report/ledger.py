"""The evidence ledger of verdict.json as a table: per lane what was recorded, and whether it suffices for a verdict.

Guarantee: a number that the ledger lacks is shown as unknown, never as 0. If another version wrote a lane's ledger in
another form, all of it is shown as unknown. A verdict without a ledger has no table.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from kafka_chaos.contract import ledger as contract
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.harness.report.inputs.evidence import Evidence
from kafka_chaos.harness.report.pages import join

COLUMNS = {
    "Acknowledged records judged": "acknowledged records whose fate the evidence shows",
    "Partitions read to the end": "some consumer read past the last record",
    "Faults proven and healed": "requested, then proven, then healed",
    "Replicas": "replicas collected with their high watermark, out of the replication factor",
    "Recovery": "the longest time without service, out of the time that the lane's time-outs allow",
    "High watermark reports": "high watermarks that the brokers reported while the run went on",
    "Prediction": "whether this verification computed the model's prediction again",
    "In this run": "partitions whose ISRs are all known and lost brokers only to faults",
}
"""The table's columns, and what each column tells."""


@dataclass(frozen=True)
class Cell:
    """How much a lane has of one kind of evidence. `state`: `whole`, `short`, or `none` if nothing was expected."""

    text: str
    state: str


Part = TypeVar("Part")
UNKNOWN = Cell("unknown", "short")


@dataclass(frozen=True)
class Row:
    """A lane's line of the ledger. `missing`: what the lane's evidence lacks, in sentences."""

    lane: str
    complete: bool
    cells: Sequence[Cell]
    missing: Sequence[str]


@dataclass(frozen=True)
class Ledger:
    """The ledgers of all lanes. `left_out`: evidence that the run did not collect. `tables`: rows read per table."""

    rows: Sequence[Row]
    tables: Sequence[Cell]
    left_out: Sequence[str]
    watermark_reports: int

    @property
    def by_lane(self) -> Mapping[str, Row]:
        """The rows by lane."""
        return {row.lane: row for row in self.rows}


def ledger_of(evidence: Evidence) -> Ledger | None:
    """The ledger of a verdict; None if it was written without one."""
    adapter, table_adapter = TypeAdapter(contract.Ledger), TypeAdapter(contract.TableLedger)
    ledgers = {lane: _read(adapter, entry["ledger"]) for lane, entry in evidence.judged.items() if entry.get("ledger")}
    if not ledgers:
        return None
    readable = {lane: ledger for lane, ledger in ledgers.items() if ledger is not None}
    # Evidence that several lanes left out is one sentence, which names these lanes unless it holds for all lanes.
    left_out: dict[str, list[str]] = {}
    for lane, ledger in readable.items():
        for sentence in ledger.left_out:
            left_out.setdefault(sentence, []).append(lane)
    return Ledger(
        rows=[_row(lane, ledger) for lane, ledger in ledgers.items()],
        tables=[_table(name, _read(table_adapter, table)) for name, table in evidence.verified_tables.items()],
        left_out=[
            text if len(lanes) == len(readable) else f"{text} ({join(lanes)})" for text, lanes in left_out.items()
        ],
        watermark_reports=sum(ledger.high_watermark_reports for ledger in readable.values()),
    )


def _read(reader: TypeAdapter[Part], document: object) -> Part | None:
    """The part of a verdict that a document describes; None if the document has another form."""
    try:
        return reader.validate_json(json.dumps(document), strict=True)
    except ValueError:
        return None


def _row(lane: str, ledger: contract.Ledger | None) -> Row:
    if ledger is None:
        return Row(lane, complete=False, cells=[UNKNOWN] * len(COLUMNS), missing=["another version wrote its ledger"])
    reports = ledger.high_watermark_reports
    cells = (
        _count_of(ledger.acknowledged.judged, ledger.acknowledged.records),
        _count_of(sum(partition.end_reached for partition in ledger.partitions), len(ledger.partitions)),
        _faults(ledger.faults),
        _replicas(ledger.replicas),
        _recovery(ledger.recovery),
        Cell(f"{reports:,}", "whole" if reports else "none"),
        Cell("computed again", "whole") if ledger.prediction.recomputed else Cell("as given", "short"),
        _observations(ledger.observations),
    )
    return Row(lane, ledger.complete, cells, ledger.missing)


def _faults(faults: contract.FaultsLedger) -> Cell:
    if faults.events is None:
        return Cell("no events", "short" if faults.declared else "none")
    if not faults.events and not faults.declared:
        return Cell("no faults", "none")
    return _count_of(sum(fault.problem is None for fault in faults.events), len(faults.events) or len(faults.declared))


def _replicas(replicas: contract.ReplicasLedger | None) -> Cell:
    if replicas is None:
        return Cell("left out", "none")
    with_watermark = (
        sum(broker.high_watermark is not None for broker in partition.brokers) for partition in replicas.partitions
    )
    return _count_of(min(with_watermark, default=0), replicas.replication_factor)


def _recovery(recovery: Sequence[contract.RecoveryLedger]) -> Cell:
    """The outage that came closest to its bound, or furthest past it, with its anomaly of recovery."""
    if not recovery:
        return Cell("not judged", "none")
    closest = max(recovery, key=lambda measured: measured.longest_s / measured.bound_s)
    text = f"{closest.longest_s:.1f} of {closest.bound_s:.1f} s ({closest.anomaly})"
    return Cell(text, "whole" if closest.longest_s <= closest.bound_s else "short")


def _observations(observations: contract.ObservationsLedger | None) -> Cell:
    """How many partitions were observed well enough to ask the model for the statuses *in this run*."""
    if observations is None:
        return Cell("as for these faults", "none")
    searchable = sum(partition.reason is None for partition in observations.partitions)
    return Cell(f"{searchable:,} of {len(observations.partitions):,}", "whole" if observations.searched else "none")


def _count_of(number: int, total: int) -> Cell:
    return Cell(f"{number:,} of {total:,}", "whole" if number >= total > 0 else "short")


def _table(name: str, table: contract.TableLedger | None) -> Cell:
    """How many rows of a table were read, out of those that the footers of its Parquet files promise."""
    if table is None:
        return Cell(f"{name}/: rows unknown", "short")
    footers, read, files = table.rows_by_footer, table.rows_as_read, counted(len(table.files), "file")
    if footers == read:
        return Cell(f"{name}/: {counted(read, 'row')} in {files}", "whole" if read else "none")
    return Cell(f"{name}/: {read:,} of {counted(footers, 'row')} in {files} were read", "short")
