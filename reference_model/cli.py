"""The commands `predict` and `explore`: what the model says, on the terminal or as JSON.

A lane or an option outside any valid configuration is refused with exit code 64, and the message names the
option and what it takes; nothing is explored then.
"""

from __future__ import annotations

import json
from typing import Any

import click

from kafka_chaos.reference_model.courses import parse_course
from kafka_chaos.reference_model.lane import ACKS, FAULT_KINDS, Lane, LaneError
from kafka_chaos.reference_model.predict import Prediction, predict
from kafka_chaos.reference_model.prediction_cache import predict_cached


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
