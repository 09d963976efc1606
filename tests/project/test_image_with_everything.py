"""The image with everything, built here from the local base image: a prediction and a run from inside a container."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_chaos.harness.cluster.containers.engine import docker_client
from tests.harness.leftovers import left_of

ROOT = Path(__file__).parents[2]
TAG = "kafka-chaos:tested"
SHORT = """name: short
lanes: [{lane: fast, acks: "1", leader: 1}]
workload: {rate: 300, duration: 6}
schedule: [{fault: kill, target: leader(fast), at: 2, duration: 2}]
"""


def called(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(1200)
def test_it_predicts_and_runs_beside_the_brokers_and_leaves_nothing(tmp_path: Path) -> None:
    # Where set-up made a base image, no image registry answers; pip is then given all packages from here.
    (base, *_) = [*docker_client().images.list(filters={"label": "kafka-chaos.image=base"}), None]
    arguments = ["--build-arg", f"BASE_IMAGE={base.id}", "--build-arg", "PIP_NO_INDEX=1"] if base else []
    wanted = [".[spark,importers]"] if base else ["--no-deps", "."]
    called(sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(tmp_path / "image"), *wanted)
    shutil.copy(ROOT / "docker" / "everything" / "Dockerfile", tmp_path / "image")
    called("docker", "build", "--tag", TAG, *arguments, str(tmp_path / "image"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "short.yaml").write_text(SHORT, encoding="utf-8")
    socket = "/var/run/docker.sock"
    inside = ["docker", "run", "--rm", "--network", "host", "--pid", "host", "-v", f"{socket}:{socket}"]
    inside += ["-v", f"{work}:/work", TAG]
    try:
        assert "lost_write: permitted" in called(*inside, "predict", "--acks", "1", "--faults", "pause")
        called(*inside, "run", "short.yaml", "--engine", "duckdb")
    finally:
        docker_client().images.remove(TAG)
        docker_client().images.prune(filters={"dangling": True, "label": "kafka-chaos.image=everything"})
    run = (work / "runs" / "latest").resolve()
    assert json.loads((run / "verdict.json").read_text(encoding="utf-8"))["verdict"] == "conforms"
    assert left_of(run.name) == []
