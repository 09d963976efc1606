"""What Spark and DuckDB write differently, and in texts not at all."""

import duckdb
import pytest

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.verification.engines import documents
from kafka_chaos.verification.engines.duckdb_engine import SETTINGS, in_duckdb
from kafka_chaos.verification.statements.library import ANOMALIES, DEFECTS, FACTS, NAMED, RELATIONS, VIEWS, statements


@pytest.mark.parametrize(
    ("spark", "rows"),
    [
        (
            "SELECT STRUCT(x.`a`, COALESCE(x.b, 'n, o') AS c, 1 + 1 AS d) FROM (SELECT 1 AS `a`, NULL AS b) x",
            [(1, "n, o", 2)],
        ),
        ("SELECT CAST(NULL AS STRUCT<a: INT, b: BIGINT>)", [None]),
        (r"SELECT 'it\'s a `b` <=> c DIV \\'", ["it's a `b` <=> c DIV \\"]),
        ("SELECT 7 DIV 2", [3]),
        ("SELECT NULL <=> NULL", [True]),
        ("SELECT EXPLODE(SEQUENCE(2, 4))", [2, 3, 4]),
        ("SELECT a FROM (SELECT 1 AS a) x LEFT SEMI JOIN (SELECT 1 AS b) y ON a = b", [1]),
        ("SELECT a FROM (SELECT 1 AS a) x LEFT ANTI JOIN (SELECT 1 AS b) y ON a = b", []),
        ("SELECT LAST_VALUE(a) IGNORE NULLS OVER (ORDER BY b) FROM (SELECT 1 AS a, 2 AS b) x", [1]),
        ("SELECT a FROM (SELECT 1 AS a UNION SELECT NULL) x ORDER BY a", [None, 1]),
        ("SELECT a FROM (SELECT 1 AS a UNION SELECT NULL) x ORDER BY a DESC", [1, None]),
    ],
)
def test_duckdb_gives_what_spark_gives(spark: str, rows: list[object]) -> None:
    with duckdb.connect(config=dict(SETTINGS)) as connection:
        found = [row[0] for row in connection.execute(in_duckdb(spark)).fetchall()]
    assert [tuple(row.values()) if isinstance(row, dict) else row for row in found] == rows


def test_what_a_statement_names_has_no_table_s_name() -> None:
    """Spark replaces the names of tables by its own, wherever they stand."""
    families = {family: statements(family) for family in (VIEWS, FACTS, RELATIONS, DEFECTS, *ANOMALIES)}
    tables = {*TABLES, *documents.SCHEMAS, *families[VIEWS], "cycles", "cases", "findings"}
    named = {
        (statement.name, name)
        for of_family in families.values()
        for statement in of_family.values()
        for name in NAMED.findall(statement.sql)
    }
    assert not {(statement, name) for statement, name in named if name in tables}
