"""Container engines other than the machine's own Docker: Podman as root and as a user, and Docker in Docker.

Each engine gets a network, mounts and processes of its own, and keeps its files in one folder. When its first process
ends, all that it started ends, too, and no mount or rule of it is left. kafka-chaos runs beside it in the same
namespaces, as in a container of a CI job. `docs/guides/engines.md` has the table of what each engine can.
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

import pytest
import yaml

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.containers.image import ensure_image
from tests.clusters import needs_disks

# An engine in namespaces of its own needs root, as disks do.
pytestmark = [pytest.mark.cluster, pytest.mark.slow, needs_disks]

ROOT = Path(__file__).parents[3]
NAMESPACES = ("--net", "--mount", "--pid")
KAFKA_CHAOS = (os.path.realpath(sys.executable), "-m", "kafka_chaos.harness.cli.main")
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


class Engine:
    """A running engine, reached at `host`, with its files in `place`."""

    def __init__(self, place: Path, command: str, host: str, user: tuple[str, ...]) -> None:
        self.place, self.host, self._user = place, host, user
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": f"{place}/home",
            "XDG_RUNTIME_DIR": f"{place}/home",
            "CONTAINERS_CONF": f"{place}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{place}/storage.conf",
            "PYTHONPATH": f"{ROOT}:{place}/packages",
            "DOCKER_HOST": host,
        }
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        script = f"{PREPARED.format(place=place, packages=packages)}exec {shlex.join(user)} {command} >../log 2>&1"
        apart = ("unshare", *NAMESPACES, "--fork", "--mount-proc", "--propagation=private", "--kill-child")
        self._outer = subprocess.Popen([*apart, "sh", "-c", script], env=self._environment)
        self._children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")

    def answers(self) -> bool:
        """Whether the engine serves."""
        return bool(self._children.read_text()) and self.run("docker", "version").returncode == 0

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside the engine, as the engine's user."""
        target = f"--target={self._children.read_text().strip()}"
        inside = ("nsenter", target, *NAMESPACES, f"--wd={self.place}/home", *self._user)
        return subprocess.run([*inside, *command], env=self._environment, capture_output=True, text=True, check=False)

    def end(self) -> None:
        """End everything that the engine started, and remove its files."""
        self._outer.kill()
        self._outer.wait()
        # The kernel takes the mounts below the folder down a moment later.
        subprocess.run(f"until rm -rf {self.place}; do sleep 0.2; done", shell=True, timeout=30, check=True)


@pytest.fixture(scope="module")
def images() -> Iterator[str]:
    """An archive of the images that the experiment needs, built by the machine's own engine."""
    with tempfile.NamedTemporaryFile(prefix="kafka-chaos-images-") as archive:
        subprocess.run(["docker", "save", "-o", archive.name, ensure_image(), ensure_image(clock=True)], check=True)
        Path(archive.name).chmod(0o644)
        yield archive.name


SOCKET = "unix://{place}/home/engine.sock"
TCP = "tcp://127.0.0.1:2375"
PODMAN = "podman system service --time=0 {host}"
DOCKER = "dockerd --data-root {place}/data --tls=false -H {host}"
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "podman": (PODMAN, SOCKET, ()),
    "podman-of-a-user": (PODMAN, SOCKET, ("setpriv", "--reuid=kc-engine", "--regid=kc-engine", "--init-groups")),
    "docker-in-docker": (DOCKER, SOCKET, ()),
    "docker-by-tcp": (DOCKER, TCP, ()),
}
LACKS = {
    "podman-of-a-user": {
        "Links": "links enter the containers' network namespaces",
        "Freezer": "can not pause containers on rootless containers with cgroup V1",
        "Disks of brokers": "disks are loop mounts",
    },
    "docker-by-tcp": {
        "Links": f"links are in network namespaces of this machine, and DOCKER_HOST={TCP} is another",
        "Disks of brokers": f"disks are mounted on this machine, and DOCKER_HOST={TCP} is another",
    },
}
"""What an engine can't do, as `doctor` says it in one line."""
TRIED = ("Published ports", "Packet filter", "Links", "Freezer", "Disks of brokers")


@pytest.fixture(scope="module", params=KINDS)
def engine(request: pytest.FixtureRequest, images: str) -> Iterator[tuple[Engine, dict[str, str]]]:
    """An engine that has the images, and what it can't do."""
    if "podman" in request.param and shutil.which("podman") is None:
        command = "apt-get -q update && apt-get -q install -y podman"
        installed = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            pytest.skip(f"podman is not there, and can't be installed: {installed.stderr[-300:]}")
    place = Path(tempfile.mkdtemp(prefix="kafka-chaos-engine-"))
    place.chmod(0o755)
    command, host, user = KINDS[request.param]
    host = host.format(place=place)
    started = Engine(place, command.format(place=place, host=host), host, user)
    try:
        wait_until(started.answers, f"an engine at {host}", timeout=60, seen=(place / "log").read_text)
        loaded = started.run("docker", "load", "-i", images)
        assert loaded.returncode == 0, loaded.stderr
        in_version_2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        lacks = LACKS.get(request.param, {})
        yield started, {name: lacks[name] for name in lacks if name != "Freezer" or not in_version_2}
    finally:
        started.end()


def test_doctor_says_in_one_line_what_an_engine_cannot_do(engine: tuple[Engine, dict[str, str]]) -> None:
    started, lacks = engine
    checks = {check["name"]: check for check in json.loads(started.run(*KAFKA_CHAOS, "doctor", "--json").stdout)}
    assert {name for name in TRIED if checks[name]["state"] != "ok"} == set(lacks), checks
    for name, reason in lacks.items():
        assert checks[name]["found"].startswith(reason)
        assert "\n" not in checks[name]["found"]


@pytest.mark.parametrize("engine", ["docker-in-docker"], indirect=True)
def test_from_outside_published_ports_do_not_lead_to_containers(engine: tuple[Engine, dict[str, str]]) -> None:
    ended = kafka_chaos("doctor", "--json", DOCKER_HOST=engine[0].host)
    checks = {check["name"]: check for check in json.loads(ended.stdout)}
    assert ended.returncode == 3
    assert "does not lead to the container" in checks["Published ports"]["found"]
    assert "--pid=host" in checks["Links"]["remedy"]


@pytest.mark.timeout(1200)
def test_every_fault_that_an_engine_can_do_is_proven(engine: tuple[Engine, dict[str, str]]) -> None:
    started, lacks = engine
    left_out = {"requests", "disks", "clocks"} if lacks else set()  # They act on the engine's machine, as root.
    experiment = write_experiment(started.place, lambda phase: phase not in left_out, freezer="Freezer" not in lacks)
    ended = started.run(*KAFKA_CHAOS, "run", experiment, "--engine", "duckdb", "--quiet")
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"


def test_a_disk_that_the_engine_does_not_see_ends_the_run(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path, lambda phase: phase == "disks")
    ended = kafka_chaos("run", experiment, "--out", str(tmp_path), before=("unshare", "--mount"))
    assert ended.returncode == 3
    assert "the engine does not see what is mounted here" in ended.stderr


def write_experiment(folder: Path, takes: Callable[[str], bool], *, freezer: bool = True) -> str:
    """The path of the experiment with the phases that `takes` says, in `folder`."""
    content = yaml.safe_load((ROOT / "experiments" / "engines" / "families.yaml").read_text())
    content["phases"] = [phase for phase in content["phases"] if takes(phase["phase"])]
    for phase in content["phases"]:
        phase["schedule"] = [fault for fault in phase["schedule"] if freezer or fault["fault"] != "pause"]
    (folder / "engines.yaml").write_text(yaml.safe_dump(content))
    return str(folder / "engines.yaml")


def kafka_chaos(*arguments: str, before: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of kafka-chaos on this machine, outside of the engines' namespaces."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)), **environment}
    command = (*before, *KAFKA_CHAOS, *arguments)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
