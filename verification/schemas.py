"""The contract's tables as Spark schemas, and the two intermediate tables that the anomalies are judged on."""

from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StringType, StructField, StructType

from kafka_chaos.contract import columns as contract

PLACE = StructType([StructField("partition", IntegerType()), StructField("offset", LongType())])

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "boolean": BooleanType(),
    "place": PLACE,
}


def schema(columns: str) -> StructType:
    """The columns that a text names with their types, such as `lane string, partition int32, at place`."""
    named = (column.split() for column in columns.split(","))
    return StructType([StructField(name, _TYPES[kind]) for name, kind in named])


def _schema(columns: tuple[contract.Column, ...]) -> StructType:
    return schema(", ".join(f"{column.name} {column.type}" for column in columns))


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

OUTCOME_CODES = {"ok": 1, "fail": 2, "info": 3}
"""Outcomes inside Spark: whole numbers aggregate without a sort, strings do not."""

OCCURRENCES = schema(
    "lane string, producer_id int32, seq int64, partition int32, offset int64, outcome int32, copies int64, "
    "stored_copies int64, acknowledged boolean, claimed boolean, read boolean, in_log boolean, surfaced boolean, "
    "end_reached boolean, passed boolean"
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

RECORDS = schema(
    "lane string, producer_id int32, seq int64, outcome int32, acknowledged_at place, acknowledged_stored boolean, "
    "acknowledged_passed boolean, first_read place, first_in_log place, last_in_log place, due_at place"
)
"""One row per produced identity: its outcome, where it was acknowledged, whether the log has it just there
(`acknowledged_stored`) and whether a record at or past that was read (`acknowledged_passed`), its lowest
position in reads, its lowest and highest in the log, and the lowest log position in a partition that some
consumer read to the end, so that a delivery was due (`due_at`). A place is null where there is none.
"""

POLLS = StructType([field for field in CONSUMED.fields if field.name not in {"leader_epoch"}])
"""Reads of produced records, one row per read."""

HIGH_WATERMARKS = schema("ts_ns int64, lane string, partition int32, leader_epoch int32, high_watermark int64")
"""The `high_watermark` events of events.jsonl: the reports of partitions' leaders, in the order of `ts_ns`."""
