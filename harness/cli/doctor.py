"""`kafka-chaos doctor`: checks whether this machine has everything that runs need.

Guarantee: nothing is left behind. Every check that does not pass says what to do. If only some runs need what is
missing, the result is a note that names those runs.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from kafka_chaos.contract.command.errors import ExitCode, KafkaChaosError, first_line
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.cli.kernel_checks import Check, check_broker_disks, check_kernel
from kafka_chaos.harness.cluster.configuration.layout import ADVERTISE, checked_host
from kafka_chaos.harness.cluster.containers.network import LOOPBACK

BROKERS = 3
"""The number of brokers for which memory and ports are checked."""
MIN_DISK_BYTES = 3 * 2**30
MIN_JAVA = 17


def examine(advertise: str | None = None) -> Iterator[Check]:
    """All checks, one after another. `advertise`: the host where published ports are reached."""
    yield check_spark()
    yield check_java()
    engine = check_docker_engine()
    yield engine
    image = check_image() if engine.state == "ok" else None
    yield check_maven(needed=image is not None and image.state != "ok")
    if image is not None:
        yield image
        yield check_other_images()
        yield from check_kernel(image, advertise or LOOPBACK)
        yield check_leftovers()
    yield check_broker_disks()
    yield check_free_memory()
    yield check_ports()
    yield check_free_space()


def check_spark() -> Check:
    """Whether PySpark and a JVM for it are installed. DuckDB needs neither, and is always installed."""
    from kafka_chaos.verification.spark.session import require_engine

    try:
        require_engine(Engine.SPARK)
    except KafkaChaosError as error:
        # The message has the form `problem: remedy`.
        problem, _, remedy = str(error).partition(": ")
        return Check("Spark", "note", problem, f"for the engine spark, the default of `run`: {remedy}")
    return Check("Spark", "ok", "PySpark is installed")


def check_java() -> Check:
    """Whether Java 17 or later is installed, for Spark, Java clients and tiered storage."""
    java = shutil.which("java")
    remedy = "for Spark, Java clients and tiered storage: install a JRE 17 or later, first in PATH or as JAVA_HOME"
    if java is None:
        return Check("Java", "note", "no java in PATH", remedy)
    reported = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)[^"]*"', reported.stderr)
    if match is None or int(match[1]) < MIN_JAVA:
        return Check("Java", "note", first_line(reported.stderr) or "java prints no version", remedy)
    return Check("Java", "ok", first_line(reported.stderr))


def check_maven(*, needed: bool) -> Check:
    """Whether Maven, which fetches jars, is installed. `needed`: whether the broker image has to be built first."""
    if shutil.which("mvn"):
        return Check("Maven", "ok", "mvn is in PATH")
    remedy = "to build an image of Kafka, and for Java clients and tiered storage: install Maven 3.6 or later"
    return Check("Maven", "missing" if needed else "note", "no mvn in PATH", remedy)


def check_docker_engine() -> Check:
    """Whether a Docker engine answers."""
    from kafka_chaos.harness.cluster.containers.engine import docker_client

    try:
        version = docker_client().version()
    except KafkaChaosError as error:
        return Check("Docker engine", "missing", first_line(error), "start or install one (in a clone: `make setup`)")
    podman = any(component["Name"].startswith("Podman") for component in version.get("Components", ()))
    product = "Podman" if podman else "version"
    return Check("Docker engine", "ok", f"{product} {version['Version']}, API {version['ApiVersion']}")


def check_other_images() -> Check:
    """Which images of other versions of Kafka are built; the first run that needs an image builds it."""
    from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION, is_built
    from kafka_chaos.harness.cluster.containers.versions import VERSIONS

    others = [number for number in VERSIONS if number != KAFKA_VERSION]
    built = [number for number in others if is_built(number)]
    unbuilt = ", ".join(number for number in others if number not in built)
    return Check("Other versions", "ok", f"built: {', '.join(built) or 'none'}; can be built: {unbuilt or 'none'}")


def check_image() -> Check:
    """Whether the engine has the broker image; otherwise, the first run builds it."""
    from kafka_chaos.harness.cluster.containers.image import image_tag, is_built

    if is_built():
        return Check("Broker image", "ok", image_tag())
    remedy = "`kafka-chaos prepare` builds it now"
    return Check("Broker image", "note", "not built yet: the first run builds it", remedy)


def check_leftovers() -> Check:
    """Whether dead runs left containers, networks or volumes on the engine."""
    from kafka_chaos.harness.cluster.containers.cleanup import leftovers
    from kafka_chaos.harness.cluster.containers.engine import docker_client

    runs = leftovers(docker_client())
    dead = [run.run_id for run in runs if not run.alive and not run.kept]
    kept = [run.run_id for run in runs if not run.alive and run.kept]
    if dead:
        return Check("Leftovers", "note", f"of dead runs: {', '.join(dead)}", "`kafka-chaos clean` removes them")
    if kept:
        remedy = "`kafka-chaos clean --kept` removes them"
        return Check("Leftovers", "note", f"kept clusters: {', '.join(kept)}", remedy)
    return Check("Leftovers", "ok", "none")


def check_free_memory() -> Check:
    """Whether there is memory for three brokers and the harness."""
    from kafka_chaos.harness.cluster.containers.engine import available_memory, check_memory

    free = available_memory()
    reported = "the kernel doesn't say" if free is None else f"{free / 2**30:.1f} GiB free"
    try:
        check_memory(BROKERS)
    except KafkaChaosError as error:
        return Check("Memory", "missing", reported, str(error))
    return Check("Memory", "ok", reported)


def check_ports() -> Check:
    """Whether there are free host ports for the brokers' clients."""
    from kafka_chaos.harness.cluster.containers.network import free_ports

    try:
        ports = free_ports(BROKERS)
    except KafkaChaosError as error:
        return Check("Ports", "missing", "too few are free on 127.0.0.1", str(error))
    return Check("Ports", "ok", f"free on 127.0.0.1, such as {ports[0]}")


def check_free_space() -> Check:
    """Whether there is space for run directories."""
    free = shutil.disk_usage(Path.cwd()).free
    reported = f"{free / 2**30:.1f} GiB free in {Path.cwd()}"
    if free < MIN_DISK_BYTES:
        return Check("Disk", "missing", reported, f"make {MIN_DISK_BYTES // 2**30} GiB free, or work elsewhere")
    return Check("Disk", "ok", reported)


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@click.option("--advertise", metavar="HOST", envvar=ADVERTISE, show_envvar=True,
              help="Host by which the container engine's machine is reached, if not this one.")  # fmt: skip
def doctor_command(as_json: bool, advertise: str | None) -> None:
    """Check whether this machine has what runs need, and say how to get what it lacks.

    Exit code: 0 if this machine can run experiments, even if only with DuckDB; 3 if it lacks what all experiments need.
    """
    import json

    checks = []
    signs = {"ok": "✓", "note": "·", "missing": "✗"}
    for check in examine(checked_host("--advertise", advertise)):
        checks.append(check)
        if not as_json:
            click.echo(f"{signs[check.state]} {check.name}: {check.found}")
            if check.remedy:
                click.echo(f"    {check.remedy}")
    missing = [check.name for check in checks if check.state == "missing"]
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        with_engine = "" if checks[0].state == "ok" else f" with --engine {Engine.DUCKDB}"  # Spark is checked first
        click.echo(f"missing: {', '.join(missing)}" if missing else f"ready to run experiments{with_engine}")
    sys.exit(ExitCode.ENVIRONMENT if missing else 0)
