"""An archive of the classes that Spark's JVM loads for a verification, which later JVMs map instead of loading them.

Guarantee: the archive is complete or not there. A JVM checks it against its own build and its class path; one that it
does not fit starts as it would without it. Source: "Application Class-Data Sharing", JEP 310 and JEP 350.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
from pathlib import Path

from kafka_chaos.contract.command.files import appearing_whole, cache_home
from kafka_chaos.verification.spark.jars import SparkUnavailableError, java, kafka_source, spark_home

RECORDER = "kafka_chaos.verification.warm_up"
"""The module whose program writes the archive."""
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A JVM that an archive does not fit would say so on the terminal."""


def class_archive() -> Path:
    """The archive's place; another JVM or Spark has another. Raises `SparkUnavailableError` if either is missing."""
    release, scala = kafka_source()
    told = (f"{part} {part.stat().st_mtime_ns}" for part in (Path(java()).resolve(), spark_home() / "jars"))
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:8]
    return cache_home() / "spark-classes" / f"{release}_{scala}-{digest}.jsa"


def sharing_options() -> str:
    """The JVM's options to use the archive; none if there is no archive."""
    archive = class_archive()
    return f"-XX:SharedArchiveFile={shlex.quote(str(archive))} {_SILENT}" if archive.exists() else ""


def recording_options(archive: str) -> str:
    """The JVM's options to write an archive there when it ends."""
    return f"-XX:ArchiveClassesAtExit={shlex.quote(archive)}"


def make_class_archive() -> None:
    """Verify two generated histories in a JVM that writes the archive when it ends; half a minute.

    Raises `SparkUnavailableError` with what that process said last.
    """
    archive = class_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with appearing_whole(archive) as part:
        command = [sys.executable, "-m", RECORDER, str(part)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not part.exists():
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise SparkUnavailableError(f"Spark's JVM could not write the archive of its classes; it said:\n{tail}")
