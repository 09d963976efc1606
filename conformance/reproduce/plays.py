"""The plays of `kafka-chaos reproduce`: one story, or all of the matrix, those shown least often first."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from kafka_chaos.conformance.reproduce.claims import Claim, grouped
from kafka_chaos.conformance.reproduce.claims import matrix as claims_of_matrix
from kafka_chaos.conformance.reproduce.playing.actions import refusal
from kafka_chaos.conformance.reproduce.playing.player import Say, Shown, StoryPlayer, profile_of
from kafka_chaos.conformance.reproduce.results import load
from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.contract.lane.metadata import KRAFT


@dataclass(frozen=True)
class How:
    """Where run directories go, how often or how long to play, and what to print."""

    out: Path
    times: int = 1
    minutes: float | None = None
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False

    @property
    def say(self) -> Say:
        """The listener that prints progress."""
        return (lambda text: None) if self.as_json or self.quiet else click.echo


def play_claim(claim: Claim, how: How) -> int:
    """Play the story of a claim, and return the exit code. Raises `UsageFailure` where brokers can't take it."""
    if (reason := refusal(claim.story)) is not None:
        raise UsageFailure(f"reproduce: brokers can't be made to take this story: {reason}")
    if how.dry_run:
        for step in claim.story.steps:
            click.echo(f"{step.number + 1:3}. {step.sentence}")
        click.echo(f"     {claim.story.ending}")
        return 0
    shown = play_story([claim], how)
    hits = sum(all(one.claims.values()) for one in shown)
    if how.as_json:
        runs = [{"run": str(one.path), "verdict": one.verdict, "reason": one.reason} for one in shown]
        click.echo(json.dumps({"anomaly": claim.anomaly, "played": len(shown), "shown": hits, "runs": runs}))
    for one in shown:
        how.say(f"{one.path}: {one.verdict}{f', {one.reason}' if one.reason else ''}")
    how.say(f"{claim.anomaly}: shown by {hits} of {counted(len(shown), 'story').replace('storys', 'stories')}")
    if any(one.verdict is Verdict.VIOLATION for one in shown):
        return int(Verdict.VIOLATION.exit_code)
    return int((Verdict.CONFORMS if hits == len(shown) else Verdict.UNKNOWN).exit_code)


def play_story(claims: Sequence[Claim], how: How) -> list[Shown]:
    """Play a story that claims share, and judge what it leaves."""
    with ClusterPool() as pool:
        return [StoryPlayer(claims, pool, how.out, how.say).play().judged() for _ in range(how.times)]


def play_matrix(cluster: tuple[str, str], path: Path, how: How) -> int:
    """Play the stories of the standard matrix, those first that were shown least often; returns the exit code.

    What one has left is verified while the next is played.
    """
    until = None if how.minutes is None else time.monotonic() + 60 * how.minutes
    results = load(path, named(cluster))
    claims = claims_of_matrix(*cluster)
    results.add(claims, refused={one.key: refusal(one.story) for one in claims})
    results.save(path)
    groups = [group for group in grouped(claims) if refusal(group[0].story) is None]

    def times_shown(group: Sequence[Claim]) -> int:
        return min(results.of[one.key].shown for one in group)

    # Stories on the same kind of cluster follow each other: it is started once.
    groups.sort(key=lambda group: (times_shown(group), profile_of(group[0].story).name))
    verdicts = []

    def note(judging: Future[Shown], group: Sequence[Claim]) -> None:
        shown = judging.result()
        results.note(shown.claims, shown.reason)
        results.save(path)
        verdicts.append(shown.verdict)
        how.say(_described(group, shown))

    with ThreadPoolExecutor(1, thread_name_prefix="verify") as judge, ClusterPool() as pool:
        judging: list[tuple[Future[Shown], Sequence[Claim]]] = []
        for group in groups:
            if until is not None and time.monotonic() > until:
                break
            judging.append((judge.submit(StoryPlayer(group, pool, how.out).play().judged), group))
            while judging and judging[0][0].done():
                note(*judging.pop(0))
        for left in judging:
            note(*left)
    return int(Verdict.gravest(verdicts).exit_code)


def named(cluster: tuple[str, str]) -> str:
    """A cluster's version and metadata mode, as results have them."""
    version, mode = cluster
    return f"Kafka {version} {'in KRaft mode' if mode == KRAFT else 'with ZooKeeper'}"


def _described(group: Sequence[Claim], shown: Shown) -> str:
    first = group[0]
    what = f"{first.label}, {', '.join(first.lane.faults) or 'no fault'}: {first.anomaly}"
    more = f" and {counted(len(group) - 1, 'more claim')}" if len(group) > 1 else ""
    return f"{what}{more}: {shown.reason or 'shown'} ({shown.path})"
