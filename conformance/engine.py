"""The engine that plays steps: each is performed, and brokers are observed until they agree with the model.

Scenarios and walks, traces of `predict` and breaches of `explore` all go through it; what they bring is how a step is
performed, what is observed, and how that compares with the model. A step waits for agreement, never for time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.errors import ClusterFailure, WaitTimeout
from kafka_chaos.harness.waiting import wait_until

Say = Callable[[str], None]
"""Tells people what happens, a line at a time."""


class TraceNotReproduced(KafkaChaosError):
    """Brokers did not take a step as the model's trace tells it: nothing is shown."""


@dataclass(frozen=True, slots=True)
class TakenStep:
    """A step that brokers have taken, how long it took, in seconds, and what was different from the trace."""

    sentence: str
    seconds: float
    remark: str | None = None

    def __str__(self) -> str:
        return f"{self.sentence}{f' ({self.remark})' if self.remark else ''}  {self.seconds:.1f} s"


class _Step(Protocol):
    @property
    def sentence(self) -> str:
        """The sentence for it."""


class _Comparison(Protocol):
    @property
    def conforms(self) -> bool:
        """Whether the model allows what was observed."""


Seen = TypeVar("Seen")
Compared = TypeVar("Compared", bound=_Comparison)


@dataclass(frozen=True, slots=True)
class Agreement(Generic[Seen, Compared]):
    """The last observation, and its comparison with the model."""

    observation: Seen
    comparison: Compared


def await_agreement(
    observe: Callable[[], Seen], compare: Callable[[Seen], Compared], *, timeout: float, interval: float = 0.1
) -> Agreement[Seen, Compared]:
    """The first two equal observations in a row that the model allows, or the last one and how it differs.

    An observation is not one moment, so one alone may have been of none. Raises `KafkaChaosError` where nothing
    could be observed, or nothing that lasts.
    """
    last: Seen | None = None
    before: Seen | None = None
    comparison: Compared | None = None
    trouble: KafkaChaosError | None = None

    def agreed() -> bool:
        nonlocal last, before, comparison, trouble
        try:
            seen = observe()
        except KafkaChaosError as error:
            # A file was being written, or a container was between two states: observe again, twice.
            trouble, before = error, None
            return False
        if comparison is None or seen != last:
            comparison = compare(seen)
        in_a_row, last, before = seen == before, seen, seen
        return comparison.conforms and in_a_row

    try:
        wait_until(agreed, "Kafka and the model to agree", timeout=timeout, interval=interval)
    except WaitTimeout:
        if trouble is not None and last is None:
            raise trouble from None
        if last is None or comparison is None:
            raise ClusterFailure("the cluster could not be observed") from trouble
        if comparison.conforms:
            seen = f"; the last error: {trouble}" if trouble else ""
            raise ClusterFailure(f"observations of the cluster never became stable{seen}") from trouble
    assert last is not None
    assert comparison is not None
    return Agreement(last, comparison)


def await_no_difference(differs: Callable[[], str | None], what: str, *, timeout: float) -> None:
    """Wait until nothing differs; the time-out tells what differed last."""
    found: str | None = None

    def agrees() -> bool:
        nonlocal found
        found = differs()
        return found is None

    wait_until(agrees, what, timeout=timeout, seen=lambda: str(found))


def play_trace(
    steps: Sequence[_Step],
    perform: Callable[[int], None],
    differs: Callable[[int], str | None],
    *,
    timeout: float,
    then: Callable[[int], None] = lambda number: None,
) -> Iterator[tuple[int, float]]:
    """Let brokers take the steps of a trace, one after the other, each until nothing `differs` from its state.

    `then`: what follows a step before the next. Each that was taken comes with its number and its seconds. Raises
    `TraceNotReproduced` for the first step that brokers do not take.
    """
    for number, step in enumerate(steps):
        start = time.monotonic()
        try:
            perform(number)
            await_no_difference(partial(differs, number), "brokers and model to agree", timeout=timeout)
            then(number)
        except (WaitTimeout, TraceNotReproduced, BrokerUnreachable) as error:
            raise TraceNotReproduced(f"step {number + 1} ({step.sentence}): {error}") from error
        yield number, time.monotonic() - start
