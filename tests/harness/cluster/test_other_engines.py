"""Container engines other than the machine's own Docker: Podman as root and as a user, and Docker in Docker.

Each engine gets a network, mounts and processes of its own, and keeps its files in one folder. When its first process
ends, all that it started ends, too, and no mount or rule of it is left. kafka-chaos runs beside it in the same
namespaces, as in a container of a CI job; one test stays outside. `docs/guides/engines.md` has the table.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.containers.image import ensure_image
from tests.clusters import needs_disks

# An engine in namespaces of its own needs root, as disks do.
pytestmark = [pytest.mark.cluster, pytest.mark.slow, needs_disks]

ROOT = Path(__file__).parents[3]
NAMESPACES = ("--net", "--mount", "--pid")
FAMILIES = ROOT / "experiments" / "engines" / "families.yaml"
KAFKA_CHAOS = (os.path.realpath(sys.executable), "-m", "kafka_chaos.harness.cli.main")
OUTSIDE = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))}
"""The environment of a command outside of the engines' namespaces."""
# Every user of an ordinary Debian may open /dev/net/tun and /dev/fuse, which the engine of a user needs. The user is
# one of the engine's mounts alone, as is the folder of packages, since a checkout's `.venv` may be closed to others.
PREPARED = """
set -e
cd {place}
mkdir home packages
echo '[containers]\ndefault_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]
[network]\nnetwork_config_dir = "{place}/home/networks"' >containers.conf
echo '[storage]\ndriver = "overlay"\nrunroot = "{place}/home/run"\ngraphroot = "{place}/home/data"' >storage.conf
cp /etc/passwd /etc/group .
echo kc-engine:x:61184:61184::{place}/home:/bin/sh >>passwd
echo kc-engine:x:61184: >>group
echo kc-engine:2000000:65536 | tee subuid >subgid
chown 61184:61184 home
mknod -m 666 tun c 10 200
mknod -m 666 fuse c 10 229
ip link set lo up
mount --make-rshared /
mount -t tmpfs none /run
for file in passwd group subuid subgid; do mount --bind $file /etc/$file; done
mount --bind tun /dev/net/tun
mount --bind fuse /dev/fuse
mount --bind {packages} packages
cd home
"""


class Engine(NamedTuple):
    """A running engine, reached at `host`, with its files in `place`."""

    host: str
    place: Path
    lacks: dict[str, str]
    run: Callable[..., subprocess.CompletedProcess[str]]
    """Runs a command beside the engine, as the engine's user."""
    pid: str
    """The id of the first process in its namespaces."""


def ended(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


SOCKET = "unix://{place}/home/engine.sock"
TCP = "tcp://127.0.0.1:2375"
PODMAN = "podman system service --time=0 {host}"
DOCKER = "dockerd --data-root {place}/data --tls=false -H {host} -H tcp://0.0.0.0:2376"
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "podman": (PODMAN, SOCKET, ()),
    "podman-of-a-user": (PODMAN, SOCKET, ("setpriv", "--reuid=kc-engine", "--regid=kc-engine", "--init-groups")),
    "docker-in-docker": (DOCKER, SOCKET, ()),
    "docker-by-tcp": (DOCKER, TCP, ()),
}
LACKS = {
    "podman-of-a-user": {
        "Links": "links are in the containers' network namespaces",
        "Disks of brokers": "disks are loop mounts",
    },
    "docker-by-tcp": {
        "Links": f"links are in the containers' network namespaces of this machine, but DOCKER_HOST={TCP} names",
        "Disks of brokers": f"disks are loop mounts of this machine, but DOCKER_HOST={TCP} names",
    },
}
"""What an engine can't do, as `doctor` says it in one line."""
if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
    LACKS["podman-of-a-user"]["Freezer"] = "can not pause containers on rootless containers with cgroup V1"
TRIED = ("Published ports", "Packet filter", "Links", "Freezer", "Disks of brokers")


@pytest.fixture(scope="module", params=KINDS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine that has those images of the machine's own engine which the experiment needs."""
    if "podman" in request.param and shutil.which("podman") is None:
        installed = ended("sh", "-c", "apt-get -q update && apt-get -q install -y podman")
        if installed.returncode != 0:
            pytest.skip(f"podman is not there, and can't be installed: {installed.stderr[-300:]}")
    place = Path(tempfile.mkdtemp(prefix="kafka-chaos-engine-"))
    place.chmod(0o755)
    command, host, user = KINDS[request.param]
    host = host.format(place=place)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": f"{place}/home",
        "XDG_RUNTIME_DIR": f"{place}/home",
        "CONTAINERS_CONF": f"{place}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{place}/storage.conf",
        "PYTHONPATH": f"{ROOT}:{place}/packages",
        "DOCKER_HOST": host,
    }
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    serve = f"exec {shlex.join(user)} {command.format(place=place, host=host)} >../log 2>&1"
    apart = ("unshare", *NAMESPACES, "--fork", "--mount-proc", "--propagation=private", "--kill-child", "sh", "-c")
    outer = subprocess.Popen([*apart, PREPARED.format(place=place, packages=packages) + serve], env=environment)
    first = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")

    def run(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        inside = ("nsenter", f"--target={first.read_text().strip()}", *NAMESPACES, f"--wd={place}/home", *user)
        return ended(*inside, *command, env=environment, **options)

    def answers() -> bool:
        return run("docker", "version").returncode == 0

    try:
        wait_until(answers, f"an engine at {host}", timeout=60, seen=(place / "log").read_text)
        save = ("docker", "save", ensure_image(), ensure_image(clock=True))
        with subprocess.Popen(save, stdout=subprocess.PIPE) as images:
            loaded = run("docker", "load", stdin=images.stdout)
        assert images.returncode == loaded.returncode == 0, loaded.stderr
        yield Engine(host, place, LACKS.get(request.param, {}), run, first.read_text().strip())
    finally:
        outer.kill()
        outer.wait()
        # The kernel takes the mounts below the folder down a moment later.
        subprocess.run(f"until rm -rf {place}; do sleep 0.2; done", shell=True, timeout=30, check=True)


def checked(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(done.stdout)}


def test_doctor_says_in_one_line_what_an_engine_cannot_do(engine: Engine) -> None:
    checks = checked(engine.run(*KAFKA_CHAOS, "doctor", "--json"))
    assert {name for name in TRIED if checks[name]["state"] != "ok"} == set(engine.lacks), checks
    for name, reason in engine.lacks.items():
        assert checks[name]["found"].startswith(reason)
        assert "\n" not in checks[name]["found"]


@pytest.fixture
def cable(engine: Engine) -> Iterator[str]:
    """The address of the engine's machine on a cable that leads to this one, as between two machines."""
    for run, command in (
        (ended, f"link add kc-cable type veth peer name kc-engine netns {engine.pid}"),
        (ended, "addr add 198.18.231.1/30 dev kc-cable"),
        (ended, "link set kc-cable up"),
        (engine.run, "addr add 198.18.231.2/30 dev kc-engine"),
        (engine.run, "link set kc-engine up"),
    ):
        assert run("ip", *command.split()).returncode == 0, command
    yield "198.18.231.2"
    ended("ip", "link", "delete", "kc-cable")


ELSEWHERE = """\
name: elsewhere
cluster: {security: sasl_ssl}
workload: {rate: 100, duration: 14}
lanes: [{lane: a, acks: all, min_insync_replicas: 2, idempotence: true}]
schedule: [{fault: kill, target: broker:1, at: 1, duration: 3}, {fault: isolate, target: leader(a), at: 8, duration: 2}]
"""


@pytest.mark.parametrize("engine", ["docker-in-docker"], indirect=True)
def test_from_another_machine_brokers_are_reached_only_where_they_advertise(engine: Engine, cable: str) -> None:
    lost = ended(*KAFKA_CHAOS, "doctor", "--json", env={**OUTSIDE, "DOCKER_HOST": engine.host})
    assert lost.returncode == 3
    assert "does not lead to the container" in checked(lost)["Published ports"]["found"]
    assert "--pid=host" in checked(lost)["Links"]["remedy"]
    outside = {**OUTSIDE, "DOCKER_HOST": f"tcp://{cable}:2376"}
    reached = {**outside, "KAFKA_CHAOS_ADVERTISE": cable}
    found = checked(ended(*KAFKA_CHAOS, "doctor", "--json", env=reached))["Published ports"]["found"]
    assert found == f"a port on {cable} leads to a container"
    refused = ended(*KAFKA_CHAOS, "plan", str(FAMILIES), env=reached)
    assert refused.returncode == 64
    assert "fault: hold can't be done where advertise names" in refused.stderr
    experiment = engine.place / "elsewhere.yaml"
    experiment.write_text(ELSEWHERE)
    run = ("run", str(experiment), "--engine", "duckdb", "--quiet", "--out", str(engine.place / "runs"))
    done = ended(*KAFKA_CHAOS, *run, env=reached)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    nowhere = ended(*KAFKA_CHAOS, *run, "--advertise", "198.18.231.1", env=outside)
    assert nowhere.returncode == 3
    assert "198.18.231.1" in nowhere.stderr


@pytest.mark.timeout(1200)
def test_every_fault_that_an_engine_can_do_is_proven(engine: Engine) -> None:
    content = yaml.safe_load(FAMILIES.read_text())
    if engine.lacks:  # These families act on the engine's machine, as root.
        content["phases"] = [one for one in content["phases"] if one["phase"] not in {"requests", "disks", "clocks"}]
    if "Freezer" in engine.lacks:
        for phase in content["phases"]:
            phase["schedule"] = [fault for fault in phase["schedule"] if fault["fault"] != "pause"]
    experiment = engine.place / "engines.yaml"
    experiment.write_text(yaml.safe_dump(content))
    done = engine.run(*KAFKA_CHAOS, "run", str(experiment), "--engine", "duckdb", "--quiet")
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_a_disk_that_the_engine_does_not_see_ends_the_run(tmp_path: Path) -> None:
    run = (*KAFKA_CHAOS, "run", str(FAMILIES), "--out", str(tmp_path))
    done = ended("unshare", "--mount", *run, env=OUTSIDE)
    assert done.returncode == 3
    assert "the engine does not see what is mounted here" in done.stderr
