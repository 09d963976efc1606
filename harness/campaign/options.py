"""The options that `nightly`, `hunt` and `atlas` share: budget, seed, folder and record."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.command.command_line import QUIET

if TYPE_CHECKING:
    from kafka_chaos.harness.campaign.loop import Policy, RunExperiment
    from kafka_chaos.harness.campaign.summary import Summary


@dataclass(frozen=True, kw_only=True)
class Series:
    """The options of such a command."""

    minutes: float
    seed: int
    out: Path
    record: Path | None
    as_json: bool
    quiet: bool

    def say(self, text: str) -> None:
        """Print a line for people, if they are to see any."""
        if not (self.as_json or self.quiet):
            click.echo(text)

    def follow(
        self,
        policy: Callable[[random.Random], Policy[None]],
        runs: int | None,
        run_experiment: RunExperiment | None = None,
    ) -> tuple[Path, Summary]:
        """Make the runs of a policy, and show them on the terminal; returns their folder, and what they came to.

        `policy` is given what draws the seeds. `runs`: the most that are made. `run_experiment`: by default each runs
        on a cluster of its own.
        """
        from kafka_chaos.harness.campaign.loop import Budget, run_alone
        from kafka_chaos.harness.campaign.night import Night
        from kafka_chaos.harness.report.listeners.terminal import on_terminal

        budget = Budget(self.minutes, runs)
        night = Night(
            self.out, budget, self.seed, self.say, run_experiment=run_experiment or run_alone, record=self.record
        )
        with on_terminal(not (self.as_json or self.quiet), budget.described) as night.listeners:
            return night.folder, night.follow(policy(night.seeds))


def series_options(
    minutes: float, out: str, writes: str, record: str = "Add every run to this record, which `atlas` shows."
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options, for a command that takes a `Series`. `writes` and `record`: what --out and --record are for."""
    options = (
        click.option("--minutes", type=click.FloatRange(min=0), default=minutes, show_default=True,
                     help="Start no run that would end later; every experiment runs at least once."),
        click.option("--seed", type=click.IntRange(min=0),
                     help="Decides the seed of every run, whatever a file says; drawn by default."),
        click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path(out), show_default=True,
                     help=writes),
        click.option("--record", type=click.Path(path_type=Path, dir_okay=False), help=record),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON at the end, nothing else."),
        QUIET,
    )  # fmt: skip

    def taking(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(seed: int | None, **given: Any) -> None:
            own = {name: given.pop(name) for name in ("minutes", "out", "record", "as_json", "quiet")}
            seed = random.SystemRandom().randrange(2**31) if seed is None else seed
            command(Series(seed=seed, **own), **given)

        for option in reversed(options):
            called = option(called)
        return called

    return taking
