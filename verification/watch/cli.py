"""`kafka-chaos watch [DIR]`: losses and duplicates of an unfinished run.

Guarantee: ends on Ctrl-C or SIGTERM, with the run, or after a quiet time, with the counts of everything that was read
until then. The next watch of the same directory continues there, and reads nothing twice.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, counted
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import LANES_FILE, PREDICTION_FILE
from kafka_chaos.verification.inputs.file_systems.storage import is_remote, run_path
from kafka_chaos.verification.inputs.topics.java_client import read_client_config, spark_options
from kafka_chaos.verification.watch.follow import Announcer, Ending, Follow, RunningRun, await_cluster, find_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_chaos.verification.watch.watch import Progress

STATE = ".watch"
RUNS = Path("runs")


def _existing(context: click.Context, parameter: click.Parameter, given: str) -> str:
    """The path, if it has a scheme or is a local folder."""
    if not is_remote(given):
        click.Path(exists=True, file_okay=False).convert(given, parameter, context)
    return given


@click.command("watch")
@click.argument("run_dir", metavar="[DIR]", default=str(RUNS), callback=_existing)
@click.option("--bootstrap-servers", metavar="SERVERS",
              help="Read the topics of this cluster. Default: the run's cluster, or DIR/log as it grows.")  # fmt: skip
@click.option("--client-config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="With --bootstrap-servers: librdkafka's key=value lines, as for SASL and TLS.")  # fmt: skip
@click.option("--lateness", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="Seconds that an acknowledged record may be missing from the log.")  # fmt: skip
@click.option("--once", is_flag=True, help="End after reading what exists now.")
@click.option("--until-quiet", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="End after this many seconds without new records.")  # fmt: skip
@click.option("--spark-master", metavar="MASTER", help="Spark master to run on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per batch.")
def watch_command(run_dir: str, as_json: bool, **options: Any) -> None:
    """Report lost and duplicated records of a run while it goes on, in bounded memory.

    DIR is a run directory, or a folder of them (by default runs/) whose newest unfinished run is watched. Ctrl-C ends
    the watch after the current batch, with the findings so far. A second Ctrl-C ends it at once.
    A run directory may also lie on a file system that Hadoop knows (hdfs:, s3a: …).

    Exit code: 0 if the watch found no loss or duplicate that the prediction forbids, also after Ctrl-C; 1 if it found
    one; 2 if a lane has no acknowledged record; 3 if Spark or Kafka can't be reached; 64 for a directory without a run;
    130 if it was interrupted before it had read anything.
    """
    from kafka_chaos.verification.inputs.run_directory import read_lanes

    if is_remote(run_dir):
        _session(options["spark_master"], with_kafka_source=True)
    run = find_run(run_path(run_dir))
    lanes = read_lanes(run.path / LANES_FILE)
    progress, interrupted = _watch(run, lanes, as_json, **options)
    _print(progress, as_json, is_final=True)
    sys.exit(_conclude(run, lanes, progress, interrupted=interrupted, as_json=as_json))


def _watch(
    run: RunningRun,
    lanes: tuple[Lane, ...],
    as_json: bool,
    *,
    bootstrap_servers: str | None,
    client_config: Path | None,
    lateness: float,
    once: bool,
    until_quiet: float | None,
    spark_master: str | None,
) -> tuple[Progress, bool]:
    """Watch to the end; returns the counts, and whether the watch was interrupted."""
    news = threading.Event()

    def on_progress(progress: Progress) -> None:
        news.set()
        _print(progress, as_json)

    say = (lambda text: None) if as_json else click.echo
    with Announcer(run, say, until=news):
        servers = bootstrap_servers or (run.bootstrap_servers if once and run.goes_on else await_cluster(run))
        source = "its topics" if servers else "log/"
        say(f"watching {run.path}: {counted(len(lanes), 'lane')}, against {source}")
        session = _session(spark_master, with_kafka_source=servers is not None)
        from kafka_chaos.verification.watch.watch import Watch

        if bootstrap_servers is None and run.client_config:
            client_config = Path(run.client_config)
        options = {} if client_config is None else spark_options(read_client_config(client_config))
        # Topics and log/ are different streams: the progress in one says nothing about the other.
        state = run.path / STATE / ("topics" if servers else "log")
        watch = Watch(session, run.path, lanes, state, servers, lateness, on_progress, options)
        with Ending() as ending:
            follow = Follow(run, watch, ending, news, until_quiet=until_quiet)
            problem = follow.once() if once else follow.to_the_end()
            if follow.log_is_kept and not follow.has_read_all and not ending.was_asked:
                # The run removed its cluster before a batch had read the topics to their end.
                say("the run's cluster is gone: reading the log/ that it kept")
                watch = Watch(session, run.path, lanes, run.path / STATE / "log", None, lateness, on_progress)
                follow = Follow(run, watch, ending, news, until_quiet=None)
                problem = follow.once()
    if problem is not None:
        raise EnvironmentFailure(f"the watch ended: {problem}")
    return watch.final(settled=follow.has_read_all), ending.was_asked


def _session(master: str | None, *, with_kafka_source: bool) -> SparkSession:
    from kafka_chaos.verification.spark.session import spark_session

    # A failure is reported in one line, and retried while the run continues. Spark's stack traces add nothing.
    return spark_session(master=master, with_kafka_source=with_kafka_source, settings={"spark.log.level": "OFF"})


def _conclude(
    run: RunningRun, lanes: tuple[Lane, ...], progress: Progress, *, interrupted: bool, as_json: bool
) -> ExitCode:
    """Print the findings in one line, and return the exit code."""
    from kafka_chaos.verification.inputs.documents.predictions import prediction_of, read_predictions

    if not any(seen.acknowledged or seen.stored for seen in progress.lanes.values()):
        click.echo("kafka-chaos: nothing was read", err=True)
        return ExitCode.INTERRUPTED if interrupted else ExitCode.UNKNOWN
    # Read only now: a run predicts again if a lock-step phase missed its conditions.
    given = read_predictions(run.path / PREDICTION_FILE, lanes)
    forbidden = []
    for lane in lanes:
        predicted = prediction_of(run.path, lane, given.get(lane.lane)).statuses
        seen = progress.lanes[lane.lane]
        for anomaly, count in ((Anomaly.LOST_WRITE, seen.lost), (Anomaly.DUPLICATE, seen.duplicate)):
            if count and predicted[anomaly] == Status.FORBIDDEN:
                forbidden.append(f"{lane.lane}: {anomaly} is forbidden and was found: {count:,}")
    idle = [lane.lane for lane in lanes if not progress.lanes[lane.lane].acknowledged]
    if idle and not forbidden:
        click.echo(f"kafka-chaos: nothing was acknowledged in {', '.join(idle)}: no record could be lost", err=True)
        return ExitCode.UNKNOWN
    if not as_json:
        for line in forbidden or ["nothing was lost or duplicated that the prediction forbids"]:
            click.echo(line)
    return ExitCode.VIOLATION if forbidden else ExitCode.CONFORMS


def _print(progress: Progress, as_json: bool, *, is_final: bool = False) -> None:
    if as_json:
        lanes = {name: asdict(seen) for name, seen in progress.lanes.items()}
        entry = {"batch": progress.batch, "final": is_final, "open_words": progress.open_words, "lanes": lanes}
        click.echo(json.dumps(entry))
        return
    click.echo(f"{'in the end' if is_final else f'batch {progress.batch}'} ({progress.open_words:,} words open)")
    for name, seen in progress.lanes.items():
        counts = f"{seen.acknowledged:,} acknowledged, {seen.stored:,} in the log"
        click.echo(f"  {name}: {counts}, {seen.lost:,} lost, {seen.duplicate:,} duplicates")
