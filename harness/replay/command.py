"""`kafka-chaos replay`, `kafka-chaos shrink` and `kafka-chaos hunt`."""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.command.command_line import QUIET
from kafka_chaos.contract.command.errors import ExitCode, UsageFailure, counted
from kafka_chaos.contract.engine_option import ENGINE
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.run_directory import VERDICT_FILE
from kafka_chaos.verification.inputs.documents.reading import parsed

if TYPE_CHECKING:
    from kafka_chaos.harness.replay.trial import Finding


_RUN = click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
_OUT = click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), show_default=True,
                    help="Where to make run directories.")  # fmt: skip


@click.command("replay")
@_RUN
@_OUT
@click.option("--times", type=click.IntRange(min=1), default=1, show_default=True, help="How often to run it.")
@click.option("--print", "only_print", is_flag=True, help="Print the realised experiment as YAML; start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as one JSON object.")
@QUIET
def replay_command(run_dir: Path, out: Path, times: int, only_print: bool, as_json: bool, quiet: bool) -> None:
    """Run what the run in RUN did again: the same faults, at the times and containers that it realised.

    It ends with how many of the new runs show each finding of RUN.

    Exit code: the gravest of the new runs: 0 conforms, 1 violation, 2 unknown.
    """
    from kafka_chaos.contract.anomalies import Verdict
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.experiment.file import dump_experiment
    from kafka_chaos.harness.replay.realised import realised_experiment
    from kafka_chaos.harness.replay.trial import findings
    from kafka_chaos.harness.report.listeners.terminal import on_terminal
    from kafka_chaos.harness.run.runner import run_experiment

    experiment = realised_experiment(run_dir)
    if only_print:
        click.echo(dump_experiment(experiment, {}), nl=False)
        return
    expected = findings(_verdict(run_dir))
    check_output(out, experiment)
    shown: Counter[Finding] = Counter()
    verdicts = []
    for number in range(1, times + 1):
        if not (as_json or quiet):
            click.echo(f"replay {number} of {times}")
        with on_terminal(not (as_json or quiet)) as listeners:
            result = run_experiment(experiment, root=out, listeners=listeners)
        verdicts.append(result.verdict.outcome)
        shown.update(set(findings(result.verdict.to_json())))
        if not (as_json or quiet):
            click.echo(f"{result.path}: {result.verdict.described}")
    if as_json:
        again = {str(finding): shown[finding] for finding in expected}
        click.echo(json.dumps({"runs": times, "findings": again}))
    elif not quiet:
        for finding in expected:
            click.echo(f"{finding}: shown by {shown[finding]} of {counted(times, 'replay')}")
    sys.exit(Verdict.gravest(verdicts).exit_code)


@click.command("shrink")
@_RUN
@_OUT
@click.option("--finding", "named", metavar="LANE:ANOMALY",
              help="What must be shown; by default the first finding that the prediction forbids.")  # fmt: skip
@click.option("--minutes", type=click.FloatRange(min=0), default=15.0, show_default=True,
              help="Start no run that would end later.")  # fmt: skip
@click.option("--confirm", type=click.IntRange(min=1), default=2, show_default=True,
              help="How often the whole schedule must show the finding before it is shrunk.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True,
              help="How often the result is run, to say how reliably it shows the finding.")  # fmt: skip
@click.option("--into", type=click.Path(path_type=Path, dir_okay=False), default=Path("shrunk.yaml"), show_default=True,
              help="The experiment to write.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def shrink_command(
    run_dir: Path, out: Path, named: str | None, minutes: float, confirm: int, repeats: int, into: Path, as_json: bool
) -> None:
    """Find the fewest and shortest faults of the run in RUN that still show its finding.

    Each candidate is run until it is clear whether it shows the finding reliably. The result is an experiment, with the
    number of its runs that showed the finding.

    Exit code: 0 if the result showed the finding in at least one run, 2 if RUN's own schedule did not show it again.
    """
    from kafka_chaos.harness.experiment.checks.output import check_writable
    from kafka_chaos.harness.replay.realised import realised_values
    from kafka_chaos.harness.replay.shrinking import OutOfBudget, Shrinking
    from kafka_chaos.harness.replay.trial import Trials
    from kafka_chaos.harness.report.listeners.terminal import on_terminal

    def say(text: str) -> None:
        click.echo(text, err=as_json)

    values = realised_values(run_dir)
    finding = _finding(run_dir, named)
    phase = _phase_of(values, finding.lane, run_dir)
    check_writable(into.parent, "--into")
    # The last runs say how reliable the result is: their time is kept free.
    trials = Trials(values, phase["phase"], finding, out, time.monotonic() + minutes * 60)
    shrinking = Shrinking(trials, say)
    schedule = tuple(phase["schedule"])
    say(f"shrinking {counted(len(schedule), 'fault')} that showed {finding}")
    with on_terminal(not as_json, trials.described) as trials.listeners:
        try:
            confirmed = shrinking.confirm(schedule, wanted=confirm)
        except OutOfBudget:
            took = max(trials.seconds, default=0.0)
            raise UsageFailure(f"--minutes {minutes:g}: too short for the first runs; one took {took:.0f} s") from None
        if not confirmed:
            say(f"the schedule showed {finding} in only {shrinking.shown} of {counted(shrinking.tried, 'run')}")
            sys.exit(ExitCode.UNKNOWN)
        trials.deadline -= repeats * max(trials.seconds)
        smallest = shrinking.shrink()
        trials.deadline = float("inf")
        hits = sum(trials(smallest) for _ in range(repeats))
    trials.write(smallest, into)
    if as_json:
        result = {
            "finding": str(finding),
            "schedule": list(smallest),
            "shown": hits,
            "runs": repeats,
            "file": str(into),
        }
        click.echo(json.dumps({**result, "tried": [{"path": str(path), "shown": seen} for path, seen in trials.paths]}))
    else:
        shown = f"shown by {hits} of {counted(repeats, 'run')}"
        say(f"{into}: {len(smallest)} of {counted(len(schedule), 'fault')}; {shown}")
    sys.exit(ExitCode.CONFORMS if hits else ExitCode.UNKNOWN)


def _finding(run_dir: Path, named: str | None) -> Finding:
    from kafka_chaos.harness.replay.trial import Finding, findings, forbidden

    verdict = _verdict(run_dir)
    if named is None:
        found = forbidden(verdict)
        if not found:
            others = ", ".join(str(one) for one in findings(verdict)) or "nothing"
            raise UsageFailure(f"{run_dir}: nothing forbidden was found: name a finding by --finding (found: {others})")
        return found[0]
    finding = Finding.parse(named)
    if finding not in findings(verdict):
        known = ", ".join(str(one) for one in findings(verdict)) or "nothing"
        raise UsageFailure(f"--finding {named}: {run_dir} did not find it; it found {known}")
    return finding


def _phase_of(values: dict[str, Any], lane: str, run_dir: Path) -> dict[str, Any]:
    phase: dict[str, Any] = next(one for one in values["phases"] if lane in [entry["lane"] for entry in one["lanes"]])
    if not phase["schedule"]:
        raise UsageFailure(f"{run_dir}: the phase {phase['phase']} has no timed faults to shrink")
    return phase


def _verdict(run_dir: Path) -> dict[str, Any]:
    path = run_dir / VERDICT_FILE
    try:
        verdict = parsed(path.read_bytes())
    except (OSError, ValueError):
        raise UsageFailure(f"{run_dir}: no verdict: expected the directory of a run that was verified") from None
    assert isinstance(verdict, dict)
    return verdict


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
@ENGINE
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
    engine: str,
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
        hunt.cluster.engine = Engine(engine)
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
