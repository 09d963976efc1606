"""`kafka-chaos atlas`: tries combinations of clients, clusters, settings and faults, and says what they showed."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import click

from kafka_chaos.contract.command.command_line import QUIET
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.engine_option import ENGINE
from kafka_chaos.contract.engines import Engine

STANDARD_PLAN = Path(__file__).with_name("standard.yaml")


@click.command("atlas")
@click.argument("plan", type=click.Path(path_type=Path, exists=True, dir_okay=False), default=STANDARD_PLAN)
@click.option("--minutes", type=click.FloatRange(min=0), default=60.0, show_default=True,
              help="Start no run that would end later; one runs at least.")  # fmt: skip
@click.option("--runs", "most", type=click.IntRange(min=0), help="Make at most this many runs; with 0, only pages.")
@click.option("--seed", type=click.IntRange(min=0), help="Decides the seed of every run; drawn by default.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("runs/atlas"), show_default=True,
              help="Where to write the runs, atlas.html and atlas.parquet.")  # fmt: skip
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False),
              help="The record of runs; by default record.jsonl in --out, with --mine the shipped one.")  # fmt: skip
@click.option("--mine", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Run nothing; say what the record knows of the settings in a producer's file.")  # fmt: skip
@click.option("--client", metavar="KIND", help="With --mine: the client that the settings are for, such as sarama.")
@click.option("--json", "as_json", is_flag=True, help="Print the cells, or the answer, as JSON and nothing else.")
@ENGINE
@QUIET
def atlas_command(
    plan: Path,
    minutes: float,
    most: int | None,
    seed: int | None,
    out: Path,
    record: Path | None,
    mine: Path | None,
    client: str | None,
    as_json: bool,
    engine: str,
    quiet: bool,
) -> None:
    """Try what the PLAN combines (a standard one by default), what was tried least first, within a time budget.

    Each run has some lanes of a cluster and of a family of faults. It is added to the record, so that the next call
    goes on where this one stops. The pages show all cells of the record.

    Exit code: 1 for a violation in any run, else 2 if a run was unknown or failed, else 0; with --mine always 0.
    """
    from kafka_chaos.reference_model.forecast.lane_runs import read_record, shipped

    if mine is not None:
        from kafka_chaos.harness.atlas.mine import answer

        found = answer(mine, shipped() if record is None else read_record(record), client)
        click.echo(json.dumps(found.to_json()) if as_json else str(found))
        return
    if client is not None:
        raise click.BadParameter("expected with --mine only; the plan names clients", param_hint="--client")
    from kafka_chaos.harness.atlas.cells import PAGE, cells_of, write_pages
    from kafka_chaos.harness.atlas.plan import Atlas
    from kafka_chaos.harness.nightly.nightly_run import Nightly
    from kafka_chaos.harness.report.listeners.terminal import on_terminal
    from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns

    def say(text: str) -> None:
        if not (as_json or quiet):
            click.echo(text)

    record = out / "record.jsonl" if record is None else record
    atlas = Atlas.of(plan)
    code = 0
    if most != 0:
        for name, lacks in atlas.left_out.items():
            say(f"{name} is left out: {'; '.join(lacks)}")
        nightly = Nightly(
            experiments=[plan],
            out=out,
            minutes=minutes,
            seed=random.SystemRandom().randrange(2**31) if seed is None else seed,
            repeats=most,
            say=say,
            record=record,
        )
        nightly.load = lambda _, seed: atlas.next_run(Counter(run.cell for run in read_record(record)), seed)
        shown = not (as_json or quiet)
        with (
            ClusterOfRuns("atlas", Engine(engine)) as cluster,
            on_terminal(shown, nightly.described) as nightly.listeners,
        ):
            nightly.run_one = cluster.run
            code = nightly.run().verdict.exit_code
    cells = cells_of(read_record(record))
    untried = {trial.cell for trial in atlas.trials} - {cell.cell for cell in cells}
    write_pages(cells, out, len(untried))
    if as_json:
        click.echo(json.dumps([cell.to_json() for cell in cells]))
    say(f"{counted(len(cells), 'cell')} tried, {len(untried):,} of the plan never\n{out / PAGE}")
    sys.exit(code)
