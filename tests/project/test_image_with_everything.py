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
SOCKET = "/var/run/docker.sock"
INSIDE = ["docker", "run", "--rm", "--network", "host", "--pid", "host", "-v", f"{SOCKET}:{SOCKET}"]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(1200)
def test_it_predicts_and_runs_beside_the_brokers_and_leaves_nothing(tmp_path: Path) -> None:
    image, work = tmp_path / "image", tmp_path / "work"
    # Where set-up made a base image, no image registry answers; pip is then given all packages from here.
    (base, *_) = [*docker_client().images.list(filters={"label": "kafka-chaos.image=base"}), None]
    arguments = ["--build-arg", f"BASE_IMAGE={base.id}", "--build-arg", "PIP_NO_INDEX=1"] if base else []
    wanted = [".[spark,importers]"] if base else ["--no-deps", "."]
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "-w", image, *wanted], cwd=ROOT, check=True)
    shutil.copy(ROOT / "docker" / "everything" / "Dockerfile", image)
    subprocess.run(["docker", "build", "--tag", TAG, *arguments, image], check=True)
    command = [*INSIDE, "-v", f"{work}:/work", TAG]
    try:
        predicted = subprocess.check_output([*command, "predict", "--acks", "1", "--faults", "pause"], text=True)
        assert "lost_write: permitted" in predicted
        subprocess.run([*command, "demo"], check=True)
    finally:
        docker_client().images.remove(TAG)
        docker_client().images.prune(filters={"dangling": True, "label": "kafka-chaos.image=everything"})
    run = (work / "runs" / "latest").resolve()
    assert len(json.loads((run / "verdict.json").read_text(encoding="utf-8"))["lanes"]) == 12
    assert left_of(run.name) == []
