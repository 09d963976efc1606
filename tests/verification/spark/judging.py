"""Judges all run directories of a folder with the Spark of the interpreter that runs it.

`python judging.py FOLDER INTO [--connect]` writes to INTO, as JSON: run directory → way → verdict or refusal. The ways:
a local path, into which findings/ is written; a URI; DataFrames. What has one planted anomaly is judged as a path only.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from generated_histories import LaneShape, lane_tables, write_run

from kafka_chaos.verification import RunDirectoryError, RunVerdict, verify, verify_frames
from kafka_chaos.verification.inputs.run_directory import open_run
from tests.verification.samples.mutations import conforming, duplicate, hide, null, truncate, violating
from tests.verification.samples.run_dirs import write_histories

PLANTED = "planted-"
TABLES = ("produced", "consumed", "log", "replicas")


def write_runs(folder: Path) -> list[Path]:
    """One conforming run, one for each planted anomaly, large and small ones, and some with damaged files."""
    from tests.verification.detection.test_planted import ALONE, at_stride, valid

    conforming().write(folder / "conforming", files=2)
    violating().write(folder / "violating", files=2)
    for plant in ALONE:
        history = valid()
        plant(history, 70)
        write_histories(folder / f"{PLANTED}{plant.__name__}", {"a": at_stride(history, 3)})
    retried = LaneShape(lane="retried", records=40_000, partitions=2, info_share=0.01, retry_share=0.01)
    scattered = LaneShape(lane="scattered", records=40_000, partitions=8, producers=4, batch=1, retry_share=0.01)
    for shape in (retried, scattered):
        write_run(folder / shape.lane, [lane_tables(shape)])
    for damage in (hide, truncate, duplicate, null):
        damage(conforming().write(folder / damage.__name__, files=2) / "log" / "part-00001.parquet")
    return sorted(folder.iterdir())


def judged(run_dir: Path, spark: Any) -> dict[str, Any]:
    """The outcome of each way, with the same words for the run's place and for all that a session can't name."""
    text = json.dumps(dict(_ways(run_dir, spark))).replace(run_dir.as_uri(), "RUN").replace(str(run_dir), "RUN")
    return dict(json.loads(re.sub(r"/([_.])[\w-]+\.parquet is", r"/\1*.parquet is", text)))


def _ways(run_dir: Path, spark: Any) -> Iterator[tuple[str, Any]]:
    yield "path", _outcome(lambda: verify(run_dir, spark=spark))
    yield "findings", _findings(run_dir)
    if run_dir.name.startswith(PLANTED):
        return
    yield "uri", _outcome(lambda: verify(run_dir.as_uri(), spark=spark, write=False))
    if "refused" not in (opened := _outcome(lambda: _frames(run_dir, spark))):
        yield "frames", opened


def _frames(run_dir: Path, spark: Any) -> RunVerdict:
    lanes = open_run(run_dir).lanes
    frames = {name: spark.read.parquet(str(run_dir / name)) for name in TABLES if (run_dir / name).exists()}
    return verify_frames(**frames, lanes=lanes, metadata=run_dir)


def _outcome(judge: Callable[[], RunVerdict]) -> dict[str, Any]:
    try:
        verdict = judge()
    except RunDirectoryError as refusal:
        return {"refused": str(refusal)}
    return {"verdict": verdict.verdict, "lanes": [lane.to_json() for lane in verdict.lanes]}


def _findings(run_dir: Path) -> list[list[Any]]:
    folder = run_dir / "findings"
    rows = pq.read_table(folder).to_pylist() if folder.exists() else []
    return sorted((list(row.values()) for row in rows), key=str)


def main(folder: Path, into: Path, *, connect: bool) -> None:
    from pyspark.sql import SparkSession

    from kafka_chaos.verification import spark_session

    spark = SparkSession.builder.remote("local[2]").getOrCreate() if connect else spark_session()
    outcomes = {run_dir.name: judged(run_dir, spark) for run_dir in sorted(folder.iterdir())}
    into.write_text(json.dumps({"spark": spark.version, "class": str(type(spark)), "outcomes": outcomes}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), connect="--connect" in sys.argv)
