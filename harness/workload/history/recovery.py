"""Completes the history of a harness that died.

A producer reserves seqs in `reservations.jsonl` (the journal) before it sends the first of them. After a crash, a
reserved seq without a row gets one with the outcome `info`, so that no record that is read counts as a phantom.
A transaction gets a row if a record shows that it began. An assignment gets a row if the journal has it.
"""

import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset

from kafka_chaos.contract.columns import ASSIGNMENTS, TABLES, TRANSACTIONS, arrow_schema
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import UNFINISHED_GLOB, locked
from kafka_chaos.contract.lane.transactions import IN_DOUBT
from kafka_chaos.harness.workload.history import writer
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS, reservations_in

_NUMBERS = dict.fromkeys(("first_seq", "count", "ns"), pa.int64())
_JOURNAL = pa.schema({"lane": pa.string(), "producer_id": pa.int32(), **_NUMBERS, "transactional_id": pa.string()})
"""The columns of the journal's entries that reserve seqs."""
_IN_DOUBT = f"'{IN_DOUBT}' AS outcome, 'the harness died' AS error"
_RESERVED_RECORDS = f"""
SELECT lane, producer_id, first_seq + unnest(range(count)) AS seq, ns AS invoke_ns, {_IN_DOUBT}
FROM reservations
"""
"""Selects a row for every reserved seq; the time of the reservation counts as the time of sending."""
_BEGUN_TRANSACTIONS = f"""
SELECT lane, producer_id, transaction, transactional_id, min(invoke_ns) AS begin_ns, {_IN_DOUBT}
FROM produced JOIN (SELECT DISTINCT lane, producer_id, transactional_id FROM reservations) USING (lane, producer_id)
WHERE transaction IS NOT NULL AND transactional_id IS NOT NULL
GROUP BY ALL
"""
"""Selects a row for every transaction that has records."""


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
    for unfinished in run_directory.glob(UNFINISHED_GLOB):
        shutil.rmtree(unfinished, ignore_errors=True)
    for name in TABLES:
        writer.delete_gathered_parts(run_directory / name)
        for unfinished in (run_directory / name).glob(UNFINISHED_GLOB):
            unfinished.unlink()
    entries = list(reservations_in(journal))
    reservations = pa.Table.from_pylist([entry for entry in entries if "first_seq" in entry], schema=_JOURNAL)
    produced = run_directory / "produced"
    with duckdb.connect() as engine:
        engine.register("reservations", reservations)
        reserved = engine.sql(_RESERVED_RECORDS).to_arrow_table()
        added = _append(produced, ["lane", "producer_id", "seq"], reserved, writer.PRODUCED_SCHEMA)
        if files := [str(path) for path in produced.glob("*.parquet")]:
            engine.register("produced", dataset.dataset(files))
            transactions = engine.sql(_BEGUN_TRANSACTIONS).to_arrow_table()
            key = ["lane", "producer_id", "transaction"]
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
    if rows.num_rows:
        folder.mkdir(exist_ok=True)
        ordered = rows.sort_by([(name, "ascending") for name in key])
        # Columns that the rows lack become null.
        table = pa.concat_tables([schema.empty_table(), ordered], promote_options="default")
        writer.write_parquet(table, folder / f"part-{writer.last_number(folder) + 1:06d}.parquet")
    return int(rows.num_rows)
