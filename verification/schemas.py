"""The contract's tables as Spark schemas, and the two intermediate tables that the anomalies are judged on."""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kafka_chaos.contract import columns as contract

_TYPES: dict[str, DataType] = {"string": StringType(), "int32": IntegerType(), "int64": LongType()}


def _schema(columns: tuple[contract.Column, ...]) -> StructType:
    return StructType([StructField(column.name, _TYPES[column.type], True) for column in columns])


PRODUCED = _schema(contract.PRODUCED)
CONSUMED = _schema(contract.CONSUMED)
LOG = _schema(contract.LOG)
REPLICAS = _schema(contract.REPLICAS)
FINDINGS = _schema(contract.FINDINGS)
TRANSACTIONS = _schema(contract.TRANSACTIONS)
ASSIGNMENTS = _schema(contract.ASSIGNMENTS)
COMMITS = _schema(contract.COMMITS)
TABLES = {name: _schema(columns) for name, columns in contract.TABLES.items()}

CASES = StructType([*FINDINGS.fields, StructField("units", LongType(), False)])
"""The result of an anomaly's function: findings rows, with the number of counted units per row."""

IDENTITY = ("lane", "producer_id", "seq")
POSITION = ("lane", "partition", "offset")

PLACE = StructType([StructField("partition", IntegerType()), StructField("offset", LongType())])

OUTCOME_CODES = {"ok": 1, "fail": 2, "info": 3}
"""Outcomes inside Spark: whole numbers aggregate without a sort, strings do not."""

OCCURRENCES = StructType(
    [
        StructField("lane", StringType()),
        StructField("producer_id", IntegerType()),
        StructField("seq", LongType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("outcome", IntegerType()),
        StructField("copies", LongType()),
        StructField("stored_copies", LongType()),
        StructField("acknowledged", BooleanType()),
        StructField("claimed", BooleanType()),
        StructField("read", BooleanType()),
        StructField("in_log", BooleanType()),
        StructField("surfaced", BooleanType()),
        StructField("end_reached", BooleanType()),
        StructField("passed", BooleanType()),
    ]
)
"""One row per identity and position: where a record was sent, read or stored.

`outcome`: of the identity, a code of `OUTCOME_CODES`; null when it was never produced (a phantom).
`copies`: how many rows of produced/ the identity has: more than one is bad input.
`stored_copies`: how many rows of log/ hold it there: more than one is doubled evidence.
`acknowledged`: an `ok` names the position; `claimed`: an `info` names it; `read`: some consumer read it there.
`in_log`: the final log holds it there; without a final log: it was acknowledged or read there.
`surfaced`: the identity was read or is in the log anywhere.
`end_reached`: some consumer read the partition to its end; `passed`: a record at or past this offset was read.
An identity without any position has one row with a null position.
"""

RECORDS = StructType(
    [
        StructField("lane", StringType()),
        StructField("producer_id", IntegerType()),
        StructField("seq", LongType()),
        StructField("outcome", IntegerType()),
        StructField("acknowledged_at", PLACE),
        StructField("acknowledged_stored", BooleanType()),
        StructField("acknowledged_passed", BooleanType()),
        StructField("first_read", PLACE),
        StructField("first_in_log", PLACE),
        StructField("last_in_log", PLACE),
        StructField("due_at", PLACE),
    ]
)
"""One row per produced identity: its outcome, where it was acknowledged, whether the log has it just there
(`acknowledged_stored`) and whether a record at or past that was read (`acknowledged_passed`), its lowest
position in reads, its lowest and highest in the log, and the lowest log position in a partition that some
consumer read to the end, so that a delivery was due (`due_at`). A place is null where there is none.
"""

POLLS = StructType([field for field in CONSUMED.fields if field.name not in {"leader_epoch"}])
"""Reads of produced records, one row per read."""

HIGH_WATERMARKS = StructType(
    [
        StructField("ts_ns", LongType()),
        StructField("lane", StringType()),
        StructField("partition", IntegerType()),
        StructField("leader_epoch", IntegerType()),
        StructField("high_watermark", LongType()),
    ]
)
"""The `high_watermark` events of events.jsonl: the reports of partitions' leaders, in the order of `ts_ns`."""
