"""`kafka-chaos import …`: turns histories of other tools into run directories.

Guarantee: writes nothing by halves. A line that can't be understood exits with 64, naming file and line.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, READ_COMMITTED
from kafka_chaos.reference_model.lane_options import lane_options

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group("import")
def import_command() -> None:
    """Turn a history that another tool recorded into a run directory, for `kafka-chaos verify`."""


def _lane_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options for the configuration under which the history was recorded: predictions depend on it."""
    of_lane = lane_options("cleanup_policy", left_out=("partitions",))
    where = "The run directory to make: a local path, or a URI that PyArrow knows (hdfs:, s3: …)."
    return click.option("--out", required=True, metavar="DIR", help=where)(of_lane(command))


@import_command.command("verifiable")
@click.argument("producers", metavar="PRODUCER_OUTPUT…", nargs=-1, required=True, type=_FILE)
@click.option("--consumer", "consumers", type=_FILE, multiple=True, required=True,
              help="Output of VerifiableConsumer --verbose. Give it once per consumer.")  # fmt: skip
@click.option("--skip-other-lines", "skip_others", is_flag=True,
              help="Leave out lines that are no JSON objects, such as those of a log, and say how many.")  # fmt: skip
@_lane_options
def verifiable_command(
    producers: tuple[Path, ...], consumers: tuple[Path, ...], out: str, skip_others: bool, **settings: Any
) -> None:
    """Import the output of Kafka's VerifiableProducer (and VerifiableConsumer), one JSON object per line."""
    from kafka_chaos.verification.importers.verifiable import import_verifiable

    lanes, skipped = import_verifiable(producers, consumers, out, settings=settings, skip_others=skip_others)
    _say_what_is_there(lanes, out)
    if skip_others:
        click.echo(f"{counted(skipped, 'line')} of other origin left out")


@import_command.command("jepsen")
@click.argument("history", metavar="HISTORY", type=_FILE)
@click.option("--lane", default="jepsen", show_default=True, help="The lane's name.")
@click.option(
    "--transactional/--no-transactional",
    default=None,
    help="Whether each operation was a transaction; by default, if the log has an operation txn.",
)
@click.option(
    "--isolation",
    type=click.Choice(ISOLATION_LEVELS),
    default=READ_COMMITTED,
    show_default=True,
    help="The isolation level of the consumers, with transactions.",
)
@_lane_options
def jepsen_command(
    history: Path, lane: str, transactional: bool | None, isolation: str, out: str, **settings: Any
) -> None:
    """Import an operation log of Jepsen's kafka workload: history.edn, or the same as JSON (.json, .jsonl)."""
    from kafka_chaos.verification.importers.jepsen import import_jepsen

    lanes = import_jepsen(history, out, lane=lane, transactional=transactional, isolation=isolation, settings=settings)
    _say_what_is_there(lanes, out)


def _say_what_is_there(lanes: list[Lane], out: str) -> None:
    for lane in lanes:
        click.echo(f"{out}: lane {lane.lane}, {counted(lane.partitions, 'partition')}")
