"""The loop of a campaign: it performs the attempts of a policy until the policy or the budget ends.

An attempt is one run of an experiment. A policy is a generator that decides each next attempt by the outcomes so far.

Guarantee: an attempt that would end after the budget, judged by how long former attempts took, begins only if it
`ignores_budget`. Otherwise, the policy's `yield` raises `OutOfBudget`, so that the policy can return a result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import click

from kafka_chaos.contract.command.command_line import failure_of
from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.report.listeners.waiting import in_minutes
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.signals import was_interrupted

T = TypeVar("T")
Outcome = RunResult | Exception
"""What became of an attempt: the run, or why it failed."""
RunExperiment = Callable[..., RunResult]
"""Runs an experiment; the call has the keywords `root`, the folder for run directories, and `listeners`."""


class OutOfBudget(Exception):
    """No time is left for one more run."""


@dataclass(frozen=True)
class Attempt:
    """The run that a policy wants next.

    `name`: an attempt is expected to last as long as the longest attempt of the same name so far. `ignores_budget`: it
    is made even when the budget is used up. `spare`: the number of further attempts for which time must be left.
    """

    experiment: Experiment
    name: str
    ignores_budget: bool = False
    spare: int = 0


Policy = Generator[Attempt, Outcome, T]
"""Yields the attempts that it wants, gets the outcome of each, and returns a result."""


@dataclass
class Budget:
    """How many minutes a campaign may last once the budget is made, and how many attempts (`runs`) it may make."""

    minutes: float
    runs: int | None = None
    clock: Callable[[], float] = time.monotonic
    attempts_made: int = 0
    longest_seconds: dict[str, float] = field(default_factory=dict)
    """The seconds of the longest attempt of each name."""

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def elapsed(self) -> float:
        """The seconds since the budget was constructed."""
        return self.clock() - self.started

    def allows(self, attempt: Attempt) -> bool:
        """Whether the attempt may begin."""
        if attempt.ignores_budget:
            return True
        needed = self.longest_seconds.get(attempt.name, 0.0) * (1 + attempt.spare)
        return (self.runs is None or self.attempts_made < self.runs) and self.elapsed + needed <= self.minutes * 60

    def described(self) -> str:
        """How far the campaign is, in a line."""
        of_runs = f" of {self.runs}" if self.runs else ""
        return f"run {self.attempts_made + 1}{of_runs}, {in_minutes(self.elapsed)} of {in_minutes(self.minutes * 60)}"


def failure_in(error: Exception) -> KafkaChaosError:
    """The failure of a run that ended with this error; raises the error if it is an interrupt's or a bug's."""
    failure = failure_of(error)
    if failure is None or was_interrupted():
        raise error
    return failure


@contextmanager
def violation_decides(is_violated: Callable[[], bool]) -> Iterator[None]:
    """A failure ends the block, and is only printed if a run before was a violation, which is the command's result."""
    try:
        yield
    except Exception as error:
        failure = failure_in(error)
        if not is_violated():
            raise
        click.echo(f"kafka-chaos: {failure}", err=True)


def follow(policy: Policy[T], budget: Budget, perform: Callable[[Attempt], Outcome]) -> T | None:
    """Perform the attempts of a policy; returns its result, or None if the budget ended first."""
    try:
        attempt = next(policy)
        while True:
            if not budget.allows(attempt):
                attempt = policy.throw(OutOfBudget())
                continue
            started = budget.clock()
            outcome = perform(attempt)
            budget.attempts_made += 1
            seconds = budget.clock() - started
            budget.longest_seconds[attempt.name] = max(seconds, budget.longest_seconds.get(attempt.name, 0.0))
            attempt = policy.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result
    except OutOfBudget:
        return None
