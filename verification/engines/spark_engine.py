"""Spark: runs the statements on any master, on Spark Connect, and on tables of any file system that Spark reads.

Guarantee: tables are read under their explicit schemas, from exactly the files that were checked. Names of views are
this engine's own: they meet no view of the session, and are gone with the engine.
"""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.verification.engines.engine import BY_FILE, NamedRow, Row
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.storage import RunPath, listed, remove
from kafka_chaos.verification.spark.tuning import LARGE, SMALL

_SOURCE = re.compile(r"\b(FROM|JOIN) (`?)(\w+)\2")
"""A table in a statement."""
MOST_BROADCAST_ROWS = 200_000
"""A table of so many rows is sent to all tasks as a whole."""
_FIELD_TYPES: dict[str, DataType] = {"string": StringType(), "int32": IntegerType(), "int64": LongType()}
SCHEMAS = {
    name: StructType([StructField(column.name, _FIELD_TYPES[column.type]) for column in columns])
    for name, columns in TABLES.items()
}
"""The contract's tables as Spark schemas."""
_TYPES = {pa.string(): "STRING", pa.int32(): "INT", pa.int64(): "BIGINT"}


class Spark(AbstractContextManager["Spark"]):
    """An engine in a Spark session, with the tables of a run.

    `frames`: tables that take the place of the run's files; `file` is null in their rows.
    """

    def __init__(self, run: RunDirectory, session: SparkSession, frames: Mapping[str, DataFrame] | None = None) -> None:
        self.run = run
        self.session = session
        self._frames = frames or {}
        self._names: dict[str, str] = {}
        self._prefix = f"kafka_chaos_{uuid.uuid4().hex}_"
        # Spark 3.5 neither takes nor gives an Arrow table, and checkpoints at one level of storage only.
        self._is_recent = int(session.version.partition(".")[0]) >= 4

    def __exit__(self, *_: object) -> None:
        for name in self._names.values():
            self.session.catalog.dropTempView(name)

    def read(self) -> None:
        """Read the tables of the run."""
        for name, schema in SCHEMAS.items():
            frame = self._frames.get(name)
            if frame is None:
                frame = self._files(self.run.tables[name].files, schema)
            else:
                frame = frame.withColumn("file", F.lit(None).cast("string"))
            frame = frame.coalesce(1) if self.run.rows < SMALL else frame
            self._add(name + BY_FILE, frame)
            self._add(name, frame.drop("file"))

    def _files(self, files: Sequence[RunPath], schema: StructType) -> DataFrame:
        """The rows of these files. Whatever the session's settings, an unreadable file ends the job."""
        if not files:
            fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
            return self._empty([*fields, ("file", "string")])
        reader = self.session.read.schema(schema)
        reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
        # Spark expands patterns in paths, such as run[1] and run{a,b}.
        paths = [re.sub(r"([\\*?{}\[\]])", r"\\\1", str(file.absolute())) for file in files]
        return reader.parquet(*paths).withColumn("file", F.col("_metadata.file_name"))

    def add(self, name: str, table: pa.Table) -> None:
        fields = ", ".join(f"`{field.name}` {_TYPES[field.type]}" for field in table.schema)
        if not table.num_rows:
            frame = self._empty([(field.name, _TYPES[field.type]) for field in table.schema])
        elif self._is_recent:
            frame = self.session.createDataFrame(table, schema=fields)
        else:
            content = F.lit(json.dumps(table.to_pylist()))
            frame = self.session.range(1).select(F.inline(F.from_json(content, f"ARRAY<STRUCT<{fields}>>")))
        self._add(name, frame.hint("broadcast"))

    def _empty(self, columns: Sequence[tuple[str, str]]) -> DataFrame:
        """A table without rows, of which Spark knows that it has none, and plans nothing for it."""
        return self.session.sql(
            f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS `{name}`' for name, kind in columns)} WHERE FALSE"
        )

    def _add(self, name: str, frame: DataFrame) -> None:
        self._names[name] = self._prefix + name
        frame.createOrReplaceTempView(self._names[name])

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        frame = self._select(sql)
        if keep:
            # A table of its own, without the plan behind it. Of a large run, it is kept on disk: in memory, it would
            # leave too little for everything else.
            on_disk = self.run.rows >= LARGE and self._is_recent
            level = {"storageLevel": StorageLevel.DISK_ONLY} if on_disk else {}
            frame = frame.localCheckpoint(eager=False, **level)
            # This is the job that computes it.
            rows = frame.count()
            if not rows:
                frame = self._empty([(field.name, field.dataType.simpleString()) for field in frame.schema.fields])
            elif rows <= MOST_BROADCAST_ROWS:
                # Spark takes what it computed for as large as what that was made from.
                frame = frame.hint("broadcast")
        self._add(name, frame)

    def has(self, name: str) -> bool:
        return name in self._names

    def rows(self, sql: str) -> list[Row]:
        return [tuple(row) for row in self._select(sql).collect()]

    def named_rows(self, sql: str) -> list[NamedRow]:
        return [row.asDict() for row in self._select(sql).collect()]

    def arrow(self, sql: str) -> pa.Table:
        frame = self._select(sql)
        if self._is_recent:
            return frame.toArrow()
        kinds = {kind.lower(): of_arrow for of_arrow, kind in _TYPES.items()}
        schema = pa.schema([(field.name, kinds[field.dataType.simpleString()]) for field in frame.schema.fields])
        return pa.Table.from_pylist([row.asDict() for row in frame.collect()], schema=schema)

    def columns(self, sql: str) -> Sequence[str]:
        return self._select(sql).columns

    def write(self, sql: str, folder: RunPath) -> None:
        self._select(sql).write.parquet(str(folder.absolute()))
        # Hadoop's local file system leaves checksums behind.
        for leftover in listed(folder, ".*.crc"):
            remove(leftover)

    def _select(self, sql: str) -> DataFrame:
        own = _SOURCE.sub(lambda source: f"{source[1]} {self._names.get(source[3], source[3])}", sql)
        return self.session.sql(own)
