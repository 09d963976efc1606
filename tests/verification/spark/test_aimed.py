"""Nobody who writes tables can aim at a hash, a footer, or an identity that is none."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.columns import TABLES, arrow_schema
from kafka_chaos.contract.run_directory import RunDirectoryError
from tests.verification.samples.engines import Verified
from tests.verification.samples.planted_transactions import clean
from tests.verification.samples.run_dirs import rows_of, write_histories


@pytest.mark.usefixtures("everything_forbidden")
def test_a_footer_that_lies_leaves_out_no_marker(tmp_path: Path, verified: Verified) -> None:
    run_dir = write_histories(tmp_path / "run", {"a": clean()[0]})
    expected = verified(run_dir).lanes[0].to_json()
    path = run_dir / "replicas" / "part-00000.parquet"
    written = path.read_bytes()
    footer = int.from_bytes(written[-8:-4], "little") + 8
    assert b"abort" in written[-footer:]
    path.write_bytes(written[:-footer] + written[-footer:].replace(b"abort", b"zzzzz"))
    assert verified(run_dir).lanes[0].to_json() == expected


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


def test_what_carries_no_identity_is_a_phantom_though_produced_names_it(tmp_path: Path, verified: Verified) -> None:
    rows = rows_of(200)
    rows.all(200, -1, producer_id=-1)
    verdict = verified(rows.write(tmp_path / "run"))
    assert {anomaly: verdict.lanes[0].count(anomaly) for anomaly in (Anomaly.PHANTOM, Anomaly.LOST_WRITE)} == {
        Anomaly.PHANTOM: 1,
        Anomaly.LOST_WRITE: 0,
    }
