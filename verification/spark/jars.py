"""The jars of Spark's Kafka source: copied once by Maven from a pinned POM, then found in a cache.

Guarantee: `ensure_jars` returns a complete set or raises; the cache is keyed by the POM's content and filled
under a temporary name, so an interrupted copy never looks complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kafka_chaos.verification.spark.errors import SparkUnavailableError

POM = Path(__file__).parent / "spark-jars" / "pom.xml"


def cache_dir() -> Path:
    """The folder of this POM's jars: below KAFKA_CHAOS_CACHE, XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("KAFKA_CHAOS_CACHE")
    if home is None:
        base = os.environ.get("XDG_CACHE_HOME")
        home = str((Path(base) if base else Path.home() / ".cache") / "kafka-chaos")
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    return Path(home) / "spark-jars" / digest


def ensure_jars() -> tuple[Path, ...]:
    """The Kafka source's jars, copied now if they are not in the cache.

    Raises `SparkUnavailableError`, which says what to do, if Maven is missing or fails.
    """
    folder = cache_dir()
    if not folder.is_dir():
        _copy_to(folder)
    return tuple(sorted(folder.glob("*.jar")))


def _copy_to(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SparkUnavailableError("Spark's Kafka source is fetched with Maven, once: install maven (`make setup`)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".copying-") as scratch:
        fresh = Path(scratch) / "jars"
        command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={fresh}", "-DincludeScope=runtime"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not any(fresh.glob("spark-sql-kafka-*.jar")):
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise SparkUnavailableError(f"Maven could not copy Spark's Kafka source; it said:\n{tail}")
        try:
            fresh.rename(folder)
        except OSError:
            # Another process was faster, and its set is complete, too.
            if not folder.is_dir():
                raise
