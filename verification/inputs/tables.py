"""The files of a run directory's tables: which of them Spark reads, and which remain unread.

Guarantee: everything in a table's folder is either read, a known by-product of its writer, or named in `unread`.
Every file that is read has passed `check_parquet`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import SEEK_END

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.ledger import FileLedger, TableLedger
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.reading import digest_of, is_given, opened, size_of
from kafka_chaos.verification.inputs.parquet import check_parquet
from kafka_chaos.verification.inputs.storage import RunPath, listed

REQUIRED_TABLES = ("produced", "consumed")

_BY_PRODUCTS = re.compile(r"_SUCCESS|_committed_.*|_started_.*|_metadata|_common_metadata|\..*\.crc|\.DS_Store")
"""Files that Spark, Databricks and macOS leave in a table's folder."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table's files in the order of their names, with how many rows their footers say there are.

    `unread`: sentences that name files that are not read, or that occur twice. `given`: whether the run has the table.
    `counted`: the rows of a table that is not a folder of files.
    """

    files: tuple[RunPath, ...] = ()
    footers: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()
    given: bool = False
    counted: int = 0

    @property
    def rows(self) -> int:
        """The rows of all files, by footer."""
        return self.counted + sum(self.footers)

    def ledger(self, name: str, rows_as_read: int) -> TableLedger:
        """The table's entry of the ledger."""
        found = zip(self.files, self.footers, strict=True)
        files = tuple(FileLedger(file=f"{name}/{file.name}", rows=rows) for file, rows in found)
        return TableLedger(files=files, rows_by_footer=self.rows, rows_as_read=rows_as_read)


def read_tables(root: RunPath) -> Mapping[str, Table]:
    """All tables of the run directory; `RunDirectoryError` for a missing one that is required, or a bad file."""
    for name in REQUIRED_TABLES:
        if not (root / name).is_dir():
            raise RunDirectoryError(root / name, "missing, expected a folder of Parquet files")
    return {name: _read_table(root / name, name) for name in TABLES}


def _read_table(folder: RunPath, name: str) -> Table:
    if not is_given(folder):
        return Table()
    entries = listed(folder, "*") if folder.is_dir() else []
    by_products = [entry for entry in entries if _BY_PRODUCTS.fullmatch(entry.name)]
    for entry in by_products:
        _require_no_rows(entry)
    named = [entry for entry in entries if entry.name.endswith(".parquet") and not entry.name.startswith(("_", "."))]
    files = tuple(entry for entry in named if not entry.is_dir())
    footers = tuple(check_parquet(file, name) for file in files)
    unread = [_why_unread(name, entry) for entry in entries if entry not in (*files, *by_products)]
    unread += [f"{name}/{twin.name} is a copy of {name}/{file.name}" for file, twin in _copies(files, footers)]
    if not files and name not in REQUIRED_TABLES:
        unread.append(f"{name}/ exists, but holds no Parquet file")
    return Table(files, footers, tuple(unread), given=bool(files) or name in REQUIRED_TABLES)


def _require_no_rows(entry: RunPath) -> None:
    """Refuse rows under the name of a by-product, which nobody would read.

    A _metadata is Parquet, too: a footer without pages.
    """
    problem = "looks like what a writer leaves behind, but is {}: rename it so that it is read, or remove it"
    if entry.is_dir():
        raise RunDirectoryError(entry, problem.format("a folder"))
    with opened(entry) as file:
        head = file.read(4)
        size = file.seek(0, SEEK_END)
        file.seek(max(size - 8, 0))
        footer = int.from_bytes(file.read(4), "little")
    if head == b"PAR1" and size > footer + 12:
        raise RunDirectoryError(entry, problem.format("a Parquet file with rows"))
    of = re.fullmatch(r"\.(.*\.parquet)\.crc", entry.name)
    if of is not None and not entry.with_name(of[1]).exists():
        raise RunDirectoryError(entry, f"is the checksum of {of[1]}, which is missing")


def _why_unread(table: str, entry: RunPath) -> str:
    place = f"{table}/{entry.name}"
    if entry.is_dir():
        return f"{place}/ is a folder: what is nested in it is not read"
    if entry.name.endswith(".part"):
        return f"{place} was never finished"
    if entry.name.endswith(".parquet"):
        return f"{place} is hidden: files whose names begin with _ or . are not read"
    return f"{place} is not read: the names of a table's files end with .parquet"


def _copies(files: Sequence[RunPath], footers: Sequence[int]) -> list[tuple[RunPath, RunPath]]:
    """Files that repeat the content of an earlier one; only files of equal size are compared."""
    by_size: dict[int, list[RunPath]] = {}
    for file, rows in zip(files, footers, strict=True):
        if rows:
            by_size.setdefault(size_of(file), []).append(file)
    copies: list[tuple[RunPath, RunPath]] = []
    for size, same_size in by_size.items():
        seen: dict[str, RunPath] = {}
        for file in same_size if len(same_size) > 1 else ():
            original = seen.setdefault(digest_of(file, size), file)
            if original is not file:
                copies.append((original, file))
    return copies
