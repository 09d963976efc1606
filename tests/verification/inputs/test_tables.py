"""Every file in a table's folder is read, a known by-product, or named with the reason why it is not read."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.ledger import FileLedger, TableLedger
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.tables import Table, read_tables
from tests.verification.samples.run_dirs import rows_of


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return rows_of(5).write(tmp_path / "run", files=2)


def test_the_files_of_a_table_with_their_rows(run_dir: Path) -> None:
    tables = read_tables(run_dir)
    assert [file.name for file in tables["log"].files] == ["part-00000.parquet", "part-00001.parquet"]
    assert [table.rows for table in tables.values()] == [5, 5, 5, *[0] * 7]
    assert [table.given for table in tables.values()] == [True, True, True, *[False] * 7]
    assert not any(table.unread for table in tables.values())
    files = (FileLedger(file="log/part-00000.parquet", rows=3), FileLedger(file="log/part-00001.parquet", rows=2))
    assert tables["log"].ledger("log", 4) == TableLedger(files=files, rows_by_footer=5, rows_as_read=4)
    assert Table(given=True, counted=7).rows == 7


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("_late.parquet", "log/_late.parquet is hidden: files whose names begin with _ or . are not read"),
        (".late.parquet", "log/.late.parquet is hidden: files whose names begin with _ or . are not read"),
        ("late.parquet.part", "log/late.parquet.part was never finished"),
        ("late.PARQUET", "log/late.PARQUET is not read: the names of a table's files end with .parquet"),
        ("nested/", "log/nested/ is a folder: what is nested in it is not read"),
        ("nested.parquet/", "log/nested.parquet/ is a folder: what is nested in it is not read"),
        ("_SUCCESS", None),
        ("_committed_12", None),
        (".part-00000.parquet.crc", None),
        ("_metadata", None),
        ("x_SUCCESS", "log/x_SUCCESS is not read: the names of a table's files end with .parquet"),
    ],
)
def test_what_is_not_read_is_named(run_dir: Path, name: str, why: str | None) -> None:
    if name.endswith("/"):
        (run_dir / "log" / name).mkdir()
    else:
        (run_dir / "log" / name).write_bytes(b"")
    table = read_tables(run_dir)["log"]
    assert table.unread == (() if why is None else (why,))
    assert table.rows == 5


@pytest.mark.parametrize(
    "name", ["_SUCCESS", "_committed_1.parquet", "_started_7", "_metadata", ".x.parquet.crc", ".DS_Store"]
)
def test_rows_under_the_name_of_a_by_product_are_refused(run_dir: Path, name: str) -> None:
    path = run_dir / "log" / name
    shutil.copy(run_dir / "log" / "part-00000.parquet", path)
    with pytest.raises(RunDirectoryError, match="is a Parquet file with rows: rename it") as refusal:
        read_tables(run_dir)
    assert refusal.value.path == str(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(RunDirectoryError, match="is a folder: rename it") as refusal:
        read_tables(run_dir)
    assert refusal.value.path == str(path)


def test_a_footer_without_pages_is_a_by_product(run_dir: Path) -> None:
    file = run_dir / "log" / "part-00000.parquet"
    pq.write_metadata(pq.read_metadata(file).schema.to_arrow_schema(), run_dir / "log" / "_common_metadata")
    pq.read_metadata(file).write_metadata_file(run_dir / "log" / "_metadata")
    assert read_tables(run_dir)["log"].unread == ()


def test_a_checksum_names_its_file(run_dir: Path) -> None:
    (run_dir / "log" / ".part-00000.parquet.crc").write_bytes(b"crc")
    assert read_tables(run_dir)["log"].unread == ()
    (run_dir / "log" / "part-00000.parquet").unlink()
    with pytest.raises(RunDirectoryError, match=r"is the checksum of part-00000\.parquet, which is missing"):
        read_tables(run_dir)


@pytest.mark.parametrize("name", ["produced", "consumed"])
def test_a_table_that_is_required(run_dir: Path, name: str) -> None:
    shutil.rmtree(run_dir / name)
    with pytest.raises(RunDirectoryError, match=f"{name}: missing, expected a folder of Parquet files"):
        read_tables(run_dir)
