"""`kafka-chaos reproduce`: the model's stories of what it permits, played step by step on real brokers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.errors import EnvironmentFailure, UsageFailure, counted
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.metadata import KRAFT, USUAL_VERSION, ZOOKEEPER
from kafka_chaos.reference_model.lane_options import lane_options, refused_by_option

if TYPE_CHECKING:
    from kafka_chaos.conformance.engine import Say
    from kafka_chaos.conformance.reproduce.playing.player import Shown
    from kafka_chaos.conformance.reproduce.results import Results
    from kafka_chaos.conformance.reproduce.stories.claims import Claim

RUNS = Path("runs")


@click.command("reproduce")
@lane_options(
    left_out=("partitions", "replication_factor", "metadata_mode", "elr"),
    kafka_version={
        "help": f"Version of the brokers; {USUAL_VERSION} unless given. Any other than that runs in KRaft mode."
    },
)
@click.option("--anomaly", type=click.Choice([str(one) for one in Anomaly]), help="What the story is to show.")
@click.option("--matrix", is_flag=True,
              help="Play the stories of the standard matrix instead, those shown least often first.")  # fmt: skip
@click.option("--protocol", metavar="VARIANT", help="Play the shortest breach of this older protocol instead; "
              "--kafka-version has to be one that has it.")  # fmt: skip
@click.option("--invariant", metavar="NAME", help="With --protocol: which invariant the breach breaks.")
@click.option("--breaches", is_flag=True,
              help="Play the breaches of all older protocols instead, those played least often first.")  # fmt: skip
@click.option("--results", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="With --matrix or --breaches: add to the results in this JSON file, and write a page beside it."
              )  # fmt: skip
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True),
              help="With --matrix or --breaches: begin no further story after this time.")  # fmt: skip
@click.option("--times", type=click.IntRange(min=1), default=1, show_default=True, help="How often to play the story.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=RUNS, show_default=True,
              help="Where to make run directories.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the story, or why it can't be played; start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def reproduce_command(
    faults: tuple[str, ...],
    kafka_version: str | None,
    anomaly: str | None,
    matrix: bool,
    protocol: str | None,
    invariant: str | None,
    breaches: bool,
    results: Path | None,
    minutes: float | None,
    times: int,
    out: Path,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Play the story by which `predict` permits an anomaly on real brokers, step by step.

    After each step the brokers have to be in the state that the model tells. Links hold the followers' fetches, so that
    nothing is replicated before its step. The run directory is verified like any other.

    With --protocol it is the shortest breach that `explore` finds in an older protocol, on brokers that have it. Links
    hold what controllers tell brokers, too.

    Exit code: 0 the anomaly is shown, 1 a violation, 2 it is not shown, 3 the environment failed, 64 there is no such
    story, or brokers can't be made to take one of its steps.
    """
    from kafka_chaos.harness.experiment.checks.output import check_writable

    if sum((anomaly is not None, matrix, protocol is not None, breaches)) != 1:
        raise UsageFailure("reproduce: expected one of --anomaly, --matrix, --protocol and --breaches")
    if (results is not None) != (matrix or breaches):
        raise UsageFailure("reproduce: --matrix or --breaches, and --results go together")
    if (protocol is None) != (invariant is None):
        raise UsageFailure("reproduce: --protocol and --invariant go together")
    _require_links()
    check_writable(out, "--out")
    if protocol is not None:
        assert invariant is not None
        _play_breach(protocol, invariant, kafka_version, out, times, dry_run=dry_run, as_json=as_json, quiet=quiet)
        return
    if breaches:
        assert results is not None
        _play_breaches(results, out, minutes, quiet=quiet)
        return
    cluster = _cluster(kafka_version)
    if matrix:
        assert results is not None
        _play_matrix(cluster, results, out, minutes, quiet=quiet)
        return
    found = _claim(cluster, faults, Anomaly(str(anomaly)), settings)
    _require_playable(found)
    if dry_run:
        for number, step in enumerate(found.story.steps, 1):
            click.echo(f"{number:3}. {step.sentence}")
        click.echo(f"     {found.story.ending}")
        return
    shown = _play([found], out, times, say=_silent if as_json or quiet else click.echo)
    hits = sum(all(one.claims.values()) for one in shown)
    if as_json:
        runs = [{"run": str(one.path), "verdict": one.verdict, "reason": one.reason} for one in shown]
        click.echo(json.dumps({"anomaly": anomaly, "played": len(shown), "shown": hits, "runs": runs}))
    elif not quiet:
        for one in shown:
            click.echo(f"{one.path}: {one.verdict}{f', {one.reason}' if one.reason else ''}")
        click.echo(f"{anomaly}: shown by {hits} of {counted(len(shown), 'story').replace('storys', 'stories')}")
    sys.exit(_exit_code(shown))


def _play_breach(
    protocol: str,
    invariant: str,
    kafka_version: str | None,
    out: Path,
    times: int,
    *,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from kafka_chaos.conformance.reproduce.breach_command import play_breach, story_of, tell

    story, version = story_of(protocol, invariant, kafka_version)
    if dry_run:
        tell(story)
    else:
        sys.exit(play_breach(story, version, out, times, as_json=as_json, quiet=quiet))


def _play_breaches(results: Path, out: Path, minutes: float | None, *, quiet: bool) -> None:
    from kafka_chaos.conformance.reproduce.breach_command import play_breaches

    sys.exit(play_breaches(results, _named(_cluster(None)), out, minutes, quiet=quiet))


def _named(cluster: tuple[str, str]) -> str:
    version, mode = cluster
    return f"Kafka {version} {'in KRaft mode' if mode == KRAFT else 'with ZooKeeper'}"


def _cluster(kafka_version: str | None) -> tuple[str, str]:
    """The brokers' version and their metadata mode."""
    from kafka_chaos.harness.cluster.containers.versions import check_version

    version = kafka_version or USUAL_VERSION
    mode = ZOOKEEPER if version == USUAL_VERSION else KRAFT
    check_version(version, mode)
    return version, mode


def _claim(cluster: tuple[str, str], faults: tuple[str, ...], anomaly: Anomaly, settings: dict[str, Any]) -> Claim:
    from kafka_chaos.conformance.reproduce.stories.claims import claim

    version, mode = cluster
    with refused_by_option():
        lane = Lane(lane="story", faults=faults, kafka_version=version, metadata_mode=mode, **settings)
    return claim(lane, anomaly)


def _require_links() -> None:
    from kafka_chaos.faults.links.on_frames import why_no_links

    if (reason := why_no_links()) is not None:
        raise EnvironmentFailure(f"reproduce holds the followers' fetches by links: {reason}")


def _require_playable(found: Claim) -> None:
    from kafka_chaos.conformance.reproduce.playing.refusals import refusal

    if (reason := refusal(found.story)) is not None:
        raise UsageFailure(f"reproduce: brokers can't be made to take this story: {reason}")


def _play(claims: list[Claim], out: Path, times: int, *, say: Say) -> list[Shown]:
    from kafka_chaos.conformance.reproduce.playing.player import StoryPlayer
    from kafka_chaos.conformance.scenario.clusters import ClusterPool

    with ClusterPool() as pool:
        return [StoryPlayer(claims, pool, out, say).play().judged() for _ in range(times)]


def _play_matrix(cluster: tuple[str, str], path: Path, out: Path, minutes: float | None, *, quiet: bool) -> None:
    """Play the stories of the standard matrix, those first that were shown least often.

    What one has left is verified while the next is played.
    """
    from kafka_chaos.conformance.reproduce.playing.player import StoryPlayer, profile_of
    from kafka_chaos.conformance.reproduce.playing.refusals import refusal
    from kafka_chaos.conformance.reproduce.results import load
    from kafka_chaos.conformance.reproduce.stories.claims import grouped
    from kafka_chaos.conformance.reproduce.stories.claims import matrix as claims_of_matrix
    from kafka_chaos.conformance.scenario.clusters import ClusterPool

    until = None if minutes is None else time.monotonic() + 60 * minutes
    results = load(path, _named(cluster))
    claims = claims_of_matrix(*cluster)
    results.add(claims, refused={one.key: refusal(one.story) for one in claims})
    results.save(path)
    groups = [group for group in grouped(claims) if refusal(group[0].story) is None]
    # Stories on the same kind of cluster follow each other: it is started once.
    groups.sort(key=lambda group: (_times_shown(results, group), profile_of(group[0].story).name))
    verdicts = []

    def note(judging: Future[Shown], group: Sequence[Claim]) -> None:
        shown = judging.result()
        results.note(shown.claims, shown.reason)
        results.save(path)
        verdicts.append(shown.verdict)
        if not quiet:
            click.echo(_described(group, shown))

    with ThreadPoolExecutor(1, thread_name_prefix="verify") as judge, ClusterPool() as pool:
        judging: list[tuple[Future[Shown], Sequence[Claim]]] = []
        for group in groups:
            if until is not None and time.monotonic() > until:
                break
            judging.append((judge.submit(StoryPlayer(group, pool, out).play().judged), group))
            while judging and judging[0][0].done():
                note(*judging.pop(0))
        for left in judging:
            note(*left)
    sys.exit(Verdict.gravest(verdicts).exit_code)


def _times_shown(results: Results, group: Sequence[Claim]) -> int:
    """How often that claim of a story was shown that was shown least often."""
    return min(results.of[one.key].shown for one in group)


def _described(group: Sequence[Claim], shown: Shown) -> str:
    first = group[0]
    what = f"{first.label}, {', '.join(first.lane.faults) or 'no fault'}: {first.anomaly}"
    more = f" and {counted(len(group) - 1, 'more claim')}" if len(group) > 1 else ""
    return f"{what}{more}: {shown.reason or 'shown'} ({shown.path})"


def _exit_code(shown: list[Shown]) -> int:
    if any(one.verdict is Verdict.VIOLATION for one in shown):
        return int(Verdict.VIOLATION.exit_code)
    hit = all(all(one.claims.values()) for one in shown)
    return int((Verdict.CONFORMS if hit else Verdict.UNKNOWN).exit_code)


def _silent(text: str) -> None:
    """Say nothing."""
