"""Checks the tables of a run directory: every column's name, type and nullability.

Guarantee: Spark can read a file that passes `check_parquet` under its explicit schema (`spark_engine.SCHEMAS`), without
a silent null column, a silent cast or a late failure. Every other file is refused, with file and column.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract.columns import TABLES, Column, arrow_schema
from kafka_chaos.contract.command.errors import first_line
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.storage import RunPath

if TYPE_CHECKING:
    import pyarrow as pa

_PHYSICAL = {"string": "BYTE_ARRAY", "int32": "INT32", "int64": "INT64"}


def check_parquet(path: RunPath, table: str) -> int:
    """Check one Parquet file's footer against the contract of `table`; how many rows it says there are.

    Raises `RunDirectoryError` for a truncated file, a missing, misnamed or unknown column, and a wrong type. Nulls in a
    column that may hold none are refused by the rows (`engines.refusals`), since footers need not count them.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        with path.open("rb") as binary, pq.ParquetFile(binary) as file:
            metadata = file.metadata
    except (ArrowException, OSError, ValueError) as error:
        raise RunDirectoryError(path, f"not a whole Parquet file ({first_line(error)[:200]})") from error
    found = {metadata.schema.column(i).path: metadata.schema.column(i) for i in range(metadata.num_columns)}
    _check_names(path, table, list(found))
    for column in TABLES[table]:
        if column.name in found:
            _check_type(path, column, found[column.name])
    return int(metadata.num_rows)


def batches_of(files: Sequence[RunPath], columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The rows of local Parquet files, as batches of `columns`; a column that a file lacks is null.

    Raises `RunDirectoryError` for a file whose pages can't be read, or with a text that is not UTF-8.
    """
    from pyarrow import ArrowException, dataset, fs

    schema, local = arrow_schema(tuple(columns)), fs.LocalFileSystem()
    for path in files:
        name = None
        try:
            for batch in dataset.dataset(str(path), schema, format="parquet", filesystem=local).to_batches():
                for name in schema.names:
                    batch.column(name).validate(full=True)
                name = None
                yield batch
        except (ArrowException, OSError) as error:
            why = "can't be read, expected a whole Parquet file" if name is None else "holds a text that is not UTF-8"
            raise RunDirectoryError(path, why, column=name) from error


def _check_names(path: RunPath, table: str, found: list[str]) -> None:
    names = [column.name for column in TABLES[table]]
    unknown = [name for name in found if name not in names]
    missing = [column for column in TABLES[table] if column.name not in found]
    for column in missing:
        if not column.nullable:
            close = difflib.get_close_matches(column.name, unknown, n=1, cutoff=0.5)
            hint = f"; is {close[0]!r} meant for it?" if close else ""
            raise RunDirectoryError(
                path, f"missing, expected {column.type} in every file of {table}/{hint}", column=column.name
            )
    if unknown and missing:
        # Otherwise, a misnamed nullable column would read as all null, and its evidence would be lost silently.
        close = difflib.get_close_matches(unknown[0], [column.name for column in missing], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        known = ", ".join(names)
        raise RunDirectoryError(path, f"not a column of {table}/ ({known}){hint}", column=unknown[0])


def _check_type(path: RunPath, column: Column, found: Any) -> None:
    logical = found.logical_type.type
    fits = found.physical_type == _PHYSICAL[column.type] and found.max_repetition_level == 0
    if column.type == "string":
        fits = fits and logical in {"STRING", "ENUM"}
    else:
        width = 32 if column.type == "int32" else 64
        plain = logical == "NONE"
        signed = logical == "INT" and f'"bitWidth": {width}' in found.logical_type.to_json()
        fits = fits and (plain or (signed and '"isSigned": true' in found.logical_type.to_json()))
    if not fits:
        shown = found.physical_type if logical == "NONE" else f"{found.physical_type} ({found.logical_type})"
        raise RunDirectoryError(path, f"has type {shown}, expected {column.type}", column=column.name)
