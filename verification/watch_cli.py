"""`kafka-chaos watch DIR`: losses and duplicates of a run that is going on.

Guarantee: ends on Ctrl-C, SIGTERM, or when nothing new has come for as long as asked for, with the counts of all that
was read by then; what was watched once is not read again by the next watch of the same directory.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from kafka_chaos.reference_model.anomalies import Anomaly, Status
from kafka_chaos.verification.contract import RunDirectoryError
from kafka_chaos.verification.session import SparkUnavailableError, spark_session

if TYPE_CHECKING:
    from kafka_chaos.verification.watch import Progress

EXIT_VIOLATION, EXIT_ENVIRONMENT, EXIT_USAGE = 1, 3, 64
STATE = ".watch"


@click.command("watch")
@click.argument("run_dir", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--bootstrap-servers", metavar="SERVERS", help="Read the topics live; default: DIR/log, as it grows.")
@click.option("--lateness", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="Seconds for which an acknowledged record may be missing from the log.")  # fmt: skip
@click.option("--once", is_flag=True, help="Read what is there, and end.")
@click.option("--until-quiet", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="End when nothing new has come for so long.")  # fmt: skip
@click.option("--spark-master", metavar="MASTER", help="Any Spark master.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per batch.")
def watch_command(
    run_dir: Path,
    bootstrap_servers: str | None,
    lateness: float,
    once: bool,
    until_quiet: float | None,
    spark_master: str | None,
    as_json: bool,
) -> None:
    """Report lost and duplicated records of a run while it goes on, in bounded memory.

    Exit code: 1 if something was lost or duplicated that the prediction forbids, 0 if not; 3 if Spark or Kafka cannot
    be reached, 64 for a directory without lanes.json.
    """
    from kafka_chaos.verification.checker import prediction_of
    from kafka_chaos.verification.run_directory import read_lanes, read_predictions

    try:
        lanes = read_lanes(run_dir / "lanes.json")
        given = read_predictions(run_dir / "prediction.json")
        session = spark_session(master=spark_master, with_kafka_source=bootstrap_servers is not None)
    except RunDirectoryError as error:
        _fail(str(error), EXIT_USAGE)
    except SparkUnavailableError as error:
        _fail(str(error), EXIT_ENVIRONMENT)
    from kafka_chaos.verification.watch import Watch

    news = threading.Event()

    def tell(progress: Progress) -> None:
        news.set()
        _print(progress, as_json)

    watch = Watch(session, run_dir, lanes, run_dir / STATE, bootstrap_servers, lateness, tell)
    _run(watch.start(once=once), news, once=once, until_quiet=until_quiet)
    final = watch.final()
    _print(final, as_json, is_final=True)
    sys.exit(EXIT_VIOLATION if any(_violates(prediction_of(given, lane), final, lane.lane) for lane in lanes) else 0)


def _run(query: object, news: threading.Event, *, once: bool, until_quiet: float | None) -> None:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming.query import StreamingQuery

    assert isinstance(query, StreamingQuery)
    try:
        if once or until_quiet is None:
            query.awaitTermination()
        else:
            while query.isActive and news.wait(until_quiet):
                news.clear()
            query.stop()
            query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    except StreamingQueryException as error:
        _fail(f"the watch ended: {str(error).splitlines()[0]}", EXIT_ENVIRONMENT)
    finally:
        query.stop()


def _violates(predicted: dict[Anomaly, Status], progress: Progress, lane: str) -> bool:
    counts = progress.lanes[lane]
    found = {Anomaly.LOST_WRITE: counts.lost, Anomaly.DUPLICATE: counts.duplicate}
    return any(count and predicted[anomaly] == Status.FORBIDDEN for anomaly, count in found.items())


def _print(progress: Progress, as_json: bool, *, is_final: bool = False) -> None:
    lanes = {
        name: {"acknowledged": seen.acknowledged, "stored": seen.stored, "lost": seen.lost, "duplicate": seen.duplicate}
        for name, seen in progress.lanes.items()
    }
    if as_json:
        entry = {"batch": progress.batch, "final": is_final, "open_words": progress.open_words, "lanes": lanes}
        click.echo(json.dumps(entry))
        return
    click.echo(f"{'in the end' if is_final else f'batch {progress.batch}'} ({progress.open_words:,} words open)")
    for name, seen in progress.lanes.items():
        told = f"{seen.acknowledged:,} acknowledged, {seen.stored:,} in the log"
        click.echo(f"  {name}: {told}, {seen.lost:,} lost, {seen.duplicate:,} duplicates")


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"kafka-chaos: {message}", err=True)
    sys.exit(code)
