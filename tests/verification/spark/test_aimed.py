"""Nobody who writes tables can aim at a hash, a footer, or an identity that is none."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.columns import TABLES, arrow_schema
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification import verify
from kafka_chaos.verification.schemas import REPLICAS
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.tables.evidence import read_files, tuned
from kafka_chaos.verification.tables.scope import Method
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import rows_of


def test_hashes_have_a_salt_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = blocks.hashed("lane", "seq")
    monkeypatch.setattr(blocks, "_SALT", 7)
    assert blocks.hashed("lane", "seq") == "xxhash64(7L, lane, seq)" != first


@pytest.mark.spark
def test_a_footer_that_lies_leaves_out_no_row(tmp_path: Path, spark: Any) -> None:
    row = {"lane": "a", "partition": 0, "broker": 1, "offset": 0, "leader_epoch": 0, "producer_id": 0, "seq": 0}
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.Table.from_pylist([{**row, "kind": "commit"}] * 9, schema=arrow_schema(TABLES["replicas"])), path)
    written = path.read_bytes()
    footer = int.from_bytes(written[-8:-4], "little") + 8
    assert b"commit" in written[-footer:]
    path.write_bytes(written[:-footer] + written[-footer:].replace(b"commit", b"aaaaaa"))
    assert pq.read_metadata(path).row_group(0).column(8).statistics.max == "aaaaaa"
    with tuned(spark, 9):
        assert read_files(spark, [path], REPLICAS).where("kind IN ('commit', 'abort')").count() == 9


@pytest.mark.parametrize(("table", "column"), [("produced", "invoke_ns"), ("consumed", "offset"), ("log", "offset")])
def test_a_footer_that_lies_hides_no_null(tmp_path: Path, verified: Verified, table: str, column: str) -> None:
    rows = rows_of(100)
    path = rows.write(tmp_path / "run") / table / "part-00000.parquet"
    content = pa.table(pq.read_table(path).to_pydict() | {column: [None] * 77 + [5] * 23})
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(TABLES[table])])
    pq.write_table(content.select(schema.names).cast(schema), path)
    written = path.read_bytes()
    footer = int.from_bytes(written[-8:-4], "little") + 8
    # 77 and 0 as Thrift writes them, in as many bytes.
    path.write_bytes(written[:-footer] + written[-footer:].replace(b"\x9a\x01", b"\x80\x00"))
    with pytest.raises(RunDirectoryError, match=f"{column}: 77 null values, expected none"):
        verified(tmp_path / "run")


@pytest.mark.spark
@pytest.mark.parametrize("method", Method)
def test_what_carries_no_identity_is_a_phantom_though_produced_names_it(
    tmp_path: Path, spark: Any, method: Method
) -> None:
    rows = rows_of(200)
    rows.all(200, -1, producer_id=-1)
    verdict = verify(rows.write(tmp_path / "run"), spark=spark, method=method)
    assert {anomaly: verdict.lanes[0].count(anomaly) for anomaly in (Anomaly.PHANTOM, Anomaly.LOST_WRITE)} == {
        Anomaly.PHANTOM: 1,
        Anomaly.LOST_WRITE: 0,
    }
