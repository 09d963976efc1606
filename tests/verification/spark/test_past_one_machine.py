"""Run directories by URI, and verification on a cluster of separate processes."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from generated_histories import LaneShape, lane_tables, write_run

import kafka_chaos
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.verification import verify
from tests.verification.samples.run_dirs import read_cases

pytestmark = pytest.mark.spark

REPOSITORY = Path(kafka_chaos.__file__).parents[1]


@contextmanager
def process(log: Path, *command: str | Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own session that is gone when the block ends, with everything it started."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            yield started
        finally:
            if started.poll() is None:
                started.terminate()
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, 9)
                started.wait(20)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A standalone master and two workers of one core each; the master's URL."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port, page = free_port(), free_port()
    here = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "SPARK_WORKER_DIR": str(folder / "work")}
    here["SPARK_DAEMON_MEMORY"] = "256m"
    deploy = "org.apache.spark.deploy"
    spark_class = home / "bin" / "spark-class"
    master = spark_class, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)
    url = f"spark://127.0.0.1:{port}"
    worker = spark_class, f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "1g"

    def alive() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return 0

    with (
        process(folder / "master.log", *master, "--webui-port", str(page), **here),
        process(folder / "worker-1.log", *worker, url, **here),
        process(folder / "worker-2.log", *worker, url, **here),
    ):
        wait_until(lambda: alive() == 2, "two workers to register", timeout=120)
        yield url


def submit(folder: Path, url: str, run_dir: Path) -> dict[str, Any]:
    """Verify on the cluster with the packaged application; what it printed as JSON."""
    import pyspark

    home = Path(pyspark.__file__).parent
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    wheel = next(folder.glob("*.whl"))
    script = folder / "submit.py"
    script.write_bytes((REPOSITORY / "verification" / "submit.py").read_bytes())
    command = [home / "bin" / "spark-submit", "--master", url, "--py-files", wheel]
    command += ["--driver-memory", "1g", "--executor-memory", "900m", "--conf", "spark.driver.host=127.0.0.1"]
    log, answer = folder / "driver.log", folder / "answer.json"
    with answer.open("wb") as output, log.open("wb") as errors:
        done = subprocess.run(
            [str(part) for part in (*command, script, "--json", run_dir.as_uri())],
            stdout=output,
            stderr=errors,
            # Away from the repository: what is imported is the wheel.
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home), "PYTHONSAFEPATH": "1"},
            timeout=1500,
            check=False,
        )
    assert done.returncode == 1, log.read_text()[-3000:]
    return dict(json.loads(answer.read_text().splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("records", [66_000, pytest.param(6_700_000, marks=pytest.mark.timeout(3000))])
def test_a_cluster_of_processes_finds_the_same(tmp_path: Path, spark: Any, records: int) -> None:
    """Three tables of so many rows each; the larger one is a history of 20 million rows."""
    shapes = [
        LaneShape(lane="lossy", records=records // 2, partitions=3, producers=2, lost_tail=150, acks="1"),
        LaneShape(lane="retried", records=records // 2, partitions=2, info_share=0.01, retry_share=0.002),
    ]
    run_dir = write_run(tmp_path / "run", [lane_tables(shape, seed=5) for shape in shapes])
    verify(run_dir, spark=spark)
    expected, findings = json.loads((run_dir / "verdict.json").read_text()), read_cases(run_dir)
    (run_dir / "verdict.json").unlink()
    with standalone(tmp_path) as url:
        answer = submit(tmp_path, url, run_dir)
    assert answer == {"run_dir": run_dir.as_uri(), **expected}
    assert read_cases(run_dir) == findings
    assert not [path.name for path in run_dir.iterdir() if path.name.startswith((".findings", ".verdict"))]
    assert sum(pq.read_metadata(file).num_rows for file in (run_dir / "findings").glob("*.parquet")) > 100
