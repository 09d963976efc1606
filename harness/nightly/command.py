"""`kafka-chaos nightly`: repeats within a time budget, a summary with intervals, and a trend over nightly runs."""

from __future__ import annotations

import json
import random
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from kafka_chaos.contract.command.command_line import QUIET

DEFAULT_EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments" / "nightly"


@click.command("nightly")
@click.argument("experiments", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--minutes", type=click.FloatRange(min=0), default=60.0, show_default=True,
              help="Start no run that would end later; every experiment runs at least once.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), help="Run each experiment at most this many times.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs/nightly"),
              show_default=True, help="Where to write a folder per nightly run, and trend.html.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), help="Decides the seed of every run, instead of the files; drawn by default."
)
@click.option("--on", metavar="VERSION/MODE",
              help="Where an experiment names no cluster: such as 4.2.0/kraft; `turn` changes it daily.")  # fmt: skip
@click.option("--history", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Folder with summary.json files of former nightly runs, for the trend.")  # fmt: skip
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False),
              help="Add every run to this record, and compare what it said before with what runs show.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print summary.json at the end, nothing else.")
@QUIET
def nightly_command(
    experiments: tuple[Path, ...],
    minutes: float,
    repeats: int | None,
    out: Path,
    seed: int | None,
    on: str | None,
    history: Path | None,
    record: Path | None,
    as_json: bool,
    quiet: bool,
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
    from kafka_chaos.harness.nightly.nightly_run import Nightly, Turn, experiments_in, why_impossible
    from kafka_chaos.harness.nightly.trend import write_trend
    from kafka_chaos.harness.report.listeners.chosen import write_job_summary
    from kafka_chaos.harness.report.listeners.terminal import on_terminal

    def say(text: str) -> None:
        if not (as_json or quiet):
            click.echo(text)

    turn = None if on is None else Turn.parse(on, datetime.now(UTC).date())
    chosen = experiments_in(experiments or [DEFAULT_EXPERIMENTS])
    if not experiments:
        impossible = {path: reason for path in chosen if (reason := why_impossible(path)) is not None}
        chosen = [path for path in chosen if path not in impossible]
        for path, reason in impossible.items():
            say(f"{path.name} is left out: {reason}")
    for path in chosen:
        check_output(out, load_experiment(path))
    nightly = Nightly(
        experiments=chosen,
        out=out,
        minutes=minutes,
        seed=random.SystemRandom().randrange(2**31) if seed is None else seed,
        repeats=repeats,
        say=say,
        record=record,
    )
    if turn is not None:
        nightly.load = turn.load
        say(f"on {turn}")
    with on_terminal(not (as_json or quiet), nightly.described) as nightly.listeners:
        summary = nightly.run()
    if history is not None:
        write_trend(out, [*sorted(history.rglob("*.json")), *sorted(out.glob("*/summary.json"))])
    write_job_summary(summary.to_markdown())
    if as_json:
        click.echo(json.dumps(summary.to_json()))
    say(f"\n{summary.to_markdown()}\n{nightly.folder / 'summary.md'}\n{out / 'trend.html'}")
    sys.exit(summary.verdict.exit_code)
