"""`kafka-chaos replay`, `kafka-chaos shrink` and `kafka-chaos hunt`."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_chaos.contract.command.command_line import QUIET
from kafka_chaos.contract.command.errors import ExitCode, KafkaChaosError, UsageFailure, counted
from kafka_chaos.contract.engine_option import ENGINE
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.run_directory import VERDICT_FILE
from kafka_chaos.harness.nightly.series import Series, series_options
from kafka_chaos.harness.replay.shrinking import OutOfBudget
from kafka_chaos.verification.inputs.documents.reading import parsed

if TYPE_CHECKING:
    from kafka_chaos.harness.replay.hunting import Discovery, Round
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
    expected = _findings(run_dir)
    check_output(out, experiment)
    shown: Counter[Finding] = Counter()
    verdicts, shows = [], not (as_json or quiet)
    for number in range(1, times + 1):
        if shows:
            click.echo(f"replay {number} of {times}")
        with on_terminal(shows) as listeners:
            result = run_experiment(experiment, root=out, listeners=listeners)
        verdicts.append(result.verdict.outcome)
        shown.update(findings(result.verdict.to_json()).keys())
        if shows:
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
@click.option("--repeats", type=click.IntRange(min=1), default=10, show_default=True,
              help="How often the result is run, to say how reliably it and controls show the finding.")  # fmt: skip
@click.option("--into", type=click.Path(path_type=Path, dir_okay=False), default=Path("shrunk.yaml"), show_default=True,
              help="The experiment to write, and beside it the draft of a report, as .md.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def shrink_command(
    run_dir: Path, out: Path, named: str | None, minutes: float, confirm: int, repeats: int, into: Path, as_json: bool
) -> None:
    """Find the fewest and shortest faults of the run in RUN that still show its finding.

    Each candidate is run until it is clear whether it shows the finding reliably. The result is an experiment with the
    finding's lane, and the nearest control: a lane that differs in one setting and did not show it in the same runs.
    The draft of a report has both odds, and what was in the logs.

    Exit code: 0 if the result showed the finding in at least one run, 2 if RUN's own schedule did not show it again.
    """
    from kafka_chaos.harness.experiment.checks.output import check_writable
    from kafka_chaos.harness.replay.narrowing import Narrowing
    from kafka_chaos.harness.report.listeners.terminal import on_terminal

    def say(text: str) -> None:
        click.echo(text, err=as_json)

    one = Narrowing(
        run_dir,
        _finding(run_dir, named),
        out,
        deadline=time.monotonic() + minutes * 60,
        say=say,
        confirm=confirm,
        repeats=repeats,
    )
    check_writable(into.parent, "--into")
    say(f"shrinking {counted(len(one.whole), 'fault')} that showed {one.finding}")
    with on_terminal(not as_json, one.trials.described) as one.trials.listeners:
        try:
            confirmed = one.narrow()
        except OutOfBudget as failure:
            raise UsageFailure(f"--minutes {minutes:g}: {failure}") from None
    if not confirmed:
        sys.exit(ExitCode.UNKNOWN)
    draft = one.write(into)
    hits = one.hits[one.finding.lane]
    if as_json:
        result = {
            "finding": str(one.finding),
            "schedule": list(one.schedule),
            "shown": hits,
            "runs": one.runs,
            "controls": {what: one.hits[name] for name, what in one.controls.items()},
            "file": str(into),
            "draft": str(draft),
            "tried": [{"path": str(path), "shown": seen} for path, seen in one.trials.paths],
        }
        click.echo(json.dumps(result))
    else:
        for name, what in one.controls.items():
            say(f"the same with {what}: shown by {one.described(name)}")
        kept = f"{len(one.schedule)} of {counted(len(one.whole), 'fault')}"
        say(f"{into}, {draft}: {kept}; shown by {one.described(one.finding.lane)}")
    sys.exit(ExitCode.CONFORMS if hits else ExitCode.UNKNOWN)


def _finding(run_dir: Path, named: str | None) -> Finding:
    from kafka_chaos.harness.replay.trial import Finding

    found = _findings(run_dir)
    known = ", ".join(map(str, found)) or "nothing"
    if named is None:
        first = next((one for one, is_forbidden in found.items() if is_forbidden), None)
        if first is None:
            raise UsageFailure(f"{run_dir}: nothing forbidden was found: name a finding by --finding (found: {known})")
        return first
    finding = Finding.parse(named)
    if finding not in found:
        raise UsageFailure(f"--finding {named}: {run_dir} did not find it; it found {known}")
    return finding


def _findings(run_dir: Path) -> dict[Finding, bool]:
    from kafka_chaos.harness.replay.trial import findings

    try:
        return findings(parsed((run_dir / VERDICT_FILE).read_bytes()))
    except (OSError, ValueError):
        raise UsageFailure(f"{run_dir}: no verdict: expected the directory of a run that was verified") from None


@click.command("hunt")
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--shrink-minutes", type=click.FloatRange(min=0), default=15.0, show_default=True,
              help="How long to shrink each new finding that no known defect explains; 0: not at all.")  # fmt: skip
@click.option("--runs", "most", type=click.IntRange(min=1), help="Make at most this many runs.")
@series_options(30.0, "runs/hunt", "Where to write a folder per call, and what the next call goes on from.")
@ENGINE
def hunt_command(series: Series, experiment: Path, shrink_minutes: float, most: int | None, engine: str) -> None:
    """Look for findings: run EXPERIMENT with what its key generate draws, one after the other on one cluster.

    Fault kinds, targets, clusters and clients that were tried least are drawn most often, and those that led to
    something new: an action of the model, a state of a partition, an error, or a line of a log that no run had shown.
    It says which known defects it found, and after how many minutes. A violation that none explains is shrunk, and
    compared with its nearest control: an experiment and the draft of a report.

    Exit code: 1 for a violation in any run, else 2 if a run was unknown or failed, else 0.
    """
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.experiment.file import load_experiment
    from kafka_chaos.harness.replay.hunting import Hunt
    from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns

    say = series.say
    with ClusterOfRuns("hunt", Engine(engine)) as cluster:
        hunt = Hunt.of(experiment, cluster.run, series.out / f"{experiment.stem}.jsonl")
        check_output(series.out, load_experiment(experiment))
        before = len(hunt.rounds)
        for name, lacks in hunt.left_out.items():
            say(f"{name} is left out: {lacks}")
        say(f"hunting with seed {series.seed}" + (f", after {counted(before, 'round')}" if before else ""))
        folder, summary = series.run([experiment], most, run_one=hunt.run, load=hunt.draw)
    tried = ", ".join(f"{name} {count}" for name, count in hunt.tried.most_common())
    say(f"\n{summary.to_markdown()}\ntried: {tried or 'nothing'}")
    news = [str(len(one.new)) for one in hunt.rounds[before:]]
    say(f"new in the last {counted(len(news), 'round')}: {', '.join(news)}")
    drafted = set[tuple[int, str]]()
    for discovery, when, number in hunt.found():
        say(f"found: {discovery.name} {when} ({hunt.rounds[number].run}, lane {discovery.lane})")
        shown = number, discovery.lane
        if number >= before and not discovery.is_explained and shrink_minutes and shown not in drafted:
            drafted.add(shown)
            say(_drafted(hunt.rounds[number], discovery, folder, shrink_minutes, say))
    if series.as_json:
        click.echo(json.dumps(summary.to_json()))
    say(f"{folder / 'summary.md'}")
    sys.exit(summary.verdict.exit_code)


def _drafted(shown: Round, discovery: Discovery, folder: Path, minutes: float, say: Callable[[str], None]) -> str:
    """The outcome of a discovery: its draft, or why there is none."""
    from kafka_chaos.contract.lane.families import anomaly_named
    from kafka_chaos.harness.replay.narrowing import Narrowing
    from kafka_chaos.harness.replay.trial import Finding

    finding = Finding(discovery.lane, anomaly_named(discovery.anomaly))
    try:
        one = Narrowing(Path(shown.run), finding, folder / "runs", time.monotonic() + minutes * 60, say)
        if not one.narrow():
            return f"{finding} did not show again"
    except (KafkaChaosError, OutOfBudget) as failure:
        return f"{finding}: not shrunk: {failure}"
    return str(one.write(folder / f"{discovery.lane}-{discovery.anomaly}.yaml"))
