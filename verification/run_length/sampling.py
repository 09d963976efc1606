"""Reads a small sample of a run's tables, from which `stride` estimates how records advance."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from kafka_chaos.verification.inputs.parquet import first_rows
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.run_length.stride import Sampled

SAMPLED_FILES, SAMPLED_ROWS = 8, 2048


def stored_sample(run: RunDirectory, log: DataFrame) -> Iterator[Sampled]:
    """Rows of the log: seqs by producer."""
    return _sample(run, "log", log, ("lane", "producer_id", "partition", "offset", "seq"))


def read_sample(run: RunDirectory, consumed: DataFrame) -> Iterator[Sampled]:
    """Rows of consumed/: poll times by consumer."""
    return _sample(run, "consumed", consumed, ("lane", "consumer", "partition", "offset", "poll_ns"))


def _sample(run: RunDirectory, name: str, table: DataFrame, columns: tuple[str, ...]) -> Iterator[Sampled]:
    """The first rows of a few files, or of a table that does not come from files, as lane, chain, place and value."""
    files = run.tables[name].files
    if not files:
        yield from (Sampled(*row) for row in table.select(*columns).limit(SAMPLED_FILES * SAMPLED_ROWS).collect())
        return
    few = min(len(files), SAMPLED_FILES)
    for index in range(few):
        yield from (Sampled(*row) for row in first_rows(files[index * len(files) // few], columns, SAMPLED_ROWS))
