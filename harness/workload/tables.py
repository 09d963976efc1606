"""The tables that a load writes, each with a writer of its own."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_chaos.contract.columns import TABLES, arrow_schema
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import CONSUMED_SCHEMA, HistoryWriter, RowBuffer


class LoadTables:
    """The tables of these lanes: the writers of `produced/` and `consumed/`, and a buffer of rows for each other table.

    Tables that no lane needs are None. `single_reads` takes rows of `consumed/` that come one by one. `reservations`:
    the journal of what is noted at once, in case the harness dies.
    """

    def __init__(self, run_directory: Path, lanes: Iterable[LaneSpec] = ()) -> None:
        lanes = tuple(lanes)
        self.run_directory = run_directory
        self._closing = ExitStack()
        has_transactions = any(lane.transactional is not None for lane in lanes)
        has_groups = any(lane.group is not None or lane.loop is not None for lane in lanes)
        self.commits = self._rows("commits", has_groups)
        self.assignments = self._rows("assignments", has_transactions or has_groups)
        self.transactions = self._rows("transactions", has_transactions)
        has_shares = any(lane.share is not None for lane in lanes)
        self.deliveries = self._rows("deliveries", has_shares)
        self.share_starts = self._rows("share_starts", has_shares)
        self.produced = self._writer("produced")
        self.reservations = Reservations(run_directory)
        self._closing.callback(self.reservations.close)
        self.consumed = self._writer("consumed")
        self.single_reads = RowBuffer(CONSUMED_SCHEMA, self.consumed)

    def _writer(self, name: str, schema: pa.Schema | None = None) -> HistoryWriter:
        writer = HistoryWriter(self.run_directory / name, schema)
        self._closing.callback(writer.close)
        return writer

    def _rows(self, name: str, needed: bool) -> RowBuffer | None:
        schema = arrow_schema(TABLES[name])
        return RowBuffer(schema, self._writer(name, schema)) if needed else None

    def add_transaction(self, row: dict[str, Any]) -> None:
        """Add a row of `transactions/`; some lane has transactions."""
        assert self.transactions is not None
        self.transactions.add(row)

    def close(self) -> None:
        """Write the remaining rows of all, also if one of them fails."""
        self._closing.close()
