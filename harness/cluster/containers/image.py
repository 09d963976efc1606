"""The image of brokers, controllers and ZooKeeper: built once, tagged by the hash of everything that goes into it.

Its base is a public Java image if the engine has or can pull it, else an image that Debian's debootstrap makes. The
jars come from Maven Central by a pinned POM; versions.toml says which jars a version of Kafka needs besides its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure
from kafka_chaos.contract.command.progress import progress
from kafka_chaos.contract.lane.metadata import USUAL_VERSION
from kafka_chaos.harness.cluster.containers.engine import archived_file, docker_client
from kafka_chaos.harness.cluster.containers.versions import known_version

if TYPE_CHECKING:
    from docker import DockerClient

KAFKA_VERSION = USUAL_VERSION  # where no version is named
REPOSITORY = "kafka-chaos/broker"
PUBLIC_BASE = os.environ.get("KAFKA_CHAOS_BASE_IMAGE", "eclipse-temurin:17-jre")
_STEP = re.compile(r"Step (?P<number>\d+)/(?P<count>\d+) : (?P<instruction>\S+ ?\S*)")
"""The line of the engine's build log that begins a step."""
_POM = "http://maven.apache.org/POM/4.0.0"
"""The XML namespace of a POM."""
_RECIPES = Path(__file__).resolve().parents[3] / "docker"


def image_tag(kafka_version: str = KAFKA_VERSION, *, clock: bool = False) -> str:
    """The image's name with its tag, which changes with Kafka's version and every input of the build.

    `clock`: name the image whose processes have a wall clock that can be moved; it is built on the usual image.
    """
    if clock:
        return f"{image_tag(kafka_version)}-clock-{_hash_of(_RECIPES / 'clock' / 'Dockerfile')}"
    digest = hashlib.sha256(repr(known_version(kafka_version)).encode())
    for path in sorted((_RECIPES / "kafka").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(_RECIPES)).encode())
            digest.update(path.read_bytes())
    return f"{REPOSITORY}:{kafka_version}-{digest.hexdigest()[:12]}"


def ensure_image(
    kafka_version: str = KAFKA_VERSION, *, clock: bool = False, say: Callable[[str], None] = lambda _: None
) -> str:
    """Build the image if the engine lacks it, calling `say` before each step; returns the image's name."""
    tag = image_tag(kafka_version, clock=clock)
    if not is_built(kafka_version, clock=clock):
        if clock:
            arguments = {"BROKER_IMAGE": ensure_image(kafka_version, say=say)}
            say(f"building the image {tag}")
            _build_from(docker_client(), _RECIPES / "clock", tag, arguments)
        else:
            _build_broker_image(docker_client(), tag, kafka_version, say)
    return tag


def is_built(kafka_version: str = KAFKA_VERSION, *, clock: bool = False) -> bool:
    """Whether the engine has the image."""
    return _has_image(docker_client(), image_tag(kafka_version, clock=clock))


def _has_image(client: DockerClient, name: str) -> bool:
    from docker.errors import ImageNotFound

    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


class Scratch:
    """A container of the broker image for single commands."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def must_execute(self, *command: str) -> str:
        """Run a command; raises `ClusterFailure` if it fails."""
        code, output = self._container.exec_run(list(command))
        text = bytes(output).decode(errors="replace")
        if code:
            raise ClusterFailure(f"{command[0]} ended with {code} in a container of the broker image: {text.strip()}")
        return text

    def read_file(self, path: str) -> bytes:
        """The content of a file."""
        with archived_file(self._container.get_archive(path)[0], path) as content:
            return content.read()


@contextmanager
def scratch(labels: Mapping[str, str], kafka_version: str = KAFKA_VERSION) -> Iterator[Scratch]:
    """Yield a running container with these labels and without a network; it is removed when the block ends."""
    image = ensure_image(kafka_version)
    container = docker_client().containers.run(
        image, "infinity", entrypoint="sleep", labels=dict(labels), network_mode="none", detach=True
    )
    try:
        yield Scratch(container)
    finally:
        container.remove(force=True)


def _build_broker_image(client: DockerClient, tag: str, kafka_version: str, say: Callable[[str], None]) -> None:
    version = known_version(kafka_version)
    properties = {"kafka.version": kafka_version, "scala.version": version.scala}
    base = _base_image(client, say)
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-image-") as folder:
        context = Path(folder)
        shutil.copytree(_RECIPES / "kafka", context, dirs_exist_ok=True)
        say(f"fetching the jars of Kafka {kafka_version} with Maven")
        # The POM in the recipe has Kafka's own jars; the extra ones are added to the copy.
        ElementTree.register_namespace("", _POM)
        document = ElementTree.parse(context / "pom.xml")
        dependencies = document.find(f"{{{_POM}}}dependencies")
        assert dependencies is not None
        for jar in version.extra_jars:
            dependency = ElementTree.SubElement(dependencies, f"{{{_POM}}}dependency")
            for name, value in zip(("groupId", "artifactId", "version"), jar.split(":"), strict=True):
                ElementTree.SubElement(dependency, f"{{{_POM}}}{name}").text = value
        document.write(context / "pom.xml")
        copy_dependencies(context / "pom.xml", context / "jars", properties)
        say(f"building the image {tag}")
        arguments = {"BASE_IMAGE": base, "KAFKA_VERSION": kafka_version, "METADATA_MODES": " ".join(version.modes)}
        _build_from(client, context, tag, arguments)


def _build_from(client: DockerClient, folder: Path, tag: str, arguments: Mapping[str, str]) -> None:
    """Build the image of the Dockerfile in a folder; raises `EnvironmentFailure` with the end of the build log."""
    labels = {"kafka-chaos.image": "broker"}
    log: list[str] = []
    for line in client.api.build(
        path=str(folder), tag=tag, buildargs=dict(arguments), labels=labels, rm=True, forcerm=True, decode=True
    ):
        log.append(str(line.get("stream", "")))
        if step := _STEP.match(log[-1]):
            progress(int(step["number"]) - 1, int(step["count"]), step["instruction"])
        if "error" in line:
            raise EnvironmentFailure(f"the image {tag} does not build: {line['error']}\n{''.join(log)[-3000:]}")


def copy_dependencies(pom: Path, folder: Path, properties: dict[str, str]) -> None:
    """Copy the dependencies of a POM into `folder` with Maven; raises `EnvironmentFailure` with Maven's last lines."""
    if (maven := shutil.which("mvn")) is None:
        raise EnvironmentFailure("Maven is missing: install Maven 3.6 or later (in a clone: `make setup`)")
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    command += [f"-D{key}={value}" for key, value in properties.items()]
    maven_run = subprocess.run(command, capture_output=True, text=True, check=False)
    if maven_run.returncode != 0:
        raise EnvironmentFailure(f"Maven could not fetch the jars of {pom.name}:\n{maven_run.stdout[-2000:]}")


def _base_image(client: DockerClient, say: Callable[[str], None]) -> str:
    """The base image's name: an image that the engine has, else the public one if it can be pulled, else a new one."""
    from docker.errors import APIError

    debian_base = f"kafka-chaos/base:{_hash_of(_RECIPES / 'base' / 'make-base')}"
    for name in (PUBLIC_BASE, debian_base):
        if _has_image(client, name):
            return name
    say(f"asking the image registry for {PUBLIC_BASE}")
    try:
        client.images.pull(PUBLIC_BASE)
    except APIError:
        say("no image registry answers: making a base image of Debian packages with debootstrap (about a minute)")
        _make_debian_base(debian_base)
        return debian_base
    return PUBLIC_BASE


def _make_debian_base(tag: str) -> None:
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise EnvironmentFailure(
            f"neither an image registry nor debootstrap (as root) is available for a base image: make {PUBLIC_BASE} "
            "available to the Docker engine, or install debootstrap and run this as root"
        )
    script_run = subprocess.run([_RECIPES / "base" / "make-base", tag], capture_output=True, text=True, check=False)
    if script_run.returncode != 0:
        raise EnvironmentFailure(script_run.stderr.strip() or f"make-base ended with {script_run.returncode}")


def _hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
