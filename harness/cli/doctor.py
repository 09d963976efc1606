"""`kafka-chaos doctor`: checks whether this machine has everything that runs need.

Guarantee: leaves nothing behind. Every check that does not pass says the one thing to do.
"""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_chaos.contract.errors import ExitCode, KafkaChaosError
from kafka_chaos.harness.errors import ClusterFailure

if TYPE_CHECKING:
    from docker.specs.containers import Container

BROKERS = 3
"""Memory and ports are checked for a cluster with so many brokers."""
LEAST_DISK = 3 * 2**30
JAVA = 17


@dataclass(frozen=True)
class Check:
    """One finding: `state` is ok, note (runs work anyway) or missing; `remedy` says what to do."""

    name: str
    state: str
    found: str
    remedy: str = ""


def examine() -> Iterator[Check]:
    """All checks, one after another."""
    yield check_java()
    yield check_maven()
    engine = check_engine()
    yield engine
    if engine.state == "ok":
        image = check_image()
        yield image
        yield check_other_images()
        yield from check_kernel(image)
        yield check_leftovers()
    yield check_disks()
    yield check_jars()
    yield check_memory_free()
    yield check_ports()
    yield check_disk()


def check_java() -> Check:
    """Java 17 or later, for Spark."""
    java = shutil.which("java")
    remedy = "install a JRE 17 or later (`make setup` does on Debian as root), first in PATH or as JAVA_HOME"
    if java is None:
        return Check("Java", "missing", "no java in PATH", remedy)
    reported = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)[^"]*"', reported.stderr)
    if match is None or int(match[1]) < JAVA:
        return Check("Java", "missing", _first_line(reported.stderr) or "java prints no version", remedy)
    return Check("Java", "ok", _first_line(reported.stderr))


def check_maven() -> Check:
    """Maven, which fetches jars once."""
    if shutil.which("mvn"):
        return Check("Maven", "ok", "mvn is in PATH")
    return Check(
        "Maven",
        "note",
        "no mvn in PATH: needed once, to fetch jars",
        "install Maven, unless image and jars exist already",
    )


def check_engine() -> Check:
    """A Docker engine that answers."""
    from kafka_chaos.harness.cluster.containers.engine import docker_client

    try:
        version = docker_client().version()
    except KafkaChaosError as error:
        return Check("Docker engine", "missing", _first_line(str(error)), "start it, or run `make setup`")
    return Check("Docker engine", "ok", f"version {version['Version']}, API {version['ApiVersion']}")


def check_other_images() -> Check:
    """Images of other versions of Kafka; each is built by the first run that needs it."""
    from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION, is_built
    from kafka_chaos.harness.cluster.containers.versions import VERSIONS

    others = [number for number in VERSIONS if number != KAFKA_VERSION]
    built = [number for number in others if is_built(number)]
    more = ", ".join(number for number in others if number not in built)
    return Check("Other versions", "ok", f"built: {', '.join(built) or 'none'}; can be built: {more or 'no more'}")


def check_image() -> Check:
    """The broker image, which the first run builds."""
    from kafka_chaos.harness.cluster.containers.image import image_tag, is_built

    if is_built():
        return Check("Broker image", "ok", image_tag())
    return Check(
        "Broker image", "note", "not built yet: the first run builds it", "`kafka-chaos prepare` builds it now"
    )


def check_kernel(image: Check) -> Iterator[Check]:
    """The kernel features that faults need, tried in a container of the broker image that is removed at once."""
    if image.state != "ok":
        yield Check(
            "Kernel features", "note", "not checked: the image is missing", "run `kafka-chaos prepare`, then this again"
        )
        return
    from docker.errors import DockerException

    try:
        yield from _probe(image.found)
    except DockerException as error:
        yield Check("Kernel features", "missing", f"no container could be started: {error}", "see the engine's log")


def check_disks() -> Check:
    """Disks of their own for brokers, which storage faults need: one is made, broken and removed."""
    from kafka_chaos.faults.storage.disks import why_no_disks
    from kafka_chaos.harness.cluster.containers.labels import run_labels
    from kafka_chaos.harness.cluster.disks.trial import lost_in_trial

    name, reason = "Disks of brokers", why_no_disks()
    if reason is not None:
        return _optional(name, reason, "", "storage faults")
    run_id = f"doctor-{secrets.token_hex(4)}"
    try:
        lost = lost_in_trial(run_id, run_labels(run_id, keep=False))
    except (KafkaChaosError, OSError) as error:
        return Check(name, "note", f"a loop mount failed: {error}", "only storage faults need it")
    return Check(name, "ok", f"a loop mount was frozen and thawed, and lost {lost} bytes when it was cut off")


def check_leftovers() -> Check:
    """Containers, networks and volumes that dead runs left on the engine."""
    from kafka_chaos.harness.cluster.containers.cleanup import leftovers
    from kafka_chaos.harness.cluster.containers.engine import docker_client

    left = leftovers(docker_client())
    dead = [run.run_id for run in left if not run.alive and not run.kept]
    kept = [run.run_id for run in left if not run.alive and run.kept]
    if dead:
        return Check("Leftovers", "note", f"of dead runs: {', '.join(dead)}", "`kafka-chaos clean` removes them")
    if kept:
        return Check(
            "Leftovers", "note", f"kept clusters: {', '.join(kept)}", "`kafka-chaos clean --kept` removes them"
        )
    return Check("Leftovers", "ok", "none")


def check_jars() -> Check:
    """The jars of Spark's Kafka source."""
    from kafka_chaos.verification.spark.jars import cache_dir

    if cache_dir().is_dir():
        return Check("Spark's Kafka source", "ok", str(cache_dir()))
    return Check("Spark's Kafka source", "note", "not fetched yet: the first run fetches them", "`kafka-chaos prepare`")


def check_memory_free() -> Check:
    """Memory for three brokers and the harness."""
    from kafka_chaos.harness.cluster.containers.engine import available_memory, check_memory

    free = available_memory()
    reported = "the kernel doesn't say" if free is None else f"{free / 2**30:.1f} GiB free"
    try:
        check_memory(BROKERS)
    except KafkaChaosError as error:
        return Check("Memory", "missing", reported, str(error))
    return Check("Memory", "ok", reported)


def check_ports() -> Check:
    """Host ports for the brokers' clients."""
    from kafka_chaos.harness.cluster.containers.ports import free_ports

    try:
        ports = free_ports(BROKERS)
    except KafkaChaosError as error:
        return Check("Ports", "missing", "too few are free on 127.0.0.1", str(error))
    return Check("Ports", "ok", f"free on 127.0.0.1, such as {ports[0]}")


def check_disk() -> Check:
    """Space for run directories."""
    free = shutil.disk_usage(Path.cwd()).free
    reported = f"{free / 2**30:.1f} GiB free in {Path.cwd()}"
    if free < LEAST_DISK:
        return Check("Disk", "missing", reported, f"make {LEAST_DISK // 2**30} GiB free, or work elsewhere")
    return Check("Disk", "ok", reported)


def _probe(image: str) -> Iterator[Check]:
    from kafka_chaos.harness.cluster.containers.cleanup import remove_run
    from kafka_chaos.harness.cluster.containers.engine import docker_client
    from kafka_chaos.harness.cluster.containers.labels import run_labels

    client = docker_client()
    run_id = f"doctor-{secrets.token_hex(4)}"
    try:
        container = client.containers.run(
            image,
            ["sleep", "120"],
            detach=True,
            entrypoint=[],
            cap_add=["NET_ADMIN"],
            network_mode="none",
            name=f"kafka-chaos-{run_id}",
            labels=run_labels(run_id, keep=False),
        )

        def execute(*command: str) -> tuple[int, str]:
            result = container.exec_run(list(command))
            return int(result.exit_code), bytes(result.output).decode(errors="replace").strip()

        yield probe_packets(execute)
        container.reload()
        pid = int(container.attrs["State"]["Pid"])
        yield _probe_links(pid)
        yield _probe_queues(pid)
        yield _probe_freezer(container)
    finally:
        remove_run(client, run_id)


def _probe_links(pid: int) -> Check:
    """A link in the network namespace of a container's process, which faults of single requests need."""
    from kafka_chaos.faults.links.on_frames import why_no_links
    from kafka_chaos.harness.cluster.links.links import try_link

    reason, done = why_no_links() or try_link(pid), "connections to a container were redirected to a link"
    return _optional("Links", reason, done, "faults of single requests")


def _probe_queues(pid: int) -> Check:
    """A queue of packets in the same place, and packets that are sent twice."""
    from kafka_chaos.faults.network.queued import Queued
    from kafka_chaos.harness.cluster.packets.queues import try_queue

    reason, done = Queued.unavailable() or try_queue(pid), "packets of a container waited in a queue"
    return _optional("Packet queues", reason, done, "delays, rates, reordering and duplication of packets")


def _optional(name: str, reason: str | None, done: str, needed_by: str) -> Check:
    if reason is None:
        return Check(name, "ok", done)
    found, _, remedy = reason.partition(": ")
    return Check(name, "note", found, f"{remedy}; only {needed_by} need it")


def _probe_freezer(container: Container) -> Check:
    from docker.errors import APIError

    from kafka_chaos.harness.cluster.containers.engine import freeze

    try:
        freeze(container)
    except (ClusterFailure, APIError) as error:
        return Check("Freezer", "missing", str(error), "use a kernel with the cgroup freezer")
    container.unpause()
    return Check("Freezer", "ok", "a container was frozen and thawed")


def probe_packets(execute: Callable[..., tuple[int, str]]) -> Check:
    """The packet filter, which partitions need. `execute` runs in a container."""
    chain = ("iptables", "-w", "-N", "KC-doctor")
    rules = [
        ("iptables", "-w", "-A", "KC-doctor", "-p", "tcp", "--dport", "9092", "-j", "DROP"),
        ("iptables", "-w", "-A", "KC-doctor", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"),
    ]
    failed = next((output for command in (chain, *rules) for code, output in [execute(*command)] if code != 0), None)
    if failed is None:
        return Check("Packet filter", "ok", "iptables takes DROP and REJECT rules in a container")
    return Check(
        "Packet filter",
        "missing",
        f"iptables: {_first_line(failed)}",
        "load the kernel's modules ip_tables, iptable_filter and ipt_REJECT: partitions need them",
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def doctor_command(as_json: bool) -> None:
    """Check whether this machine has what runs need, and say how to get what it lacks.

    Exit code: 0 when it is ready to run experiments, 3 when something is missing.
    """
    import json

    checks = []
    signs = {"ok": "✓", "note": "·", "missing": "✗"}
    for check in examine():
        checks.append(check)
        if not as_json:
            click.echo(f"{signs[check.state]} {check.name}: {check.found}")
            if check.remedy:
                click.echo(f"    {check.remedy}")
    missing = [check.name for check in checks if check.state == "missing"]
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        click.echo(f"missing: {', '.join(missing)}" if missing else "ready to run experiments")
    sys.exit(ExitCode.ENVIRONMENT if missing else 0)
