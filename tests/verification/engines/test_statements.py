"""What the statements may name."""

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.verification.engines import documents
from kafka_chaos.verification.statements.library import ANOMALIES, DEFECTS, FACTS, NAMED, RELATIONS, VIEWS, statements


def test_what_a_statement_names_has_no_table_s_name() -> None:
    """Spark replaces the names of tables by its own, wherever they stand."""
    families = {family: statements(family) for family in (VIEWS, FACTS, RELATIONS, DEFECTS, *ANOMALIES)}
    tables = {*TABLES, *documents.SCHEMAS, *families[VIEWS], "cycles", "cases", "findings"}
    assert not {
        (statement.name, name)
        for of_family in families.values()
        for statement in of_family.values()
        for name in NAMED.findall(statement.sql)
        if name in tables
    }
