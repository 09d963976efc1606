"""`kafka-chaos scenario walk`: random walks of the model, replayed in lock step on real brokers.

Guarantee: the results are written whole or not at all after every group, so that an interrupted run keeps what it has.
Whatever was started is removed on every way out.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_chaos.conformance.walks import BESIDE, STEPS
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.command_line import console
from kafka_chaos.contract.command.errors import counted

if TYPE_CHECKING:
    from kafka_chaos.conformance.scenario.record import ScenarioRecord
    from kafka_chaos.conformance.walks.group import Group


@click.command("walk")
@click.option("--walks", type=click.IntRange(min=1), default=12, show_default=True,
              help="Number of walks, rounded up to whole groups.")  # fmt: skip
@click.option("--steps", type=click.IntRange(min=1), default=STEPS, show_default=True, help="Steps of each walk.")
@click.option("--beside", type=click.IntRange(min=1, max=8), default=BESIDE, show_default=True,
              help="Walks in a group: they share a cluster and its faults, each has a topic of its own.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the first group; the next has the next.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True),
              help="Begin no further group after this time.")  # fmt: skip
@click.option("--kraft", metavar="VERSION", help="Walk in KRaft mode, in this version of Kafka.")
@click.option("--dry-run", is_flag=True, help="Print the walks without running them.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write the results to this file as JSON, after every group.")  # fmt: skip
def walk_command(
    walks: int,
    steps: int,
    beside: int,
    seed: int | None,
    minutes: float | None,
    kraft: str | None,
    dry_run: bool,
    out: Path | None,
) -> None:
    """Replay random walks of the model in lock step on real brokers.

    A walk is drawn from a seed: it sends records, elects leaders, kills, stops, freezes and restarts brokers, cuts and
    heals links. After every step the model must allow what is observed. Exit code: 0 conforms, 1 violation, 2 unknown,
    3 the environment failed.
    """
    from kafka_chaos.conformance.walks.draw import draw
    from kafka_chaos.contract.lane.metadata import KRAFT
    from kafka_chaos.harness.cluster.containers.versions import check_version

    if kraft is not None:
        check_version(kraft, KRAFT)
    first = secrets.randbelow(10**6) if seed is None else seed
    seeds = range(first, first + -(-walks // beside))
    groups = (draw(one, steps=steps, walks=beside, kraft_version=kraft) for one in seeds)
    if dry_run:
        for group in groups:
            click.echo(group)
        return
    until = None if minutes is None else time.monotonic() + 60 * minutes
    sys.exit(_run(groups, kraft_version=kraft, until=until, out=out))


def _run(groups: Iterator[Group], *, kraft_version: str | None, until: float | None, out: Path | None) -> int:
    from kafka_chaos.conformance.scenario.clusters import ClusterPool
    from kafka_chaos.conformance.scenario.page.results import dump, results_json, write_or_refuse
    from kafka_chaos.conformance.walks.replay import replay
    from kafka_chaos.harness.report.listeners.waiting import Waiting

    start = time.monotonic()
    records: list[ScenarioRecord] = []
    agreed: list[Group] = []

    def save() -> None:
        if out is not None:
            write_or_refuse(out, dump(results_json(records, seconds=time.monotonic() - start)))

    # If the file can't be written, fail now and not after half an hour.
    save()
    with ClusterPool(kraft_version=kraft_version) as pool, Waiting(console=console()) as waiting:
        for group in groups:
            if records and until is not None and time.monotonic() > until:
                break
            waiting.begin(f"walks of seed {group.seed} on brokers, after {counted(len(records), 'group')}")
            record = replay(group, pool)
            click.echo(_told(group, record))
            if record.verdict == Verdict.CONFORMS:
                agreed.append(group)
                # Its title has the settings and the steps; observations are kept where a group failed.
                record.acts.clear()
            records.append(record)
            save()
    walks = sum(len(group.walks) for group in agreed)
    steps = sum(len(group.walks) * len(group.steps) for group in agreed)
    verdict = Verdict.gravest((record.verdict for record in records), of_none=Verdict.UNKNOWN)
    total = f"{counted(walks, 'walk')}, {counted(steps, 'step')} without a disagreement"
    click.echo(f"{total}, {time.monotonic() - start:.1f} s: {verdict}")
    return verdict.exit_code


def _told(group: Group, record: ScenarioRecord) -> str:
    walks = f"{counted(len(group.walks), 'walk')} of {counted(len(group.steps), 'step')}"
    line = f"seed {group.seed}: {walks}, {record.seconds:.1f} s: {record.verdict}"
    if record.verdict == Verdict.CONFORMS:
        return line
    taken = len(record.acts[0].steps) - 1 if record.acts else 0
    replay_it = f"kafka-chaos scenario walk --seed {group.seed} --walks {len(group.walks)} --beside {len(group.walks)}"
    replay_it += f" --steps {len(group.steps)}"
    if group.kraft_version is not None:
        replay_it += f" --kraft {group.kraft_version}"
    return "\n".join([line, str(group), f"  after step {taken}: {record.reason}", f"  again: {replay_it}"])
