"""Breaches on the command line: one that is named, or all of them, those played least often first."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from kafka_chaos.conformance.engine import Say
from kafka_chaos.conformance.reproduce.breaches.player import BreachPlayer, PlayedBreach
from kafka_chaos.conformance.reproduce.breaches.stories import STORIES, BreachStory
from kafka_chaos.conformance.reproduce.results import BreachResult, Key, key_of, load
from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.errors import UsageFailure, quoted


def story_of(variant: str, invariant: str, kafka_version: str | None) -> tuple[BreachStory, str]:
    """The breach of an invariant under a variant, and the version to play it on.

    Raises `UsageFailure` where there is none, or where that version has another protocol.
    """
    story = next((one for one in STORIES if one.variant == variant and invariant in one.invariants), None)
    if story is None:
        known = "; ".join(f"{one.variant} with {' or '.join(one.invariants)}" for one in STORIES)
        raise UsageFailure(f"--protocol {variant} --invariant {quoted(invariant)}: expected one of {known}")
    version = kafka_version or story.versions[0]
    if version not in story.versions:
        raise UsageFailure(
            f"--kafka-version {version}: brokers have the protocol {variant} in {', '.join(story.versions)}"
        )
    return story, version


def tell(story: BreachStory) -> None:
    """Print the steps."""
    for number, sentence in enumerate(story.sentences, 1):
        click.echo(f"{number:3}. {sentence}")


def play_breach(story: BreachStory, kafka_version: str, out: Path, times: int, *, as_json: bool, quiet: bool) -> int:
    """Play a breach so many times, print what came of it, and return the exit code."""
    say: Say = (lambda text: None) if as_json or quiet else click.echo
    with ClusterPool() as pool:
        played = [BreachPlayer(story, kafka_version, pool, out, say).play() for _ in range(times)]
    hits = sum(not one.left for one in played)
    if as_json:
        runs = [{"run": str(one.path), "left": one.left} for one in played]
        document = {"protocol": story.variant, "invariants": story.invariants, "kafka": kafka_version}
        click.echo(json.dumps({**document, "played": times, "shown": hits, "runs": runs}))
    for one in played:
        say(described(one))
    return exit_code(played)


def play_breaches(results_file: Path, kafka: str, out: Path, minutes: float | None, *, quiet: bool) -> int:
    """Play the breaches on the versions that have them, and add to the results. Returns the exit code.

    With `minutes` it goes on for so long with what was played least often, without each is played once.
    """
    results = load(results_file, kafka)
    played: list[PlayedBreach] = []
    with ClusterPool() as pool:
        for story, version in _every_breach() if minutes is None else _least_played(results.breaches, minutes):
            played.append(BreachPlayer(story, version, pool, out).play())
            results.breaches[key_of(story, version)].note(played[-1].left)
            results.save(results_file)
            if not quiet:
                click.echo(described(played[-1]))
    return exit_code(played)


def _every_breach() -> Iterator[tuple[BreachStory, str]]:
    return ((story, version) for story in STORIES for version in story.versions)


def _least_played(results: Mapping[Key, BreachResult], minutes: float) -> Iterator[tuple[BreachStory, str]]:
    """Again and again, a breach that was played least often, on the version that it was played on least often."""
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        story = min(STORIES, key=lambda one: sum(results[key_of(one, version)].played for version in one.versions))
        yield story, min(story.versions, key=lambda version: results[key_of(story, version)].played)


def described(one: PlayedBreach) -> str:
    """A play in one line."""
    return f"{one.story.name} on Kafka {one.kafka_version}: {one.left or 'shown'} ({one.path})"


def exit_code(played: list[PlayedBreach]) -> int:
    """0 if every play shows its breach, else 2."""
    hit = all(not one.left for one in played)
    return int((Verdict.CONFORMS if hit else Verdict.UNKNOWN).exit_code)
