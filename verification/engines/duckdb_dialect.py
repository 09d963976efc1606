"""Statements of Spark's dialect in DuckDB's: what the two write differently, as far as statements use it.

sqlglot would translate more, and takes half of the time that a small run takes. What is missing here ends as an error
of DuckDB, and every statement is run by the tests.
"""

import re
from functools import cache

SETTINGS = {"default_null_order": "nulls_first_on_asc_last_on_desc"}
MACROS = """
SET enable_progress_bar = false;
CREATE MACRO xxhash64(a, b, c, d) AS CAST(hash(a, b, c, d) >> 1 AS BIGINT);
CREATE MACRO shiftleft(a, b) AS a << b;
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
    """A value, whose fields have the names of their columns, as in Spark; or a type."""
    if found[2]:
        return f"STRUCT({found[2].replace(':', '')})"
    fields = []
    for argument in _ARGUMENT.findall(found[1]):
        value, _, name = argument.strip().partition(" AS ")
        fields.append(f"{name or value.rpartition('.')[2]} := {value}")
    return f"STRUCT_PACK({', '.join(fields)})"
