"""Histories as DataFrames: the verdicts are those of the same rows in a run directory."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.verification import RunDirectoryError, verify, verify_frames
from tests.verification.samples.mutations import conforming, violating

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLES = ("produced", "consumed", "log", "replicas")


def frames_of(run_dir: Path, spark: Any) -> dict[str, Any]:
    """The tables as views of a catalog, as any table that Spark knows."""
    for name in TABLES:
        if (run_dir / name).exists():
            spark.read.parquet(str(run_dir / name)).createOrReplaceTempView(f"a_{name}")
    return {name: spark.table(f"a_{name}") for name in TABLES if (run_dir / name).exists()}


@pytest.mark.parametrize("kind", ["conforming", "violating"])
def test_frames_are_judged_as_a_run_directory_is(tmp_path: Path, spark: Any, kind: str) -> None:
    rows = conforming() if kind == "conforming" else violating()
    run_dir = rows.write(tmp_path / "run", files=2)
    expected = verify(run_dir, engine="duckdb")
    verdict = verify_frames(**frames_of(run_dir, spark), lanes=rows.lanes, metadata=run_dir)
    assert verdict.verdict == expected.verdict == (Verdict.CONFORMS if kind == "conforming" else Verdict.VIOLATION)
    assert [lane.to_json() for lane in verdict.lanes] == [lane.to_json() for lane in expected.lanes]
    assert verdict.tables["log"].rows_as_read == verdict.tables["log"].rows_by_footer == 40


def test_frames_without_metadata_name_what_is_not_judged(tmp_path: Path, spark: Any) -> None:
    rows = conforming()
    run_dir = rows.write(tmp_path / "run")
    frames = frames_of(run_dir, spark)
    verdict = verify_frames(frames["produced"].drop("key"), frames["consumed"], lanes=rows.lanes)
    (lane,) = verdict.lanes
    assert lane.verdict == Verdict.CONFORMS
    assert set(lane.not_judged) > {Anomaly.OFFSET_GAP, Anomaly.REPLICA_DIVERGENCE}


def test_columns_outside_the_contract(tmp_path: Path, spark: Any) -> None:
    rows = conforming()
    frames = frames_of(rows.write(tmp_path / "run"), spark)
    with pytest.raises(RunDirectoryError, match="produced: seq: missing"):
        verify_frames(frames["produced"].drop("seq"), frames["consumed"], lanes=rows.lanes)
    text = frames["consumed"].withColumn("offset", F.col("offset").cast("string"))
    with pytest.raises(RunDirectoryError, match="consumed: offset: has type string, expected bigint"):
        verify_frames(frames["produced"], text, lanes=rows.lanes)
    misnamed = frames["produced"].withColumnRenamed("offset", "offsets")
    with pytest.raises(RunDirectoryError, match="produced: offsets: no such column; is it meant for 'offset'"):
        verify_frames(misnamed, frames["consumed"], lanes=rows.lanes)
    nulled = frames["log"].withColumn("seq", F.lit(None).cast("bigint"))
    with pytest.raises(RunDirectoryError, match="log: seq: 40 null values"):
        verify_frames(frames["produced"], frames["consumed"], nulled, lanes=rows.lanes)
