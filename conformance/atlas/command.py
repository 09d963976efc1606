"""`kafka-chaos atlas`: tries combinations of clients, clusters, settings and faults, and says what they showed."""

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.engine_option import ENGINE
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.nightly.series import Series, series_options

STANDARD_PLAN = Path(__file__).with_name("standard.yaml")


@click.command("atlas")
@click.argument("plan", type=click.Path(path_type=Path, exists=True, dir_okay=False), default=STANDARD_PLAN)
@click.option("--runs", "most", type=click.IntRange(min=0), help="Make at most this many runs; with 0, only pages.")
@click.option("--mine", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Run nothing; say what the record knows of the settings in a producer's file.")  # fmt: skip
@click.option("--client", metavar="KIND", help="With --mine: the client that the settings are for, such as sarama.")
@series_options(
    60.0,
    "runs/atlas",
    "Where to write the runs, atlas.html and atlas.parquet.",
    "The record of runs; by default record.jsonl in --out, with --mine the shipped one.",
)
@ENGINE
def atlas_command(
    series: Series, plan: Path, most: int | None, mine: Path | None, client: str | None, engine: str
) -> None:
    """Try what the PLAN combines (a standard one by default), what was tried least first, within a time budget.

    Each run has some lanes of a cluster and of a family of faults. It is added to the record, so that the next call
    goes on where this one stops. The pages show all cells of the record.

    Exit code: 1 for a violation in any run, else 2 if a run was unknown or failed, else 0; with --mine always 0.
    """
    from kafka_chaos.harness.campaign.lane_runs import RECORD, read_record, shipped

    if mine is not None:
        from kafka_chaos.conformance.atlas.mine import answer

        found = answer(mine, shipped() if series.record is None else read_record(series.record), client)
        click.echo(json.dumps(found.to_json()) if series.as_json else str(found))
        return
    if client is not None:
        raise click.BadParameter("expected with --mine only; the plan names clients", param_hint="--client")
    from kafka_chaos.conformance.atlas.cells import PAGE, cells_of, write_pages
    from kafka_chaos.conformance.atlas.plan import Atlas
    from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns

    record = series.record or series.out / RECORD
    atlas = Atlas.of(plan)
    code = 0
    if most != 0:
        for name, lacks in atlas.left_out.items():
            series.say(f"{name} is left out: {lacks}")
        with ClusterOfRuns("atlas", Engine(engine)) as cluster:
            _, summary = replace(series, record=record).run(
                [plan],
                most,
                load=lambda _, seed: atlas.next_run(Counter(run.cell for run in read_record(record)), seed),
                run_one=cluster.run,
            )
        code = summary.verdict.exit_code
    cells = cells_of(read_record(record))
    untried = {trial.cell for trial in atlas.trials} - {cell.cell for cell in cells}
    write_pages(cells, series.out, len(untried))
    if series.as_json:
        click.echo(json.dumps([cell.to_json() for cell in cells]))
    series.say(f"{counted(len(cells), 'cell')} tried, {len(untried):,} of the plan never\n{series.out / PAGE}")
    sys.exit(code)
