"""`kafka-chaos hunt`: random schedules within a time budget, a summary, and a small experiment for each finding."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import click

from kafka_chaos.contract.command_line import QUIET


@click.command("hunt")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--minutes", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="Start no run that would end later; one runs at least.")  # fmt: skip
@click.option("--shrink-minutes", type=click.FloatRange(min=0), default=15.0, show_default=True,
              help="How long to shrink the schedule of each forbidden finding, afterwards.")  # fmt: skip
@click.option("--runs", "most", type=click.IntRange(min=1), help="Make at most this many runs.")
@click.option("--seed", type=click.IntRange(min=0), help="Decides the seed of every run; drawn by default.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs/hunt"), show_default=True,
              help="Where to write a folder per hunt.")  # fmt: skip
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False),
              help="Add every run to this record, and compare what it said before with what runs show.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print summary.json at the end, nothing else.")
@QUIET
def hunt_command(
    experiment: Path,
    minutes: float,
    shrink_minutes: float,
    most: int | None,
    seed: int | None,
    out: Path,
    record: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Look for findings: run EXPERIMENT with random schedules, one after the other on one cluster.

    Its schedule has the key generate. Fault kinds and targets that were tried least are drawn most often, and those
    that led to an action of the model that a lane had not shown yet. The schedule of each finding that the predictions
    forbid is shrunk to an experiment of its own.

    Exit code: 1 for a violation in any run, else 2 if a run was unknown or failed, else 0.
    """
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.experiment.file import load_experiment
    from kafka_chaos.harness.nightly.nightly_run import Nightly
    from kafka_chaos.harness.replay.actions import ACTIONS
    from kafka_chaos.harness.replay.hunting import Hunt
    from kafka_chaos.harness.report.listeners.terminal import on_terminal

    def say(text: str) -> None:
        if not (as_json or quiet):
            click.echo(text)

    with Hunt.of(experiment) as hunt:
        check_output(out, load_experiment(experiment))
        nightly = Nightly(
            experiments=[experiment],
            out=out,
            minutes=minutes,
            seed=random.SystemRandom().randrange(2**31) if seed is None else seed,
            repeats=most,
            say=say,
            record=record,
            run_one=hunt.run,
            load=hunt.draw,
        )
        say(f"hunting with seed {nightly.seed}")
        with on_terminal(not (as_json or quiet), nightly.described) as nightly.listeners:
            summary = nightly.run()
        tried = ", ".join(f"{name} {count}" for name, count in hunt.tried.most_common())
    lanes = {lane for lane, _ in hunt.shown}
    say(f"\n{summary.to_markdown()}\ntried: {tried or 'nothing'}")
    say(f"shown: {len(hunt.shown)} of {len(lanes) * len(ACTIONS)} pairs of a lane and an action of the model")
    for finding in hunt.found:
        small = hunt.shrink(finding, nightly.folder, minutes=shrink_minutes, say=say)
        say(f"{finding}: {small or 'did not show again'}")
    if as_json:
        click.echo(json.dumps(summary.to_json()))
    say(f"{nightly.folder / 'summary.md'}")
    sys.exit(summary.verdict.exit_code)
