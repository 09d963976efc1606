"""DuckDB: runs the statements inside this process, without Java.

Guarantee: it takes at most `SHARE_OF_MEMORY` of the memory, then spills into a folder that is removed with the engine.

Statements are in Spark's dialect. What DuckDB writes differently is translated here, as far as statements use it:
sqlglot would translate more, and takes half of the time that a small run takes. What is missing ends as an error of
DuckDB, and every statement is run by the tests.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import FINDINGS, TABLES, Column, arrow_schema
from kafka_chaos.verification.engines.engine import BY_FILE, NamedRow, Row
from kafka_chaos.verification.inputs.parquet import batches_of
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.storage import RunPath

SETTINGS = {"default_null_order": "nulls_first_on_asc_last_on_desc", "autoinstall_known_extensions": "false"}
MACROS = """
SET enable_progress_bar = false;
CREATE MACRO xxhash64(a, b, c, d) AS CAST(hash(a, b, c, d) >> 1 AS BIGINT);
CREATE MACRO shiftleft(a, b) AS a << b;
CREATE MACRO shiftright(a, b) AS a >> b;
"""
"""Functions of Spark that DuckDB lacks. Its bar of progress would be among the lines of standard output."""
_WORDS = {
    "LEFT SEMI JOIN": "SEMI JOIN",
    "LEFT ANTI JOIN": "ANTI JOIN",
    ") IGNORE NULLS": " IGNORE NULLS)",
    "<=>": "IS NOT DISTINCT FROM",
    " DIV ": " // ",
    "EXPLODE(SEQUENCE(": "UNNEST(GENERATE_SERIES(",
    "MONOTONICALLY_INCREASING_ID()": "ROW_NUMBER() OVER ()",
}
_PIECE = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|" + "|".join(map(re.escape, _WORDS)), re.DOTALL)
_STRUCT = re.compile(r"\bSTRUCT(?:\(((?:[^()]|\([^()]*\))*)\)|<([^>]*)>)")
_ARGUMENT = re.compile(r"(?:[^,()]|\([^()]*\))+")


@cache
def in_duckdb(sql: str) -> str:
    """A statement of Spark's dialect in DuckDB's."""
    return _STRUCT.sub(_struct, _PIECE.sub(_piece, sql))


def _piece(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("'"):
        return "'" + re.sub(r"\\(.)", r"\1", text[1:-1]).replace("'", "''") + "'"
    return _WORDS.get(text) or '"' + text[1:-1] + '"'


def _struct(found: re.Match[str]) -> str:
    """DuckDB's form of a struct: of a value, whose fields get the names of their columns as in Spark, or of a type."""
    if found[2]:
        return f"STRUCT({found[2].replace(':', '')})"
    fields = []
    for argument in _ARGUMENT.findall(found[1]):
        value, _, name = argument.strip().partition(" AS ")
        fields.append(f"{name or value.rpartition('.')[2]} := {value}")
    return f"STRUCT_PACK({', '.join(fields)})"


SHARE_OF_MEMORY = 0.6
MOST_LOADED = 5_000_000
"""A run of up to so many rows is loaded; of a larger one, every statement reads the columns that it needs."""
ONE_THREAD = 300_000
"""Below so many rows, more threads take a fifth more of the processors, and no less time."""
_TYPES = {"string": "VARCHAR", "int32": "INTEGER", "int64": "BIGINT"}
_COLUMNS: dict[str, Sequence[str]] = {}
"""The columns of each statement, which are the same for every run: to ask for them takes a tenth of a small run."""


class DuckDb(AbstractContextManager["DuckDb"]):
    """An engine in this process, with the tables of a run."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._folder = tempfile.mkdtemp(prefix="kafka-chaos-duckdb-")
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limits = {"memory_limit": f"{int(total * SHARE_OF_MEMORY) >> 20}MB", "temp_directory": self._folder}
        threads = {"threads": "1"} if run.rows < ONE_THREAD else {}
        self._connection = duckdb.connect(":memory:", config={**SETTINGS, **limits, **threads})
        self._connection.execute(MACROS)
        self._names: set[str] = set()

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def read(self) -> None:
        """Read the tables of the run. Raises `RunDirectoryError` for a file that can't be read."""
        kind = "TABLE" if self.run.rows <= MOST_LOADED else "VIEW"
        if kind == "VIEW":
            self._believe_no_footer()
        for name, columns in TABLES.items():
            try:
                selected, file, source = self._parts(name, columns)
                self._connection.execute(f"CREATE {kind} {name} AS SELECT {selected} {source}")
                self._connection.execute(f"CREATE VIEW {name}{BY_FILE} AS SELECT {selected}, {file} AS file {source}")
            except duckdb.Error:
                # PyArrow names the file that is broken.
                for _ in batches_of(self.run.tables[name].files, columns):
                    pass
                raise
            self._names.add(name)

    def _believe_no_footer(self) -> None:
        """Look for nulls in files though a footer says that there are none; of a loaded table, DuckDB knows itself."""
        self._connection.execute("SET disabled_optimizers = 'statistics_propagation'")

    def _parts(self, name: str, columns: Sequence[Column]) -> tuple[str, str, str]:
        """A SELECT of a run's table: its columns, the name of a row's file, and what follows them."""
        there, file, source = set[str](), "NULL", "WHERE FALSE"
        if files := [str(file) for file in self.run.tables[name].files]:
            file, source = "parse_filename(filename)", f"FROM {parquet(files)}"
            there = {row[0] for row in self._connection.execute(f"DESCRIBE SELECT * {source}").fetchall()}
        return selected(columns, there), file, source

    def add(self, name: str, table: pa.Table) -> None:
        self._connection.from_arrow(table).create(name)
        self._names.add(name)

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        self._connection.execute(f'CREATE {"TABLE" if keep else "VIEW"} "{name}" AS {in_duckdb(sql)}')
        self._names.add(name)

    def has(self, name: str) -> bool:
        return name in self._names

    def rows(self, sql: str) -> list[Row]:
        if BY_FILE in sql:
            self._believe_no_footer()
        return self._connection.execute(in_duckdb(sql)).fetchall()

    def named_rows(self, sql: str) -> list[NamedRow]:
        selected = self._connection.execute(in_duckdb(sql))
        names = [column[0] for column in selected.description or ()]
        return [dict(zip(names, row, strict=True)) for row in selected.fetchall()]

    def arrow(self, sql: str) -> pa.Table:
        return self._connection.sql(in_duckdb(sql)).to_arrow_table()

    def columns(self, sql: str) -> Sequence[str]:
        if sql not in _COLUMNS:
            _COLUMNS[sql] = [row[0] for row in self._connection.execute(f"DESCRIBE {in_duckdb(sql)}").fetchall()]
        return _COLUMNS[sql]

    def write(self, sql: str, folder: RunPath) -> None:
        if not folder.is_dir():
            folder.mkdir()
        pq.write_table(self.arrow(sql).cast(arrow_schema(FINDINGS)), str(folder / "part-00000.parquet"))


def parquet(files: Iterable[str]) -> str:
    """The rows of these files, each with its `filename`, for a FROM. Nothing in a file's name is a pattern."""
    listed = ", ".join("'" + re.sub(r"[*?\[]", r"[\g<0>]", file).replace("'", "''") + "'" for file in files)
    return f"read_parquet([{listed}], union_by_name = true, filename = true, hive_partitioning = false)"


def selected(columns: Iterable[Column], there: Collection[str]) -> str:
    """These columns for a SELECT; a column that is not `there` is null."""
    values = {column.name: f'"{column.name}"' if column.name in there else "NULL" for column in columns}
    return ", ".join(f'CAST({values[of.name]} AS {_TYPES[of.type]}) AS "{of.name}"' for of in columns)
