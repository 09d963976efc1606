"""The tables that a load writes, each with a writer of its own."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_chaos.contract.columns import TABLES, arrow_schema
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import CONSUMED_SCHEMA, HistoryWriter


class LoadTables:
    """The tables that at least one of the lanes needs, each with its writer, and the journal `reservations`.

    The journal notes at once what would be lost if the harness died.
    """

    def __init__(self, run_directory: Path, lanes: Iterable[LaneSpec] = ()) -> None:
        lanes = tuple(lanes)
        self.run_directory = run_directory
        self._closing = ExitStack()
        has_transactions = any(lane.transactional is not None for lane in lanes)
        has_groups = any(lane.group is not None or lane.loop is not None for lane in lanes)
        has_shares = any(lane.share is not None for lane in lanes)
        is_needed = {"commits": has_groups, "assignments": has_transactions or has_groups}
        is_needed |= {"transactions": has_transactions, "deliveries": has_shares, "share_starts": has_shares}
        is_needed["dead_letters"] = any(lane.dead_letter_topic is not None for lane in lanes)
        names = [name for name in is_needed if is_needed[name]]
        self._tables = {name: self._writer(name, arrow_schema(TABLES[name]), keeps_empty=True) for name in names}
        self.produced = self._writer("produced")
        self.reservations = Reservations(run_directory)
        self._closing.callback(self.reservations.close)
        self.consumed = self._writer("consumed", CONSUMED_SCHEMA)

    def _writer(self, name: str, schema: pa.Schema | None = None, *, keeps_empty: bool = False) -> HistoryWriter:
        writer = HistoryWriter(self.run_directory / name, schema, keeps_empty=keeps_empty)
        self._closing.callback(writer.close)
        return writer

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Add a row to a table, which a lane of the load needs."""
        self._tables[table].add(row)

    def close(self) -> None:
        """Write the remaining rows of all tables, even if one of them fails."""
        self._closing.close()
