"""`kafka-chaos replay` and `shrink`: a run is repeated, as it was or with fewer and fewer of its faults."""

import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import click

from kafka_chaos.contract.command.command_line import QUIET
from kafka_chaos.contract.command.errors import ExitCode, counted
from kafka_chaos.contract.engines import ENGINE, Engine

_RUN = click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
_OUT = click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), show_default=True,
                    help="Where to make run directories.")  # fmt: skip


@click.command("replay")
@_RUN
@_OUT
@click.option("--times", type=click.IntRange(min=1), default=1, show_default=True, help="How often to repeat the run.")
@click.option("--print", "only_print", is_flag=True, help="Print the experiment to run as YAML; start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as one JSON object.")
@QUIET
@ENGINE
def replay_command(
    run_dir: Path, out: Path, times: int, only_print: bool, as_json: bool, quiet: bool, engine: str
) -> None:
    """Repeat the run in RUN with the same faults, at the same times and on the same containers.

    At the end, it prints how many of the new runs show each finding of RUN.

    Exit code: the gravest of the new runs: 0 conforms, 1 violation, 2 unknown.
    """
    from kafka_chaos.contract.anomalies import Verdict
    from kafka_chaos.harness.campaign.loop import violation_decides
    from kafka_chaos.harness.campaign.realised import realised_experiment
    from kafka_chaos.harness.campaign.record import Finding, findings_in, read_findings
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.experiment.file import dump_experiment
    from kafka_chaos.harness.report.listeners.terminal import on_terminal
    from kafka_chaos.harness.run.runner import run_experiment

    experiment = realised_experiment(run_dir)
    if only_print:
        click.echo(dump_experiment(experiment, {}), nl=False)
        return
    expected = read_findings(run_dir)
    check_output(out, experiment)
    replays_with: Counter[Finding] = Counter()
    verdicts, prints_progress = [], not (as_json or quiet)
    with violation_decides(lambda: Verdict.VIOLATION in verdicts):
        for number in range(1, times + 1):
            if prints_progress:
                click.echo(f"replay {number} of {times}")
            with on_terminal(prints_progress) as listeners:
                result = run_experiment(experiment, root=out, listeners=listeners, engine=Engine(engine))
            verdicts.append(result.verdict.outcome)
            replays_with.update(findings_in(result.verdict.to_json()).keys())
            if prints_progress:
                click.echo(f"{result.path}: {result.verdict.described}")
    if as_json:
        counts = {str(finding): replays_with[finding] for finding in expected}
        click.echo(json.dumps({"runs": len(verdicts), "findings": counts}))
    elif not quiet:
        for finding in expected:
            click.echo(f"{finding}: shown by {replays_with[finding]} of {counted(len(verdicts), 'replay')}")
    sys.exit(Verdict.gravest(verdicts).exit_code)


@click.command("shrink")
@_RUN
@_OUT
@click.option("--finding", "named", metavar="LANE:ANOMALY",
              help="The finding to keep; by default the first one that the prediction forbids.")  # fmt: skip
@click.option("--minutes", type=click.FloatRange(min=0), default=15.0, show_default=True,
              help="Start no run that would end after this time.")  # fmt: skip
@click.option("--confirm", type=click.IntRange(min=1), default=2, show_default=True,
              help="How often the whole schedule must show the finding before it is shrunk.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), default=10, show_default=True,
              help="Runs of the result beside its controls, to compare how often each shows the finding.")  # fmt: skip
@click.option("--into", type=click.Path(path_type=Path, dir_okay=False), default=Path("shrunk.yaml"), show_default=True,
              help="The file for the experiment; the draft of a report is written beside it, as .md.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@ENGINE
def shrink_command(
    run_dir: Path,
    out: Path,
    named: str | None,
    minutes: float,
    confirm: int,
    repeats: int,
    into: Path,
    as_json: bool,
    engine: str,
) -> None:
    """Find the fewest and shortest faults of the run in RUN that still show its finding.

    Each candidate is run until it is clear whether it shows the finding reliably. The result is an experiment with the
    finding's lane, and the nearest control: a lane that differs in one setting and did not show it in the same runs.
    The draft of a report says how often both lanes showed it, and has the unusual lines of the logs.

    Exit code: 0 if the result showed the finding in at least one run, 2 if RUN's own schedule did not show it again.
    """
    from kafka_chaos.harness.campaign.loop import Budget
    from kafka_chaos.harness.campaign.narrowing import Narrowing
    from kafka_chaos.harness.campaign.record import chosen_finding
    from kafka_chaos.harness.experiment.checks.output import check_writable
    from kafka_chaos.harness.report.listeners.terminal import on_terminal
    from kafka_chaos.harness.run.runner import run_experiment

    def say(text: str) -> None:
        click.echo(text, err=as_json)

    finding = chosen_finding(run_dir, named)
    run = partial(run_experiment, engine=Engine(engine))
    narrowing = Narrowing(run_dir, finding, out, Budget(minutes), say, run, confirm=confirm, repeats=repeats)
    check_writable(into.parent, "--into")
    say(f"shrinking {counted(len(narrowing.whole_schedule), 'fault')} that showed {finding}")
    with on_terminal(not as_json, narrowing.budget.described) as narrowing.listeners:
        confirmed = narrowing.narrow()
    if not confirmed:
        sys.exit(ExitCode.UNKNOWN)
    draft = narrowing.write(into)
    hits = narrowing.hits[finding.lane]
    if as_json:
        result = {
            "finding": str(finding),
            "schedule": list(narrowing.schedule),
            "shown": hits,
            "runs": narrowing.run_count,
            "controls": {change: narrowing.hits[name] for name, change in narrowing.controls.items()},
            "file": str(into),
            "draft": str(draft),
            "tried": [{"path": str(path), "shown": shown} for path, shown in narrowing.tried],
        }
        click.echo(json.dumps(result))
    else:
        for name, change in narrowing.controls.items():
            say(f"the same with {change}: shown by {narrowing.described(name)}")
        kept = f"{len(narrowing.schedule)} of {counted(len(narrowing.whole_schedule), 'fault')}"
        say(f"{into}, {draft}: {kept}; shown by {narrowing.described(finding.lane)}")
    sys.exit(ExitCode.CONFORMS if hits else ExitCode.UNKNOWN)
