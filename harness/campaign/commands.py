"""`kafka-chaos nightly`, `hunt` and `atlas`: campaigns with a folder of their own, and the options that they share."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.command_line import QUIET, ExperimentPath
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.engines import ENGINE, Engine

if TYPE_CHECKING:
    from kafka_chaos.harness.campaign.counted_campaign import CountedCampaign
    from kafka_chaos.harness.campaign.hunting import Discovery, Hunt, Round
    from kafka_chaos.harness.campaign.loop import Policy, RunExperiment

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments" / "nightly"
STANDARD_PLAN = Path(__file__).with_name("standard.yaml")


@dataclass(frozen=True, kw_only=True)
class CampaignOptions:
    """The options that `nightly`, `hunt` and `atlas` share. `seed` decides the seeds of all runs."""

    minutes: float
    seed: int
    out: Path
    record: Path | None
    as_json: bool
    quiet: bool

    def say(self, text: str) -> None:
        """Print a line for people, unless --json or --quiet is set."""
        if not (self.as_json or self.quiet):
            click.echo(text)

    def follow(
        self, make_policy: Callable[[random.Random], Policy[None]], runs: int | None, run_experiment: RunExperiment
    ) -> CountedCampaign:
        """Make the runs that a policy wants, and show them on the terminal; returns the campaign, which counted them.

        `make_policy` gets the random generator that draws the runs' seeds. `runs`: the largest number of runs.
        """
        from kafka_chaos.harness.campaign.counted_campaign import CountedCampaign
        from kafka_chaos.harness.campaign.loop import Budget, violation_decides
        from kafka_chaos.harness.report.listeners.terminal import on_terminal

        budget = Budget(self.minutes, runs)
        campaign = CountedCampaign(self.out, budget, self.seed, self.say, run_experiment, record=self.record)
        with (
            violation_decides(lambda: campaign.verdict is Verdict.VIOLATION),
            on_terminal(not (self.as_json or self.quiet), budget.described) as campaign.listeners,
        ):
            campaign.follow(make_policy(campaign.seeds))
        return campaign

    def conclude(self, campaign: CountedCampaign) -> None:
        """Print the path of the summary, or the summary as JSON, and end with the exit code of the gravest verdict."""
        if self.as_json:
            click.echo(json.dumps(campaign.to_json()))
        self.say(f"{campaign.folder / 'summary.md'}")
        sys.exit(campaign.verdict.exit_code)


def campaign_options(
    minutes: float, out: str, out_help: str, record_help: str = "Add every run to this record, which `atlas` shows."
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with the click options of a campaign; the command gets them as its first argument.

    `minutes` and `out` are the defaults of --minutes and --out.
    """
    options = (
        click.option("--minutes", type=click.FloatRange(min=0), default=minutes, show_default=True,
                     help="Start no run that would end after this time, except the first of each experiment."),
        click.option("--seed", type=click.IntRange(min=0),
                     help="The seed that decides all runs' seeds; seeds in files are ignored. Random by default."),
        click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path(out), show_default=True,
                     help=out_help),
        click.option("--record", type=click.Path(path_type=Path, dir_okay=False), help=record_help),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON at the end, nothing else."),
        QUIET,
    )  # fmt: skip

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_campaign_options(seed: int | None, **values: Any) -> None:
            shared = {name: values.pop(name) for name in ("minutes", "out", "record", "as_json", "quiet")}
            seed = random.SystemRandom().randrange(2**31) if seed is None else seed
            command(CampaignOptions(seed=seed, **shared), **values)

        # The decorator that is applied last comes first in the help.
        for option in reversed(options):
            with_campaign_options = option(with_campaign_options)
        return with_campaign_options

    return with_options


@click.command("nightly")
@click.argument("experiments", nargs=-1, type=ExperimentPath(path_type=Path, exists=True))
@click.option("--repeats", type=click.IntRange(min=1), help="Run each experiment at most this many times.")
@click.option("--on", metavar="VERSION/MODE",
              help="Cluster for experiments that name none, such as 4.2.0/kraft; `turn`: a new one daily.")  # fmt: skip
@campaign_options(60.0, "runs/nightly", "Where to write each call's folder.")
@ENGINE
def nightly_command(
    options: CampaignOptions, experiments: tuple[Path, ...], repeats: int | None, on: str | None, engine: str
) -> None:
    """Repeat experiments in turn, and count in how many runs each lane shows each anomaly, with 95 % intervals.

    EXPERIMENTS are files or folders. The default is the folder experiments/nightly: every acks setting × idempotence ×
    min.insync.replicas × unclean election under kill, stop, pause and partition, and under two faults of each of six
    families; transactional producers; consumer groups and loops. Files that this machine can't run are left out.

    Exit code: 1 for a violation in any run, else 3 if nothing can run, 2 if a run was unknown or failed, else 0.
    """
    from kafka_chaos.harness.campaign.in_turn import cluster_keys, experiments_in, in_turn, load_for_cluster
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.experiment.file import load_experiment
    from kafka_chaos.harness.report.listeners.by_options import write_job_summary
    from kafka_chaos.harness.run.runner import run_experiment, why_unavailable
    from kafka_chaos.verification.spark.session import require_engine

    require_engine(Engine(engine))
    cluster = None if on is None else cluster_keys(on, datetime.now(UTC).date())
    if cluster is not None:
        options.say(f"on Kafka {', '.join(cluster.values())}")
    paths = experiments_in(experiments or [EXPERIMENTS])
    if not experiments:
        reasons = {path: why_unavailable(load_experiment(path)) for path in paths}
        paths = [path for path, reason in reasons.items() if reason is None]
        for path, reason in reasons.items():
            if reason is not None:
                options.say(f"{path.name} is left out: {reason}")
    for path in paths:
        check_output(options.out, load_experiment(path))
    runs = None if repeats is None else repeats * len(paths)
    run = partial(run_experiment, engine=Engine(engine))
    campaign = options.follow(partial(in_turn, paths, partial(load_for_cluster, cluster)), runs, run)
    write_job_summary(campaign.to_markdown())
    options.say(f"\n{campaign.to_markdown()}")
    options.conclude(campaign)


@click.command("hunt")
@click.argument("experiment", type=ExperimentPath(path_type=Path))
@click.option("--shrink-minutes", type=click.FloatRange(min=0), default=15.0, show_default=True,
              help="Minutes to shrink each new finding that no known defect explains; 0 shrinks none.")  # fmt: skip
@click.option("--runs", "max_runs", type=click.IntRange(min=1), help="Make at most this many runs.")
@campaign_options(30.0, "runs/hunt", "Where to write each call's folder, and the record that the next call continues.")
@ENGINE
def hunt_command(
    options: CampaignOptions, experiment: Path, shrink_minutes: float, max_runs: int | None, engine: str
) -> None:
    """Look for findings: run EXPERIMENT again and again on one cluster, each time with what its key `generate` draws.

    Fault kinds, targets, clusters and clients are drawn more often if they were tried less, or if they led to something
    new: an action of the model, a state of a partition, an error, or a line of a log that no run had shown. The hunt
    says which known defects it found, and after how many minutes. A violation that no known defect explains is shrunk,
    which gives an experiment with a control (a lane that differs in one setting), and the draft of a report.

    Exit code: 1 for a violation in any run, else 3 if nothing can run, 2 if a run was unknown or failed, else 0.
    """
    from kafka_chaos.harness.campaign.hunting import Hunt
    from kafka_chaos.harness.experiment.checks.output import check_output
    from kafka_chaos.harness.experiment.file import load_experiment
    from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns

    hunt = Hunt.from_file(experiment, options.out / f"{experiment.stem}.jsonl")
    check_output(options.out, load_experiment(experiment))
    former = len(hunt.rounds)
    for name, lacks in hunt.unavailable.items():
        options.say(f"{name} is left out: {lacks}")
    options.say(f"hunting with seed {options.seed}" + (f", after {counted(former, 'round')}" if former else ""))
    with ClusterOfRuns("hunt", Engine(engine)) as cluster:
        campaign = options.follow(hunt.policy, max_runs, cluster.run)
    options.say(f"\n{campaign.to_markdown()}")
    _say_findings(options, hunt, former, campaign.folder, shrink_minutes, engine)
    options.conclude(campaign)


def _say_findings(
    options: CampaignOptions, hunt: Hunt, former: int, folder: Path, shrink_minutes: float, engine: str
) -> None:
    """Say what a hunt tried and found, and shrink new findings. `former`: the number of rounds of earlier calls."""
    tried = ", ".join(f"{name} {count}" for name, count in hunt.times_tried.most_common())
    options.say(f"tried: {tried or 'nothing'}")
    for schedule in hunt.skipped_schedules:
        options.say(f"not run: {schedule}")
    counts = [str(len(round_.new)) for round_ in hunt.rounds[former:]]
    options.say(f"new observations in the last {counted(len(counts), 'round')}: {', '.join(counts)}")
    drafted = set[tuple[int, str]]()
    for discovery, when, number in hunt.first_discoveries():
        options.say(f"found: {discovery.name} {when} ({hunt.rounds[number].run}, lane {discovery.lane})")
        round_and_lane = number, discovery.lane
        if number >= former and not discovery.is_explained and shrink_minutes and round_and_lane not in drafted:
            drafted.add(round_and_lane)
            options.say(_draft(options, hunt.rounds[number], discovery, folder, shrink_minutes, engine))


def _draft(
    options: CampaignOptions, round_: Round, discovery: Discovery, folder: Path, minutes: float, engine: str
) -> str:
    """Shrink a discovery, and write the draft of a report; returns its path, or why there is none."""
    from kafka_chaos.contract.lane.families import anomaly_named
    from kafka_chaos.harness.campaign.loop import Budget, failure_in
    from kafka_chaos.harness.campaign.narrowing import Narrowing
    from kafka_chaos.harness.campaign.record import Finding
    from kafka_chaos.harness.run.runner import run_experiment

    run = partial(run_experiment, engine=Engine(engine))
    finding = Finding(discovery.lane, anomaly_named(discovery.anomaly))
    try:
        narrowing = Narrowing(Path(round_.run), finding, folder / "runs", Budget(minutes), options.say, run)
        if not narrowing.narrow():
            return f"{finding} was not shown again"
    except Exception as error:  # noqa: BLE001 - `failure_in` raises what is no failure
        return f"{finding}: not shrunk: {failure_in(error)}"
    return str(narrowing.write(folder / f"{discovery.lane}-{discovery.anomaly}.yaml"))


@click.command("atlas")
@click.argument("plan", type=click.Path(path_type=Path, exists=True, dir_okay=False), default=STANDARD_PLAN)
@click.option("--runs", "max_runs", type=click.IntRange(min=0), help="Make at most this many runs; 0 makes none.")
@campaign_options(
    60.0, "runs/atlas", "Where to write the runs, and atlas.html.", "The record of runs, by default --out/record.jsonl."
)
@ENGINE
def atlas_command(options: CampaignOptions, plan: Path, max_runs: int | None, engine: str) -> None:
    """Try the combinations of PLAN (by default a standard plan) within a time budget, the least tried ones first.

    Each run has one cluster, one family of faults, and some lanes. It is added to the record, so that the next call
    goes on where this call stops. The page atlas.html shows each combination of the record, as a cell.

    Exit code: 1 for a violation in any run, else 3 if nothing can run, 2 if a run was unknown or failed, else 0.
    """
    from kafka_chaos.harness.campaign.atlas import Atlas
    from kafka_chaos.harness.campaign.cells import PAGE, cells_of, write_page
    from kafka_chaos.harness.campaign.record import RECORD_FILE, read_lane_runs
    from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns

    record = options.record or options.out / RECORD_FILE
    atlas = Atlas.from_file(plan)
    code = 0
    if max_runs != 0:
        for name, lacks in atlas.unavailable.items():
            options.say(f"{name} is left out: {lacks}")
        with ClusterOfRuns("atlas", Engine(engine)) as cluster:
            campaign = replace(options, record=record).follow(partial(atlas.policy, record), max_runs, cluster.run)
        code = campaign.verdict.exit_code
    summaries = cells_of(read_lane_runs(record))
    untried = {trial.cell for trial in atlas.trials} - {summary.cell for summary in summaries}
    write_page(summaries, options.out, len(untried))
    if options.as_json:
        click.echo(json.dumps([summary.to_json() for summary in summaries]))
    options.say(f"{counted(len(summaries), 'cell')} tried, {len(untried):,} of the plan never\n{options.out / PAGE}")
    sys.exit(code)
