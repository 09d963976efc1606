"""The tables that a load writes, each with a writer of its own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.groups.rows import GroupTables
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import HistoryWriter


class LoadTables:
    """The writers of the tables of these lanes; those that no lane needs are None."""

    def __init__(self, run_directory: Path, lanes: Iterable[LaneSpec]) -> None:
        lanes = tuple(lanes)
        self.run_directory = run_directory
        has_transactions = any(lane.transactional is not None for lane in lanes)
        has_groups = any(lane.group is not None or lane.loop is not None for lane in lanes)

        def writer(name: str, needed: bool) -> HistoryWriter | None:
            return HistoryWriter(run_directory / name) if needed else None

        self.produced = HistoryWriter(run_directory / "produced")
        self.consumed = HistoryWriter(run_directory / "consumed")
        self.transactions = writer("transactions", has_transactions)
        self.assignments = writer("assignments", has_transactions or has_groups)
        self.commits = writer("commits", has_groups)

    def of_groups(self, reservations: Reservations | None = None) -> GroupTables | None:
        """The buffers of rows that groups share, see there; None where no lane has transactions or a group."""
        if self.assignments is None:
            return None
        return GroupTables(
            produced=self.produced,
            consumed=self.consumed,
            assignments=self.assignments,
            commits=self.commits,
            transactions=self.transactions,
            reservations=reservations,
        )

    def close(self) -> None:
        """Write the remaining rows of all, also if one of them fails."""
        with ExitStack() as stack:
            for table in (self.consumed, self.produced, self.transactions, self.assignments, self.commits):
                if table is not None:
                    stack.callback(table.close)
