"""DuckDB judges a run directory with the oracle beside it, at night Spark as well; all have to agree."""

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pytest

from kafka_chaos.verification import RunDirectoryError, RunVerdict, by_statements, verify
from kafka_chaos.verification.by_statements import Examined
from kafka_chaos.verification.engines.duckdb_engine import DuckDb
from kafka_chaos.verification.engines.engine import SqlEngine
from kafka_chaos.verification.inputs.run_directory import RunDirectory, open_run
from tests.parquet import rows_in
from tests.verification.oracle import engine as oracle

ENGINES = ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
"""DuckDB by day; at night Spark, too."""


class Verified(Protocol):
    """`verify` by whichever engine."""

    def __call__(self, run_dir: Path, **options: Any) -> RunVerdict: ...


def verified_by_duckdb(run_dir: Path, *, filtered_too: bool = True, **options: Any) -> RunVerdict:
    """The verdict by DuckDB, with the facts and findings of the oracle; if there are any, filtered first, too.

    `filtered_too`: a run that is examined once more costs half a second, and the tests of a day examine a thousand.
    """
    examined: list[tuple[Examined, list[dict[str, Any]]]] = []
    examine = by_statements.examine

    def recorded(engine: SqlEngine, run: RunDirectory) -> Examined:
        with TemporaryDirectory() as folder:
            found = examine(engine, run)
            found.write(Path(folder))
            examined.append((found, rows_in(Path(folder))))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_statements, "examine", recorded)
        verdict = verify(run_dir, engine="duckdb", **options)
    run = open_run(run_dir)
    expected, rows = oracle.examine(run)
    if rows and filtered_too:
        with DuckDb(run) as engine, pytest.MonkeyPatch.context() as patch:
            patch.setattr(by_statements, "FILTERED_FROM", 0)
            recorded(engine, run)
    for by_duckdb, found in examined:
        assert by_duckdb.facts == expected.facts
        assert by_duckdb.observed == expected.observed
        assert by_duckdb.of_groups == expected.of_groups
        assert sorted(str(tuple(row.values())) for row in found) == sorted(map(str, rows))
    return verdict


def verified_by_both(run_dir: Path, *, spark: Any, **options: Any) -> RunVerdict:
    """The same verdict, after Spark has given it, with the same findings, or has refused with the same words."""
    assert_both_agree(run_dir, spark=spark, **options)
    return verified_by_duckdb(run_dir, **options)


def assert_both_agree(run_dir: Path, *, spark: Any, **options: Any) -> None:
    """Spark and DuckDB give the same verdict with the same findings, or refuse with the same words."""
    expected = _told(run_dir, engine="duckdb", **options)
    assert _told(run_dir, spark=spark, **options) == expected


def counted(verdict: RunVerdict) -> Counter[str]:
    """How often each anomaly was found in all lanes."""
    counts: Counter[str] = Counter()
    for lane in verdict.lanes:
        counts.update({str(anomaly): seen.count for anomaly, seen in lane.observed.items()})
    return counts


def found_by_both(run_dir: Path, *, spark: Any) -> Counter[str]:
    """What both engines find, alike."""
    return counted(verified_by_both(run_dir, spark=spark))


def _told(run_dir: Path, **options: Any) -> str | tuple[dict[str, Any], list[str]]:
    """A refusal; or the content of verdict.json and of findings/."""
    try:
        verdict = verify(run_dir, **options)
    except RunDirectoryError as error:
        return str(error)
    # Engines differ in nothing but their names.
    document = {name: value for name, value in verdict.to_json().items() if name != "engine"}
    return json.loads(json.dumps(document)), sorted(map(str, rows_in(run_dir / "findings")))
