"""Reads the statements of this folder: one file each, a comment that says what it yields, a head, and a SELECT.

    -- A consumer read it, the final log lacks it.      the specification
    -- unit: identities                                 what is counted, of an anomaly
    -- row: where it was read first                     what its row in findings/ names
    -- needs: log                                       a table without which it is not judged, beside its family's
    SELECT …

The name of a file is the name of its anomaly, relation, view or fact, its folder the family. docs/anomalies.md has the
first paragraph of each anomaly's specification. A view is computed once, unless it says `keep: no`. Beside views,
statements read the run's tables and documents (`engines/documents.py`). A statement of an anomaly yields its cases:
`lane`, and where known `partition` and `offset` (or both as a struct, `place`), `producer_id` and `seq` (or both as
`record`), `cause`, and `units` (1 unless it says so). The comment of a relation begins with what is wrong with a row of
the table or document that it is `of`; if it yields a row, the anomalies after `rests` cannot be judged. A row
has `lane`, columns that say where, and `n` (1 unless it says so); none, if the first table that it names is empty.
Relations of one source share a file: its rows have a condition for each, named by what is wrong where it holds, with a
comment of its own on what rests on it (or `none`). A statement of defects yields the `number` of each finding that a
known `defect` explains. `:name` stands for a number of `PARAMETERS`, and `RISES(place, value)` for how many of the
values at 32 places are above all at lower places, the first one apart: with an aggregate for each, cheaper than a sort.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise

from kafka_chaos.contract.anomalies import WIDEST_LISTED_GAP

PARAMETERS = {"widest_listed_gap": WIDEST_LISTED_GAP, "slack_ns": 30_000_000_000}
"""`slack_ns`: a broker looks for transactions past their time-out every 10 s; a new coordinator first loads its log."""
VIEWS, FACTS, RELATIONS, DEFECTS = "views", "facts", "relations", "defects"
ANOMALIES = ("records", "transactions", "groups", "shares")
"""The folders of this package."""
_HEAD = re.compile(r"-- (unit|row|needs|keep|of): (.*)")
_SOURCE, NAMED = re.compile(r"\b(?:FROM|JOIN) `?(\w+)"), re.compile(r"\b(\w+) AS \(\n")
"""A table or view that a statement reads, and one that it names itself."""
_PROBLEM = re.compile(r"\bAS `([^`]* [^`]*)`,?(?: -- rests: (.*))?$", re.MULTILINE)
_RISES = re.compile(r"\bRISES\((\w+), (\w+)\)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a file. `needs`: the table without which it is not judged; `kept`: a view that is computed once.

    `tables`: the tables and views that it reads, in its order. `of`: the table or document that a relation is about;
    `problems`: what is wrong with its rows, each with the anomalies that cannot be judged then.
    """

    name: str
    specification: str
    unit: str
    row: str
    tables: tuple[str, ...]
    needs: str
    kept: bool
    of: str
    problems: tuple[tuple[str, Sequence[str]], ...]
    sql: str


@cache
def statements(family: str) -> Mapping[str, Statement]:
    """All statements of a folder, by name."""
    folder = sorted((files(__package__) / family).iterdir(), key=lambda file: file.name)
    return {one.name: one for one in (_parsed(file) for file in folder if file.name.endswith(".sql"))}


@cache
def statement(name: str) -> Statement:
    """The statement of a file beside this one."""
    return _parsed(files(__package__) / f"{name}.sql")


def _parsed(file: Traversable) -> Statement:
    lines = file.read_text("utf-8").splitlines()
    comment = [line for line in lines if line.startswith("--")]
    head = {match[1]: match[2].strip() for line in comment if (match := _HEAD.fullmatch(line))}
    of, _, rests = head.get("of", "").partition("; rests: ")
    sql = "\n".join(lines[len(comment) :])
    specification = "\n".join(line[3:] for line in comment if not _HEAD.fullmatch(line)).strip()
    several = [(problem, own or rests) for problem, own in _PROBLEM.findall(sql)]
    problems = several or [(" ".join(specification.partition("\n\n")[0].split()), rests)]
    resting = [(problem, names.split(", ") if names not in ("", "none") else ()) for problem, names in problems]
    sql = re.sub(" -- rests: .*", "", sql)
    return Statement(
        name=file.name.removesuffix(".sql"),
        specification=specification,
        unit=head.get("unit", ""),
        row=head.get("row", ""),
        tables=tuple(name for name in dict.fromkeys(_SOURCE.findall(sql)) if name not in NAMED.findall(sql)),
        needs=head.get("needs", ""),
        kept=head.get("keep") != "no",
        of=of,
        problems=tuple(resting),
        sql=_RISES.sub(_rises, re.sub(r":([a-z]\w+)", lambda match: str(PARAMETERS[match[1]]), sql)),
    )


def _rises(call: re.Match[str]) -> str:
    place, value = call.groups()
    highest = [f"MAX(CASE WHEN {place} <= {number} THEN {value} END)" for number in range(32)]
    return " + ".join(f"CASE WHEN {second} > {first} THEN 1 ELSE 0 END" for first, second in pairwise(highest))
