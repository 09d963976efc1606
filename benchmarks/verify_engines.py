"""Whether both engines, Spark and DuckDB, give the same verdict and the same findings for run directories of real runs.

usage: verify_engines.py DIR…

Each directory is judged as it is and in spoilt copies: without its log, without its replicas, without the second half
of the largest file of produced/, of consumed/ and of log/, and with a thousand rows of log/ twice. Prints a line for
each, with the seconds that either engine took in one process. Exits with 1 if they differ anywhere.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification import verify


def without(table: str) -> Callable[[Path], None]:
    return lambda run_dir: shutil.rmtree(run_dir / table, ignore_errors=True)


def halved(table: str) -> Callable[[Path], None]:
    return lambda run_dir: rewrite(run_dir / table, lambda rows: rows.slice(0, rows.num_rows // 2))


def doubled(run_dir: Path) -> None:
    rewrite(run_dir / "log", lambda rows: pa.concat_tables([rows, rows.slice(0, 1000)]))


def rewrite(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the largest file of a table: others may be empty."""
    file = max(sorted(folder.glob("*.parquet")), key=lambda path: pq.read_metadata(path).num_rows)
    pq.write_table(change(pq.read_table(file)), file)


SPOILT: dict[str, Callable[[Path], None]] = {
    "as it is": lambda _: None,
    "no log": without("log"),
    "no replicas": without("replicas"),
    "half of produced": halved("produced"),
    "half of consumed": halved("consumed"),
    "half of log": halved("log"),
    "doubled rows": doubled,
}


def told(run_dir: Path, engine: str) -> tuple[object, float]:
    """A refusal; or verdict.json and findings/. And the seconds."""
    try:
        verdict = verify(run_dir, engine=engine)
    except RunDirectoryError as error:
        return str(error), 0.0
    document: dict[str, Any] = verdict.to_json()
    del document["engine"]
    rows = [str(row) for file in (run_dir / "findings").iterdir() for row in pq.read_table(file).to_pylist()]
    return (str(verdict.verdict), document, sorted(rows)), verdict.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="DIR")
    differ = 0
    for run_dir in parser.parse_args().run_dirs:
        for name, spoil in SPOILT.items():
            with tempfile.TemporaryDirectory(prefix="kafka-chaos-engines-") as scratch:
                copy = shutil.copytree(run_dir, Path(scratch) / "run")
                spoil(copy)
                (duckdb, duckdb_s), (spark, spark_s) = told(copy, "duckdb"), told(copy, "spark")
            same = duckdb == spark
            differ += not same
            verdict = duckdb[0] if isinstance(duckdb, tuple) else f"refused: {duckdb}"
            took = f"DuckDB {duckdb_s:.1f} s, Spark {spark_s:.1f} s"
            print(f"{run_dir.name}, {name}: {'same' if same else 'DIFFERENT'}, {verdict}; {took}", flush=True)
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
