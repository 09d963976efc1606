"""The Docker engine: one way to reach it, and one sentence to do when it can't be reached."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.harness.errors import EnvironmentFailure

if TYPE_CHECKING:
    import docker

MEMORY_PER_BROKER = 400 * 2**20
"""Bytes: a broker with -Xmx300m was measured at 320 MB resident, with class-data sharing."""
MEMORY_OF_THE_HARNESS = 1_500 * 2**20
"""Bytes for the harness, ZooKeeper and Spark's local session."""


@cache
def docker_client() -> docker.DockerClient:
    """A client of the Docker engine that answers; raises `EnvironmentFailure` with the one thing to do."""
    from docker.errors import DockerException

    import docker

    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        raise EnvironmentFailure(_advice(error)) from error
    return client


def check_memory(brokers: int) -> None:
    """Refuse to start where `brokers` brokers and the harness would not fit into the free memory."""
    needed = brokers * MEMORY_PER_BROKER + MEMORY_OF_THE_HARNESS
    available = available_memory()
    if available is not None and available < needed:
        raise EnvironmentFailure(
            f"{brokers} brokers need about {needed / 2**30:.1f} GiB of memory, {available / 2**30:.1f} GiB are free: "
            "end other programs or use a machine with more memory"
        )


def available_memory() -> int | None:
    """Bytes that the kernel says could be used without swapping; None where it doesn't say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else None


def _advice(error: Exception) -> str:
    text = str(error)
    if "Permission denied" in text:
        return "the Docker engine refuses this user: add it to the group docker and log in again"
    if "DOCKER_HOST" in os.environ:
        return f"no Docker engine answers at DOCKER_HOST={os.environ['DOCKER_HOST']}: start it or unset DOCKER_HOST"
    return f"no Docker engine answers: run `make setup` (as root on Debian it installs and starts one) ({text})"


def main() -> int:
    """`python -m kafka_chaos.harness.engine`: exit 0 when an engine answers, else 3 with the reason."""
    try:
        docker_client()
    except EnvironmentFailure as failure:
        print(failure, file=sys.stderr)
        return failure.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
