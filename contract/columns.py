"""The tables of a run directory: every column's name, type and nullability, each stated once.

Everything that reads or writes these tables (recorders, importers, engines, the report) derives its schemas from here.
`docs/meanings.py` says what each column means.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. `type` is string, int32 or int64; a file may lack a nullable column."""

    name: str
    type: str
    nullable: bool = False


def _columns(specification: str) -> tuple[Column, ...]:
    """Columns, each written as NAME TYPE, or as NAME TYPE? if it is nullable."""
    columns = []
    for part in specification.split(","):
        name, kind = part.split()
        columns.append(Column(name, kind.removesuffix("?"), kind.endswith("?")))
    return tuple(columns)


PRODUCED = _columns(
    "lane string, producer_id int32, seq int64, key string?, partition int32?, offset int64?, "
    "invoke_ns int64, complete_ns int64?, outcome string, error string?, transaction int64?, "
    "source_producer_id int32?, source_seq int64?, tombstone int32?"
)
CONSUMED = _columns(
    "lane string, consumer string, partition int32, offset int64, producer_id int32, seq int64, "
    "leader_epoch int32?, poll_ns int64, reading_producer_id int32?, reading_transaction int64?"
)
LOG = _columns("lane string, partition int32, offset int64, producer_id int32, seq int64, key string?")
REPLICAS = _columns(
    "lane string, partition int32, broker int32, offset int64, leader_epoch int32, producer_id int32, seq int64, "
    "producer_epoch int32?, kind string?"
)
TRANSACTIONS = _columns(
    "lane string, producer_id int32, transaction int64, transactional_id string, begin_ns int64, end_ns int64?, "
    "outcome string, error string?, initialised_ns int64?, commit_ns int64?"
)
ASSIGNMENTS = _columns(
    "lane string, group string?, consumer string, member string, generation int32?, partition int32, "
    "isolation string, start_ns int64, end_ns int64?"
)
COMMITS = _columns(
    "lane string, group string, consumer string, partition int32, offset int64, producer_id int32?, "
    "transaction int64?, invoke_ns int64, complete_ns int64?, outcome string, error string?"
)
DELIVERIES = _columns(
    "lane string, group string, member string, partition int32, offset int64, producer_id int32, seq int64, "
    "delivery_count int32, asked_ns int64?, delivered_ns int64, acknowledgement string?, outcome string?, "
    "error string?, invoke_ns int64?, complete_ns int64?"
)
SHARE_STARTS = _columns(
    "lane string, group string, member string, partition int32, offset int64, lag int64?, invoke_ns int64, "
    "complete_ns int64"
)
DEAD_LETTERS = _columns(
    "lane string, partition int32, offset int64, source_group string?, source_partition int32?, "
    "source_offset int64?, producer_id int32?, seq int64?, key string?, delivery_count int32?, cause string?"
)
FINDINGS = _columns(
    "lane string, anomaly string, partition int32?, offset int64?, producer_id int32?, seq int64?, cause string?"
)
TABLES = {
    "produced": PRODUCED,
    "consumed": CONSUMED,
    "log": LOG,
    "replicas": REPLICAS,
    "transactions": TRANSACTIONS,
    "assignments": ASSIGNMENTS,
    "commits": COMMITS,
    "deliveries": DELIVERIES,
    "share_starts": SHARE_STARTS,
    "dead_letters": DEAD_LETTERS,
}
TABLES_OF_TRANSACTIONS = ("transactions", "assignments")
"""A run with a transactional lane must have these tables, as version 2 of lanes.json demands."""
TABLES_OF_GROUPS = ("assignments", "commits")
"""A run with a group or a loop must have these tables, as version 2 of lanes.json demands."""
TABLES_OF_SHARES = ("deliveries", "share_starts")
"""A run with a share group must have these tables, as version 3 of lanes.json demands."""
ALL_TABLES_OF_SHARES = (*TABLES_OF_SHARES, "dead_letters")
"""The tables in which share groups' anomalies are found. Without dead_letters/, dead letters are not judged."""
OUTCOMES = ("ok", "fail", "info")
"""The outcomes of a record for its producer: acknowledged, certainly not written, or unknown."""


def arrow_type(column: Column) -> Any:
    """The column's type in PyArrow. Only this call imports PyArrow."""
    import pyarrow as pa

    return {"string": pa.string, "int32": pa.int32, "int64": pa.int64}[column.type]()


def arrow_schema(columns: tuple[Column, ...], *, without: Collection[str] = ()) -> Any:
    """These columns as a PyArrow schema; `without` names nullable columns that a writer leaves out."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(column.name, arrow_type(column), nullable=column.nullable)
            for column in columns
            if column.name not in without
        ]
    )
