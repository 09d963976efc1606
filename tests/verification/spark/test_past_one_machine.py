"""Run directories on file systems that Hadoop knows, and verification on a cluster of separate processes."""

import itertools
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
from click.testing import CliRunner
from generated_histories import LaneShape, lane_tables, write_run

import kafka_chaos
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.verification import verify
from kafka_chaos.verification.cli import verify_command
from kafka_chaos.verification.inputs.file_systems.storage import HadoopPath, is_remote, run_path, write_text
from tests.verification.samples.run_dirs import read_cases, rows_of

pytestmark = pytest.mark.spark

_numbers = itertools.count(1)
REPOSITORY = Path(kafka_chaos.__file__).parents[1]


def lossy(folder: Path) -> Path:
    rows = rows_of(20)
    rows.send(20, 20).send(21, None, "info").store(20, 21).read(20, 21)
    rows.event("fault_requested", fault_id="f", kind="kill").event("fault_proven", fault_id="f")
    rows.checkpoints = {"brokers": {"1": {"a/0": {"high_watermark": 21, "leader_epochs": [[0, 0], [1, 20]]}}}}
    return rows.write(folder)


@pytest.fixture
def viewfs(tmp_path: Path, spark: Any) -> Iterator[str]:
    """A second file system: Hadoop's viewfs, with a mount table of its own."""
    hadoop = spark._jsc.hadoopConfiguration()
    # Hadoop keeps file systems by scheme and authority.
    authority = f"chaos-{next(_numbers)}"
    link = f"fs.viewfs.mounttable.{authority}.link./runs"
    hadoop.set(link, tmp_path.as_uri())
    yield f"viewfs://{authority}/runs"
    hadoop.unset(link)


def test_what_is_remote() -> None:
    assert [is_remote(path) for path in ("runs/latest", "/a/b", "hdfs://nn/a", "file:/a", "s3a://b/c")] == [
        False,
        False,
        True,
        True,
        True,
    ]


@pytest.mark.slow
def test_a_path_with_a_scheme_answers_as_a_local_one(tmp_path: Path, viewfs: str, spark: Any) -> None:
    remote, local = run_path(f"{viewfs}/x", spark), tmp_path / "x"
    assert isinstance(remote, HadoopPath)
    assert not remote.exists()
    assert list(remote.glob("*")) == []
    remote.mkdir()
    (remote / "b.txt").write_bytes("zwei\nähm\n".encode())
    (remote / "a.bin").write_bytes(bytes(range(256)) * 300)
    assert [path.name for path in sorted(remote.glob("*"))] == ["a.bin", "b.txt"]
    with (remote / "b.txt").open("rb") as file:
        assert file.read() == (local / "b.txt").read_bytes()
    with (remote / "a.bin").open("rb") as file:
        file.seek(-3, os.SEEK_END)
        assert file.read() == bytes([253, 254, 255])
        file.seek(70_000)
        assert file.read(4) == (bytes(range(256)) * 300)[70_000:70_004]
    write_text(remote / "b.txt", "drei")
    assert (local / "b.txt").read_bytes() == b"drei"
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        (remote / "gone.txt").open("rb")
    remote.remove()
    assert not local.exists()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "viewfs"])
def test_a_run_directory_on_another_file_system(tmp_path: Path, viewfs: str, spark: Any, scheme: str) -> None:
    folder = lossy(tmp_path / "run")
    here = verify(folder, engine="duckdb")
    expected, findings = json.loads((folder / "verdict.json").read_text()), read_cases(folder)
    (folder / "verdict.json").unlink()
    uri = folder.as_uri() if scheme == "file" else f"{viewfs}/run"
    result = CliRunner().invoke(verify_command, ["--json", uri])
    assert result.exit_code == 1, result.output
    assert json.loads(result.stdout)["run_dir"] == uri
    found = json.loads((folder / "verdict.json").read_text())
    assert found["cross_check"]["problem"] == "only local run directories are looked at twice"
    assert found == {**expected, "engine": "spark", "cross_check": found["cross_check"]}
    assert read_cases(folder) == findings
    assert here.lane("a").count("lost_write") == 1  # type: ignore[arg-type]
    assert [path.name for path in folder.iterdir() if path.name.startswith((".findings", ".verdict"))] == []


# ------------------------------------------------------- a standalone cluster


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
    # By a URI, the directory is not local: it is not looked at twice.
    assert answer == {"run_dir": run_dir.as_uri(), **expected, "cross_check": answer["cross_check"]}
    assert read_cases(run_dir) == findings
    assert sum(pq.read_metadata(file).num_rows for file in (run_dir / "findings").glob("*.parquet")) > 100
