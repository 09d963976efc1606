"""`kafka-chaos nightly`: repeats within a time budget, a summary with intervals, and a trend over nightly runs."""

import json
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from kafka_chaos.harness.nightly.series import Series, series_options

DEFAULT_EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments" / "nightly"


@click.command("nightly")
@click.argument("experiments", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--repeats", type=click.IntRange(min=1), help="Run each experiment at most this many times.")
@click.option("--on", metavar="VERSION/MODE",
              help="Where an experiment names no cluster: such as 4.2.0/kraft; `turn` changes it daily.")  # fmt: skip
@click.option("--history", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Folder with summary.json files of former nightly runs, for the trend.")  # fmt: skip
@series_options(60.0, "runs/nightly", "Where to write a folder per nightly run, and trend.html.")
def nightly_command(
    series: Series, experiments: tuple[Path, ...], repeats: int | None, on: str | None, history: Path | None
) -> None:
    """Repeat experiments (files or folders) in turn and count what every lane shows, with 95 % intervals.

    Without EXPERIMENTS, it repeats those of experiments/nightly: every acks setting × idempotence ×
    min.insync.replicas × unclean election under kill, stop, pause and partition, and under two faults of each of six
    families; transactional producers; consumer groups and loops. It names those that this machine can't run, and leaves
    them out.

    Exit code: 1 for a violation in any run, else 2 if a run was unknown or failed, else 0.
    """
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.experiment.file import load_experiment
    from kafka_chaos.harness.nightly.nightly_run import cluster_on, experiments_in, load_on, why_impossible
    from kafka_chaos.harness.nightly.trend import write_trend
    from kafka_chaos.harness.report.listeners.chosen import write_job_summary

    cluster = None if on is None else cluster_on(on, datetime.now(UTC).date())
    chosen = experiments_in(experiments or [DEFAULT_EXPERIMENTS])
    if not experiments:
        impossible = {path: reason for path in chosen if (reason := why_impossible(path)) is not None}
        chosen = [path for path in chosen if path not in impossible]
        for path, reason in impossible.items():
            series.say(f"{path.name} is left out: {reason}")
    for path in chosen:
        check_output(series.out, load_experiment(path))
    if cluster is not None:
        series.say(f"on Kafka {', '.join(cluster.values())}")
    folder, summary = series.run(chosen, repeats, load=partial(load_on, cluster))
    if history is not None:
        write_trend(series.out, [*sorted(history.rglob("*.json")), *sorted(series.out.glob("*/summary.json"))])
    write_job_summary(summary.to_markdown())
    if series.as_json:
        click.echo(json.dumps(summary.to_json()))
    series.say(f"\n{summary.to_markdown()}\n{folder / 'summary.md'}\n{series.out / 'trend.html'}")
    sys.exit(summary.verdict.exit_code)
