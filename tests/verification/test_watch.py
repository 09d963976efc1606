"""Watching a run that goes on: in the end the same losses and duplicates as in batch, from a state that stays small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.verification import verify
from kafka_chaos.verification.generate import LaneShape, lane_tables, write_run
from kafka_chaos.verification.run_directory import open_run
from kafka_chaos.verification.watch import LaneCounts, Watch
from kafka_chaos.verification.watch_cli import watch_command

pytestmark = pytest.mark.spark

SHAPES = [
    LaneShape(lane="clean", records=6000, partitions=2, info_share=0.02, fail_share=0.02),
    LaneShape(lane="lossy", records=6000, partitions=2, producers=2, lost_tail=70, acks="1"),
    LaneShape(lane="retried", records=6000, retry_share=0.05),
]


def grown(run_dir: Path, part: int, parts: int, source: Path) -> None:
    """The share `part` of `parts` of the source's files, in the order in which they were written."""
    for table in ("produced", "log"):
        (run_dir / table).mkdir(parents=True, exist_ok=True)
        files = sorted((source / table).glob("*.parquet"), key=lambda path: path.stem.rsplit("-", 1)[-1])
        for file in files[len(files) * part // parts : len(files) * (part + 1) // parts]:
            (run_dir / table / file.name).write_bytes(file.read_bytes())


def test_counts_are_those_of_batch_though_files_come_one_by_one(tmp_path: Path, spark: Any) -> None:
    lanes = [lane_tables(shape, seed=8) for shape in SHAPES]
    source = write_run(tmp_path / "source", lanes, rows_per_file=1000)
    expected = {lane.lane: lane for lane in verify(source, spark=spark).lanes}
    run_dir, sizes = tmp_path / "run", []
    known = open_run(source).lanes
    for part in range(3):
        grown(run_dir, part, 3, source)
        # A watch of its own each time: it goes on where the one before it ended.
        watch = Watch(spark, run_dir, known, tmp_path / "state", lateness_s=0.0)
        watch.start(once=True).awaitTermination()
        sizes.append(watch.final().open_words)
    final = watch.final()
    for name, seen in final.lanes.items():
        verdict = expected[name]
        assert seen.lost == verdict.count("lost_write"), name  # type: ignore[arg-type]
        assert seen.duplicate == verdict.count("duplicate"), name  # type: ignore[arg-type]
        assert seen.acknowledged == verdict.acknowledged
    assert (final.lanes["lossy"].lost, final.lanes["retried"].duplicate) == (140, 300)
    clean = next(lane for lane in lanes if lane.shape.lane == "clean")
    words = clean.produced["seq"].size // 64
    assert final.open_words < 3 * words, "clean words are closed, so the state is not the history"
    assert sizes[0] < 2 * sizes[-1] + 3 * words


def test_a_copy_that_comes_long_after_its_word_was_closed(tmp_path: Path, spark: Any) -> None:
    shape = LaneShape(lane="a", records=640)
    tables = lane_tables(shape)
    run_dir = write_run(tmp_path / "run", [tables])
    watch = Watch(spark, run_dir, open_run(run_dir).lanes, tmp_path / "state", lateness_s=0.0)
    watch.start(once=True).awaitTermination()
    assert (watch.final().lanes["a"], watch.final().open_words) == (LaneCounts(640, 640, 0, 0), 0)
    late = lane_tables(shape)
    late.log["offset"] = late.log["offset"] + 640
    late.log = {name: column[:5] for name, column in late.log.items()}
    write_run(tmp_path / "late", [late])
    (run_dir / "log" / "late.parquet").write_bytes(next((tmp_path / "late" / "log").glob("*")).read_bytes())
    watch = Watch(spark, run_dir, open_run(run_dir).lanes, tmp_path / "state", lateness_s=0.0)
    watch.start(once=True).awaitTermination()
    assert watch.final().lanes["a"] == LaneCounts(640, 645, 0, 5)
    assert verify(run_dir, spark=spark).lane("a").count("duplicate") == 5  # type: ignore[arg-type]


def test_the_command_tells_and_ends_with_what_is_forbidden(tmp_path: Path, spark: Any) -> None:
    shape = LaneShape(lane="lossy", records=2000, lost_tail=40, acks="1", permitted=("lost_write",))
    run_dir = write_run(tmp_path / "run", [lane_tables(shape)])
    result = CliRunner().invoke(watch_command, [str(run_dir), "--once", "--json", "--lateness", "0"])
    assert result.exit_code == 0, result.output
    final = json.loads(result.stdout.splitlines()[-1])
    assert final["final"] is True
    assert final["lanes"]["lossy"]["lost"] == 40
    (run_dir / "prediction.json").write_text(
        (run_dir / "prediction.json").read_text().replace("permitted", "forbidden")
    )
    result = CliRunner().invoke(watch_command, [str(run_dir), "--once"])
    assert result.exit_code == 1
    assert "lossy: 2,000 acknowledged, 1,960 in the log, 40 lost, 0 duplicates" in result.output
    (run_dir / "lanes.json").unlink()
    result = CliRunner().invoke(watch_command, [str(run_dir), "--once"])
    assert (result.exit_code, "lanes.json: missing" in result.output) == (64, True)
