"""`kafka-chaos reproduce`: the model's stories of what it permits, played step by step on real brokers."""

import sys
from pathlib import Path
from typing import Any

import click

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.command_line import console
from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import KRAFT, USUAL_VERSION, ZOOKEEPER
from kafka_chaos.reference_model.lane_options import lane_options, refused_by_option

RUNS = Path("runs")


@click.command("reproduce")
@lane_options(
    left_out=("partitions", "replication_factor", "metadata_mode", "elr"),
    kafka_version={
        "help": f"Version of the brokers; {USUAL_VERSION} unless given. Any other than that runs in KRaft mode."
    },
)
@click.option("--anomaly", type=click.Choice([str(one) for one in Anomaly]), help="What the story is to show.")
@click.option("--matrix", is_flag=True,
              help="Play the stories of the standard matrix instead, those shown least often first.")  # fmt: skip
@click.option("--results", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="With --matrix: add to the results in this JSON file, and write a page beside it.")  # fmt: skip
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True),
              help="With --matrix: begin no further story after this time.")  # fmt: skip
@click.option("--times", type=click.IntRange(min=1), default=1, show_default=True, help="How often to play the story.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=RUNS, show_default=True,
              help="Where to make run directories.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the story, or why it can't be played; start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def reproduce_command(
    faults: tuple[str, ...],
    kafka_version: str | None,
    anomaly: str | None,
    matrix: bool,
    results: Path | None,
    minutes: float | None,
    times: int,
    out: Path,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Play the story by which `predict` permits an anomaly on real brokers, step by step.

    After each step the brokers have to be in the state that the model tells. Links hold the followers' fetches, so that
    nothing is replicated before its step. The run directory is verified like any other.

    Exit code: 0 the anomaly is shown, 1 a violation, 2 it is not shown, 3 the environment failed, 64 there is no such
    story, or brokers can't be made to take one of its steps.
    """
    if (anomaly is not None) == matrix:
        raise UsageFailure("reproduce: expected either --anomaly or --matrix")
    if (results is not None) != matrix:
        raise UsageFailure("reproduce: --matrix and --results go together")
    from kafka_chaos.conformance.reproduce import plays
    from kafka_chaos.conformance.reproduce.claims import claim
    from kafka_chaos.harness.cluster.containers.versions import check_version
    from kafka_chaos.harness.experiment.checks.output import check_writable
    from kafka_chaos.harness.report.listeners.waiting import Waiting

    _require_links()
    check_writable(out, "--out")
    if not (dry_run or as_json or quiet):
        click.get_current_context().with_resource(Waiting("playing on brokers", console=console()))
    how = plays.How(out, times, minutes, dry_run, as_json, quiet)
    version = kafka_version or USUAL_VERSION
    cluster = version, ZOOKEEPER if version == USUAL_VERSION else KRAFT
    check_version(*cluster)
    if results is not None:
        sys.exit(plays.play_matrix(cluster, results, how))
    with refused_by_option():
        lane = Lane(lane="story", faults=faults, kafka_version=cluster[0], metadata_mode=cluster[1], **settings)
    sys.exit(plays.play_claim(claim(lane, Anomaly(str(anomaly))), how))


def _require_links() -> None:
    from kafka_chaos.faults.links.on_frames import why_no_links

    if (reason := why_no_links()) is not None:
        raise EnvironmentFailure(f"reproduce holds the followers' fetches by links: {reason}")
