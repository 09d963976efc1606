"""Completes the history of a harness that died.

A producer reserves seqs in `reservations.jsonl` (the journal) before it sends the first of them. After a crash, a
reserved seq without a row gets one with the outcome `info`, so that no record that is read counts as a phantom.
A transaction gets a row if a record shows that it began. An assignment gets a row if the journal has it.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import ASSIGNMENTS, TABLES, TRANSACTIONS, arrow_schema
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import UNFINISHED_GLOB, locked
from kafka_chaos.contract.lane.transactions import IN_DOUBT
from kafka_chaos.harness.workload.history import writer
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS, reservations_in

_NUMBERS = dict.fromkeys(("first_seq", "count", "ns"), pa.int64())
_JOURNAL = pa.schema({"lane": pa.string(), "producer_id": pa.int32(), **_NUMBERS, "transactional_id": pa.string()})
"""The columns of the journal's entries that reserve seqs."""
_PRODUCER_KEY = ["lane", "producer_id"]


def recover(run_directory: Path) -> int:
    """Add the rows that a harness that died did not write, and the manifest; returns how many went to `produced/`.

    Does nothing without a journal, since then the run ended in order. Raises `UsageFailure` while the run goes on.
    """
    journal = run_directory / RESERVATIONS
    if not journal.exists():
        return 0
    try:
        with locked(run_directory):
            return _complete(run_directory, journal)
    except BlockingIOError:
        raise UsageFailure(f"{run_directory}: its run has not ended yet: wait for its end") from None


def _complete(run_directory: Path, journal: Path) -> int:
    for name in TABLES:
        writer.delete_gathered_parts(run_directory / name)
        for unfinished in (run_directory / name).glob(UNFINISHED_GLOB):
            unfinished.unlink()
    entries = list(reservations_in(journal))
    reservations = pa.Table.from_pylist([entry for entry in entries if "first_seq" in entry], schema=_JOURNAL)
    added = _append(
        run_directory / "produced", [*_PRODUCER_KEY, "seq"], _reserved_rows(reservations), writer.PRODUCED_SCHEMA
    )
    ids = reservations.select([*_PRODUCER_KEY, "transactional_id"]).drop_null()
    if ids.num_rows:
        transactions = _begun_transactions(run_directory / "produced", ids)
        key = [*_PRODUCER_KEY, "transaction"]
        _append(run_directory / "transactions", key, transactions, arrow_schema(TRANSACTIONS))
    if assigned := [row for entry in entries for row in entry.get("assigned", ())]:
        schema = arrow_schema(ASSIGNMENTS)
        rows = pa.Table.from_pylist(assigned, schema=schema)
        _append(run_directory / "assignments", ["lane", "consumer", "partition"], rows, schema)
    writer.complete_history(run_directory)
    return added


def _append(folder: Path, key: list[str], rows: pa.Table, schema: pa.Schema) -> int:
    """Add to the table in `folder` those rows whose `key` it does not have yet; returns how many."""
    for path in sorted(folder.glob("*.parquet")):
        rows = rows.join(pq.read_table(path, columns=key), keys=key, join_type="left anti")
    folder.mkdir(exist_ok=True)
    if rows.num_rows:
        ordered = rows.sort_by([(name, "ascending") for name in key])
        # Columns that the rows lack become null.
        table = pa.concat_tables([schema.empty_table(), ordered], promote_options="default")
        writer.write_parquet(table, folder / f"part-{writer.last_number(folder) + 1:06d}.parquet")
    return int(rows.num_rows)


def _reserved_rows(reservations: pa.Table) -> pa.Table:
    """A row for every reserved seq; the time of the reservation counts as the time of sending."""
    counts = reservations["count"].to_numpy()
    # Each reservation as often as it has seqs, and the number of each seq within its reservation.
    reserved = reservations.take(np.repeat(np.arange(len(counts)), counts))
    within = np.arange(reserved.num_rows) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = {
        "lane": reserved["lane"],
        "producer_id": reserved["producer_id"],
        "seq": pc.add(reserved["first_seq"], pa.array(within)),
        "invoke_ns": reserved["ns"],
    }
    return _marked_in_doubt(pa.table(columns))


def _begun_transactions(produced: Path, ids: pa.Table) -> pa.Table:
    """A row for every transaction that has records. `ids`: the transactional ids, by lane and producer_id."""
    columns = [*_PRODUCER_KEY, "transaction", "invoke_ns"]
    records = pa.concat_tables(pq.read_table(path, columns=columns) for path in sorted(produced.glob("*.parquet")))
    records = records.filter(pc.is_valid(records["transaction"]))
    begun = records.group_by([*_PRODUCER_KEY, "transaction"]).aggregate([("invoke_ns", "min")])
    ids = ids.group_by(ids.column_names).aggregate([])  # Without repetitions.
    named = begun.rename_columns({"invoke_ns_min": "begin_ns"}).join(ids, keys=_PRODUCER_KEY, join_type="inner")
    return _marked_in_doubt(named)


def _marked_in_doubt(rows: pa.Table) -> pa.Table:
    """These rows with the outcome `info`, since the harness died before it learned theirs."""
    rows = rows.append_column("outcome", pa.repeat(IN_DOUBT, rows.num_rows))
    return rows.append_column("error", pa.repeat("the harness died", rows.num_rows))
