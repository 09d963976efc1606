"""One Spark session per process, warm across run directories, quiet and small by default.

Guarantee: two calls in one process share a session. Only errors are printed to the terminal, and no port is opened for
a web page. An unreachable master, or a missing PySpark or Java, is reported in one sentence.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.contract.command.errors import EnvironmentFailure, first_line
from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.engines import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2]"
DEFAULT_DRIVER_MEMORY = "2g"
QUICKLY_COMPILED_ROWS = 4_000_000
"""Below this, the JVM's second compiler takes longer than it saves."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for its application; then it also decides master and memory."""
REMOTE = "SPARK_REMOTE"
"""PySpark's own name of the variable with a server of Spark Connect."""

_SETTINGS: Mapping[str, str] = package_toml(__package__, "settings.toml")


class SparkUnavailableError(EnvironmentFailure):
    """No Spark session is possible here; the message says what to do."""


def require_engine(engine: Engine, master: str | None = None) -> None:
    """Raise `SparkUnavailableError` if the engine is Spark and PySpark is missing, or Java for a JVM of this process.

    Starts nothing: a run asks this before it starts a cluster. `master`: as for `spark_session`.
    """
    if engine != Engine.SPARK:
        return
    other = "or choose the engine duckdb, which needs neither (`--engine duckdb`)"
    if find_spec("pyspark") is None:
        raise SparkUnavailableError(f"PySpark is not installed: pip install 'kafka-chaos[spark]', {other}")
    is_active = "pyspark.sql" in sys.modules and sys.modules["pyspark.sql"].SparkSession.getActiveSession() is not None
    if is_active or SUBMITTED in os.environ or (master or os.environ.get(REMOTE, "")).startswith("sc://"):
        return
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=home and str(Path(home, "bin"))) is None and shutil.which("java") is None:
        raise SparkUnavailableError(f"Spark needs Java 17 or later: install a JRE, or set JAVA_HOME to one, {other}")


def spark_session(
    *, master: str | None = None, settings: Mapping[str, str] | None = None, rows: int | None = None
) -> SparkSession:
    """The process's Spark session, started on first use.

    `master`: any Spark master, or a server of Spark Connect (`sc://host`); default, that of spark-submit if it started
    the process, else that of SPARK_REMOTE, else `local[2]`. `settings` are Spark's own keys and override the defaults.
    A server has settings of its own.
    `rows`: how many rows are to be verified, if that is known; for few, a local JVM compiles quickly instead of
    thoroughly. Raises `SparkUnavailableError`.
    """
    require_engine(Engine.SPARK, master)
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    remote = os.environ.get(REMOTE) if master is None else master
    if remote is not None and remote.startswith("sc://"):
        from pyspark.errors import PySparkException

        try:
            return SparkSession.builder.remote(remote).getOrCreate()
        except (ImportError, PySparkException) as error:
            raise SparkUnavailableError(f"Spark Connect at {remote} can't be used: {first_line(error)}") from error
    if master is None and SUBMITTED not in os.environ:
        master = DEFAULT_MASTER
    chosen = {**_SETTINGS, **_local_settings(master or "", rows), **(settings or {})}
    if master is not None:
        chosen["spark.master"] = master
    with _quiet_start():
        if SUBMITTED not in os.environ:
            _start_context(chosen)
        return SparkSession.builder.config(map=dict(chosen)).getOrCreate()


def is_started() -> bool:
    """Whether this process has started Spark already."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _start_context(settings: Mapping[str, str]) -> None:
    """Start Spark's JVM, unless this process has one.

    In a session of its own: a signal to the process group, such as SIGTERM by a CI system, would end the JVM under a
    verification that is to end in order. It ends with this process in any case, since it reads from a pipe of it.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._active_spark_context is None:
        conf = SparkConf().setAll(list(settings.items()))
        gateway = SparkContext._gateway
        if gateway is None:
            gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext(conf=conf, gateway=gateway)


def _local_settings(master: str, rows: int | None) -> dict[str, str]:
    if not master.startswith("local"):
        return {}
    log = Path(__file__).with_name("log4j2.properties").as_uri()
    options = f"-Dlog4j2.configurationFile={log} -XX:+UseParallelGC"
    if rows is not None and rows < QUICKLY_COMPILED_ROWS:
        # On its own, the first compiler would get a fifth of the usual space, and stop once that is full.
        options += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    return {
        "spark.driver.memory": DEFAULT_DRIVER_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
    }


@contextmanager
def _quiet_start() -> Iterator[None]:
    """While the gateway starts, send the launcher's own output to its log, not to the user's terminal."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


@contextmanager
def pyspark_sockets_ignored() -> Iterator[None]:
    """Wrap a function that collects with PySpark, which leaves it to Python to close the sockets of results.

    Each socket would cause a ResourceWarning, an error where warnings are errors. The filters are restored afterwards.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="unclosed <socket", category=ResourceWarning)
        yield
