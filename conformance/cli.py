"""`kafka-chaos scenario list|run`: list the documented behaviours, and play them.

Guarantee: bad arguments exit with 64 before anything starts. The file of results (`--out`) is replaced as a whole
after every scenario, so that an interrupted run keeps its results. Whatever was started is removed on every way out.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.command_line import console, file_option
from kafka_chaos.contract.command.errors import UsageFailure

if TYPE_CHECKING:
    from kafka_chaos.conformance.scenario.record import ScenarioRecord
    from kafka_chaos.conformance.scenario.registry import Scenario


@click.group("scenario")
def scenario_command() -> None:
    """Run the documented behaviours of Kafka in lock step on the model and on real brokers."""


@scenario_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """List the scenarios: the id, what the scenario shows, and the document that describes it."""
    from kafka_chaos.conformance.scenario.registry import all_scenarios

    scenarios = list(all_scenarios().values())
    if as_json:
        entries = [
            {
                "id": scenario.id,
                "document": scenario.source.document.title,
                "section": scenario.source.section,
                "title": scenario.title,
                "source": scenario.file,
            }
            for scenario in scenarios
        ]
        click.echo(json.dumps({"format_version": 1, "scenarios": entries}, indent=2))
        return
    widest_id = max(len(scenario.id) for scenario in scenarios)
    widest_title = max(len(scenario.title) for scenario in scenarios)
    for scenario in scenarios:
        click.echo(f"{scenario.id:{widest_id}}  {scenario.title:{widest_title}}  {scenario.source.document.title}")


@scenario_command.command("run")
@click.argument("ids", metavar="ID|FILE.yaml…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Run all scenarios, in the order of the list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end instead of the story.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Number of runs of each scenario."
)
@click.option("--quiet", is_flag=True, help="Do not print the story; --json still prints the document.")
@file_option("--out", "Also write the JSON document to this file, after every scenario.")
@click.option(
    "--kraft", metavar="VERSION", help="Use KRaft mode in this version, unless a scenario has another; not with --all."
)
def run_command(
    ids: tuple[str, ...], everything: bool, as_json: bool, repeat: int, quiet: bool, out: Path | None, kraft: str | None
) -> None:
    """Run scenarios, by id or from a YAML file (`predict --story` writes one), and print the story as it happens.

    Exit code: 0 if all runs conform, 1 if any is a violation, else 2 if any is unknown; 3 if the environment failed;
    64 for an unknown id or a file that can't be played.
    """
    scenarios = _scenarios_by(ids, everything)
    if kraft is not None:
        from kafka_chaos.contract.lane.metadata import KRAFT
        from kafka_chaos.harness.cluster.containers.versions import check_version

        check_version(kraft, KRAFT)
        for scenario in scenarios:
            if scenario.needs_zookeeper is not None:
                raise UsageFailure(f"scenario run --kraft: {scenario.id}: {scenario.needs_zookeeper}")
    from kafka_chaos.conformance.scenario.clusters import ClusterPool
    from kafka_chaos.conformance.scenario.runner import results_json, run_scenario, write_or_refuse
    from kafka_chaos.conformance.scenario.telling.console import ConsoleReporter, summary

    planned = [scenario.id for scenario in scenarios for _ in range(repeat)]
    records: list[ScenarioRecord] = []
    start = time.monotonic()

    def results() -> dict[str, Any]:
        return results_json(records, seconds=time.monotonic() - start, not_run=planned[len(records) :])

    def save() -> None:
        if out is not None:
            write_or_refuse(out, _json_text(results()))

    # If the file can't be written, fail now and not after half an hour.
    save()
    with (
        nullcontext()
        if quiet or as_json
        else ConsoleReporter(console(highlight=False), runs=len(planned), repeat=repeat) as reporter
    ):

        def notify(kind: str, event: Any) -> None:
            if kind == "verdict":
                records.append(event)
                save()
            if reporter is not None:
                reporter(kind, event)

        with ClusterPool(kraft_version=kraft) as pool:
            for scenario in scenarios:
                for _ in range(repeat):
                    run_scenario(scenario, pool, notify=notify)
    final_results = results()
    if as_json:
        click.echo(_json_text(final_results), nl=False)
    elif not quiet and len(planned) > 1:
        console(highlight=False).print(summary(records))
    sys.exit(Verdict(final_results["verdict"]).exit_code)


def _scenarios_by(ids: Sequence[str], everything: bool) -> list[Scenario]:
    """The scenarios that were asked for, each once. Raises `UsageFailure` with all unknown ids."""
    from kafka_chaos.conformance.scenario.registry import all_scenarios, scenarios_in

    if everything == bool(ids):
        raise UsageFailure("scenario run: expected either ids (see `kafka-chaos scenario list`) and files, or --all")
    by_id = dict(all_scenarios())
    requested: list[str] = list(by_id) if everything else []
    for name in ids:
        in_file = {scenario.id: scenario for scenario in scenarios_in(Path(name))} if name.endswith(".yaml") else {}
        by_id |= in_file
        requested += [*in_file] or [name]
    unknown = [name for name in dict.fromkeys(requested) if name not in by_id]
    if unknown:
        verb = "is not a scenario" if len(unknown) == 1 else "are not scenarios"
        close = dict.fromkeys(match for name in unknown for match in get_close_matches(name, by_id, cutoff=0.75))
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UsageFailure(
            f"{', '.join(map(repr, unknown))} {verb}: expected ids that `kafka-chaos scenario list` prints{hint}"
        )
    return [by_id[name] for name in dict.fromkeys(requested)]


def _json_text(results: dict[str, Any]) -> str:
    return json.dumps(results, indent=1, ensure_ascii=False) + "\n"
