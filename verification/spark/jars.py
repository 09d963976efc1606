"""The jars of Spark's Kafka source: copied once by Maven from a POM, then found in a cache.

Guarantee: `ensure_jars` returns a complete set or raises. The jars are those of the Spark in use: of its line and its
Scala. The cache is keyed by both and the POM's content, and filled under a temporary name, so an interrupted copy never
looks complete.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.contract.command.files import cache_home


class SparkUnavailableError(EnvironmentFailure):
    """No Spark session is possible here; the message says what to do."""


POM = Path(__file__).parent / "spark-jars" / "pom.xml"
_CORE = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<line>\d+\.\d+)\..*\.jar")
_RELEASES = {"3.5": "3.5.1"}
"""By line of Spark, the tested release of its Kafka source; of any other line, the first release."""


def java() -> str:
    """The program that runs Spark's JVM. Raises `SparkUnavailableError` if there is none."""
    home = os.environ.get("JAVA_HOME")
    of_home = None if home is None else shutil.which("java", path=str(Path(home, "bin")))
    found = of_home or shutil.which("java")
    if found is None:
        raise SparkUnavailableError("Spark needs Java 17 or later: install a JRE, or set JAVA_HOME to one")
    return found


def spark_home() -> Path:
    """The folder of the Spark in use."""
    home = os.environ.get("SPARK_HOME")
    if home is not None:
        return Path(home)
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return Path(package.origin).parent


def kafka_source() -> tuple[str, str]:
    """The release of the Kafka source that fits the Spark in use, and its Scala version.

    Raises `SparkUnavailableError` if that Spark shows no version, as a client without Spark's jars.
    """
    home = spark_home()
    for jar in sorted((home / "jars").glob("spark-core_*.jar")):
        if found := _CORE.fullmatch(jar.name):
            return _RELEASES.get(found["line"], f"{found['line']}.0"), found["scala"]
    raise SparkUnavailableError(f"{home}/jars has no spark-core: give Spark its Kafka source yourself, as a package")


def cache_dir() -> Path:
    """The folder of the jars. Raises `SparkUnavailableError`, see `kafka_source`."""
    release, scala = kafka_source()
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:8]
    return cache_home() / "spark-jars" / f"{release}_{scala}-{digest}"


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
        release, scala = kafka_source()
        command += [f"-DoutputDirectory={fresh}", "-DincludeScope=runtime"]
        command += [f"-Dkafka-source.release={release}", f"-Dscala.version={scala}"]
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
