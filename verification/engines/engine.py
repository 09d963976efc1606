"""The protocol of an engine that runs statements, and views in the order in which they need each other."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from kafka_chaos.verification.inputs.storage import RunPath
from kafka_chaos.verification.statements.library import VIEWS, statements

Row = tuple[Any, ...]
NamedRow = dict[str, Any]
BY_FILE = "_by_file"
"""What follows the name of a run's table in that of its twin, which has the name of each row's file (`file`), too."""


class SqlEngine(Protocol):
    """Holds tables and runs statements in Spark's dialect."""

    def add(self, name: str, table: pa.Table) -> None:
        """Add a small table."""

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        """Give the result of a SELECT a name; `keep`: compute it now."""

    def has(self, name: str) -> bool:
        """Whether there is a table or view of this name."""

    def read(self) -> None:
        """Read the run's tables, and their twins (`BY_FILE`). Raises `RunDirectoryError` for an unreadable file."""

    def rows(self, sql: str) -> list[Row]:
        """The rows of a SELECT."""

    def named_rows(self, sql: str) -> list[NamedRow]:
        """The rows of a SELECT, by the names of its columns."""

    def arrow(self, sql: str) -> pa.Table:
        """The rows of a SELECT, as an Arrow table."""

    def write(self, sql: str, folder: RunPath) -> None:
        """Write the rows of a SELECT into a new folder, as Parquet files."""

    def columns(self, sql: str) -> Sequence[str]:
        """The names of the columns of a SELECT."""


def prepare(engine: SqlEngine, tables: Iterable[str]) -> None:
    """Define the views among these tables, and those that they need."""
    for name in tables:
        if not engine.has(name):
            view = statements(VIEWS)[name]
            prepare(engine, view.tables)
            engine.define(name, view.sql, keep=view.kept)
