"""The commands `predict` and `explore`: what the model says, on the terminal or as JSON.

A lane or an option outside any valid configuration is refused with exit code 64, and the message names the
option and what it takes; nothing is explored then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click

from kafka_chaos.reference_model.core import CoreScope
from kafka_chaos.reference_model.courses import parse_course
from kafka_chaos.reference_model.explore import Exploration, explore
from kafka_chaos.reference_model.lane import ACKS, FAULT_KINDS, Lane, LaneError
from kafka_chaos.reference_model.predict import Prediction, predict
from kafka_chaos.reference_model.prediction_cache import predict_cached
from kafka_chaos.reference_model.protocols import PROTOCOLS


class BadArgument(click.UsageError):
    """A refused argument: exit code 64."""

    exit_code = 64


class StrictCommand(click.Command):
    """A command whose usage errors end with exit code 64."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and give every usage error the project's exit code."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise BadArgument(error.format_message(), ctx=error.ctx or ctx) from error


def refuse(option: str, message: str) -> BadArgument:
    """The error to raise for an option's value."""
    return BadArgument(f"Invalid value for '{option}': {message}")


def split_list(values: tuple[str, ...]) -> tuple[str, ...]:
    """The entries of a repeatable option that also takes several at once, separated by commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


@click.command("predict", cls=StrictCommand)
@click.option("--acks", type=click.Choice(ACKS), default="all", show_default=True)
@click.option("--idempotence", type=bool, default=False, show_default=True)
@click.option("--replication-factor", type=int, default=3, show_default=True)
@click.option("--min-insync-replicas", type=int, default=1, show_default=True)
@click.option("--unclean-leader-election", type=bool, default=False, show_default=True)
@click.option("--max-in-flight", type=int, default=5, show_default=True)
@click.option(
    "--faults",
    multiple=True,
    metavar="KIND[,KIND…]",
    help=f"Faults the lane lives through, each entry at most once: {', '.join(FAULT_KINDS)}.",
)
@click.option("--course", metavar="STEP[,STEP…]", help="A lock-stepped schedule instead of free faults.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-cache", is_flag=True, help="Explore anew, and keep nothing.")
def predict_command(
    faults: tuple[str, ...], course: str | None, as_json: bool, no_cache: bool, **settings: Any
) -> None:
    """Say which anomalies a lane must never, may and must show, and why."""
    try:
        lane = Lane(lane="predict", faults=split_list(faults), **settings)
        steps = None if course is None else parse_course(split_list((course,)))
        prediction = predict(lane, course=steps) if no_cache else predict_cached(lane, steps)
    except LaneError as error:
        raise refuse(f"--{error.key.replace('_', '-')}", f"{error.value!r}: expected {error.expected}") from error
    click.echo(json.dumps(prediction.to_json(), indent=2) if as_json else render(prediction))


def render(prediction: Prediction) -> str:
    """The prediction for people: one paragraph per anomaly, what is not forbidden first."""
    lines = []
    by_status = sorted(prediction.anomalies.items(), key=lambda item: item[1].status == "forbidden")
    for anomaly, answer in by_status:
        lines.append(f"{anomaly}: {answer.status}")
        lines.extend(f"    {sentence}" for sentence in answer.why)
    lines.append(f"{prediction.states} states, scope exhausted")
    return "\n".join(lines)


EXPLORE_FAULTS = ("kill", "power-loss")
IN_EVERY_EXPLORATION = frozenset(FAULT_KINDS) - set(EXPLORE_FAULTS)


@click.command("explore", cls=StrictCommand)
@click.option("--protocol", type=click.Choice(tuple(PROTOCOLS)), default="kip320", show_default=True)
@click.option("--brokers", type=click.IntRange(1, 5), default=3, show_default=True)
@click.option("--records", type=click.IntRange(1, 7), default=2, show_default=True)
@click.option("--leader-epochs", type=click.IntRange(1, 9), default=3, show_default=True)
@click.option(
    "--faults",
    multiple=True,
    metavar="KIND[,KIND…]",
    help="kill and power-loss restart a broker, each entry at most once; the other kinds are in every exploration.",
)
@click.option("--unclean-leader-election", type=bool, default=False, show_default=True)
@click.option("--max-states", type=click.IntRange(1), default=10_000_000, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explore_command(protocol: str, faults: tuple[str, ...], max_states: int, as_json: bool, **bounds: Any) -> None:
    """Explore every interleaving of a replication protocol in a scope, and tell each broken invariant's story."""
    kinds = split_list(faults)
    for kind in kinds:
        if kind not in FAULT_KINDS:
            raise refuse("--faults", f"{kind!r}: expected fault kinds out of {', '.join(FAULT_KINDS)}")
    scope = CoreScope(faults=tuple(kind for kind in kinds if kind not in IN_EVERY_EXPLORATION), **bounds)
    exploration = explore(PROTOCOLS[protocol], scope, max_states=max_states, progress=_progress())
    click.echo(json.dumps(exploration.to_json(), indent=2) if as_json else render_exploration(exploration))


def _progress() -> Callable[[int, float], None]:
    """A progress line on standard error, at most twice a second."""
    last = time.monotonic()

    def show(states: int, seconds: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 0.5:
            last = now
            click.echo(f"{states} states, {states / seconds:.0f} states/s", err=True)

    return show


def render_exploration(exploration: Exploration) -> str:
    """The exploration for people: one paragraph per invariant, the broken ones first."""
    lines = []
    for name, (holds, trace) in sorted(exploration.invariants.items(), key=lambda item: item[1][0] is not False):
        lines.append(f"{name}: {'holds' if holds else 'BROKEN' if holds is False else 'not known'}")
        lines.extend(f"    {number}. {sentence}" for number, sentence in enumerate(trace, 1))
    exhausted = "scope exhausted" if exploration.complete else "scope NOT exhausted"
    rate = exploration.states / max(exploration.cpu_seconds, 1e-9)
    lines.append(f"{exploration.protocol}: {exploration.states} states, {rate:.0f} states/s, {exhausted}")
    return "\n".join(lines)
