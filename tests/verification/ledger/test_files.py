"""Files: what a folder holds is read, a known by-product, or named; and every row counts once."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.verification import RunDirectoryError, verify
from tests.verification.ledger.evidence import reasons, with_replicas
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import rows_of


@pytest.mark.parametrize("name", ["run[1]", "run{a,b}", "run*", "ru?n", "run:1", "run 1%20", "back\\slash"])
def test_a_run_directory_is_read_by_its_very_name(tmp_path: Path, verified: Verified, name: str) -> None:
    rows_of().write(tmp_path / "run1")
    rows_of().write(tmp_path / "runa")
    lossy = rows_of()
    lossy.send(20, 20)
    verdict = verified(lossy.write(tmp_path / name))
    assert verdict.lanes[0].count(Anomaly.LOST_WRITE) == 1
    assert verdict.verdict == Verdict.VIOLATION


@pytest.mark.parametrize("table", ["consumed", "log"])
def test_a_file_that_is_there_twice(tmp_path: Path, verified: Verified, table: str) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    shutil.copy(run_dir / table / "part-00000.parquet", run_dir / table / "copy.parquet")
    verdict = verified(run_dir)
    assert verdict.verdict == Verdict.UNKNOWN
    assert f"{table}/part-00000.parquet is a copy of {table}/copy.parquet" in reasons(verdict)


def test_rows_of_the_log_that_are_there_twice(tmp_path: Path, verified: Verified) -> None:
    rows = rows_of()
    rows.store(7, 7)
    verdict = verified(rows.write(tmp_path / "run"))
    assert (verdict.verdict, reasons(verdict)) == (Verdict.UNKNOWN, "log/ holds 1 rows twice")


def damaged(folder: Path) -> Path:
    """A run with a file that has a whole footer and damaged pages."""
    run_dir = rows_of(2000).write(folder, files=2)
    file = run_dir / "produced" / "part-00001.parquet"
    content = bytearray(file.read_bytes())
    content[4:2000] = bytes(1996)
    file.write_bytes(content)
    return run_dir


def test_a_damaged_file_is_refused(tmp_path: Path, verified: Verified) -> None:
    run_dir = damaged(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match=r"part-00001\.parquet: can't be read"):
        verified(run_dir)
    assert not (run_dir / "verdict.json").exists()


@pytest.mark.slow
@pytest.mark.spark
def test_settings_of_the_session_hide_nothing(tmp_path: Path, spark: Any) -> None:
    run_dir = damaged(tmp_path / "run")
    session = spark.newSession()
    for key in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        session.conf.set(key, "true")
    with pytest.raises(RunDirectoryError, match=r"part-00001\.parquet: can't be read"):
        verify(run_dir, spark=session)
    assert not (run_dir / "verdict.json").exists()


@pytest.mark.parametrize("table", ["log", "replicas"])
@pytest.mark.parametrize("nested", [True, False])
def test_an_empty_or_nested_table_is_not_taken_for_none(
    tmp_path: Path, verified: Verified, table: str, nested: bool
) -> None:
    run_dir = with_replicas(rows_of()).write(tmp_path / "run")
    if nested:
        (run_dir / table / "lane=a").mkdir()
        (run_dir / table / "part-00000.parquet").rename(run_dir / table / "lane=a" / "part-00000.parquet")
    else:
        (run_dir / table / "part-00000.parquet").unlink()
    verdict = verified(run_dir)
    assert verdict.verdict == Verdict.UNKNOWN
    assert f"{table}/" in reasons(verdict)


@pytest.mark.parametrize(
    ("table", "column"), [("produced", "lane"), ("consumed", "seq"), ("consumed", "poll_ns"), ("log", "offset")]
)
def test_nulls_in_a_file_without_statistics(tmp_path: Path, verified: Verified, table: str, column: str) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    file = run_dir / table / "part-00000.parquet"
    rows = pq.read_table(file)
    values = rows.column(column).to_pylist()
    values[3] = None
    index = rows.column_names.index(column)
    rows = rows.set_column(index, column, pa.array(values, rows.schema.field(column).type))
    pq.write_table(rows, file, write_statistics=False)
    with pytest.raises(RunDirectoryError, match="1 null values, expected none") as refusal:
        verified(run_dir)
    assert (refusal.value.path, refusal.value.column) == (str(file), column)


def test_files_without_statistics_are_judged(tmp_path: Path, verified: Verified) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    for table in ("produced", "consumed", "log"):
        file = run_dir / table / "part-00000.parquet"
        pq.write_table(pq.read_table(file), file, write_statistics=False)
    assert verified(run_dir).verdict == Verdict.CONFORMS
