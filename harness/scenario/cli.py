"""`kafka-chaos scenario list|run|document`: the seed documents' behaviours, played and told.

Guarantee: bad arguments exit 64 before anything starts; a run writes its results whole or not at all, after every
scenario, so that one that is interrupted leaves what it has; what was started is removed on every way out.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_chaos.harness.errors import UsageFailure

if TYPE_CHECKING:
    from kafka_chaos.harness.scenario.record import ScenarioRecord
    from kafka_chaos.harness.scenario.registry import Outline, Scenario

_EXIT_CODES = {"conforms": 0, "violation": 1, "unknown": 2}


@click.group("scenario")
def scenario_command() -> None:
    """Play the seed documents' behaviours in lock step on the model and on real brokers."""


@scenario_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """List the scenarios: id, the document that tells of it, and what is shown."""
    from kafka_chaos.harness.scenario.registry import outlines

    found = list(outlines().values())
    if as_json:
        shown = [{"id": one.id, "document": one.document, "title": one.title, "source": one.source} for one in found]
        click.echo(json.dumps({"format_version": 1, "scenarios": shown}, indent=2))
        return
    width = max((len(one.id) for one in found), default=0)
    for one in found:
        click.echo(f"{one.id:{width}}  {one.document}  {one.title}")


@scenario_command.command("run")
@click.argument("ids", metavar="ID…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Run every scenario, in the order of the list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end instead of the story.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each scenario.")
@click.option("--quiet", is_flag=True, help="Print no story; with --json, the document still comes.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write the JSON document here too, anew after every scenario.")  # fmt: skip
def run_command(
    ids: tuple[str, ...], everything: bool, as_json: bool, repeat: int, quiet: bool, out: Path | None
) -> None:
    """Run scenarios, and tell the story as it goes.

    Exit code: the gravest of 0 conforms, 2 unknown, 1 violation; 3 the environment failed, 64 an id that is none.
    """
    chosen = _choose(ids, everything)
    from kafka_chaos.harness.scenario.results import results_json, write_whole
    from kafka_chaos.harness.scenario.runner import run_scenarios

    planned = [scenario.id for scenario in chosen for _ in range(repeat)]
    done: list[ScenarioRecord] = []
    start = time.monotonic()

    def document() -> dict[str, Any]:
        return results_json(done, seconds=time.monotonic() - start, not_run=planned[len(done) :])

    def keep(kind: str, what: Any) -> None:
        if kind == "verdict":
            done.append(what)
            if out is not None:
                write_whole(out, _text(document()))

    with ExitStack() as stack:
        listeners = [keep]
        if not (quiet or as_json):
            listeners.append(stack.enter_context(_story(repeat)))
        if out is not None:
            # A place that can't be written to is told of now, not after half an hour.
            write_whole(out, _text(document()))
        run_scenarios(chosen, repeat=repeat, tell=_all_of(listeners))
    finished = document()
    if as_json:
        click.echo(_text(finished), nl=False)
    elif not quiet and len(planned) > 1:
        _print_summary(done)
    sys.exit(_EXIT_CODES[finished["verdict"]])


@scenario_command.command("document")
@click.argument("results", metavar="RESULTS.json…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", required=True,
              help="The page, as docs/scenarios.md; its pictures and its results go beside it.")  # fmt: skip
def document_command(results: tuple[Path, ...], out: Path) -> None:
    """Write the page of all scenarios from results of real runs; runs in several files are counted together."""
    from kafka_chaos.harness.scenario.document import write_document

    for path in write_document(results, out):
        click.echo(path)


def _choose(ids: Sequence[str], everything: bool) -> list[Scenario]:
    """The scenarios asked for, each once. Raises `UsageFailure` with every id that is none, before importing any."""
    from kafka_chaos.harness.scenario.registry import all_scenarios, outlines

    if everything == bool(ids):
        raise UsageFailure("scenario run: expected either ids of scenarios (see `kafka-chaos scenario list`) or --all")
    known: dict[str, Outline] = outlines()
    unknown = [name for name in dict.fromkeys(ids) if name not in known]
    if unknown:
        are = "is no scenario" if len(unknown) == 1 else "are no scenarios"
        raise UsageFailure(f"{', '.join(map(repr, unknown))} {are}: expected some of {', '.join(known)}")
    scenarios = all_scenarios()
    return [scenarios[name] for name in (known if everything else dict.fromkeys(ids))]


def _story(repeat: int) -> Any:
    from kafka_chaos.harness.scenario.telling import Teller, console

    return Teller(console(), repeat=repeat)


def _print_summary(records: Sequence[ScenarioRecord]) -> None:
    from kafka_chaos.harness.scenario.telling import console, summary

    console().print(summary(records))


def _all_of(listeners: Sequence[Callable[[str, Any], None]]) -> Callable[[str, Any], None]:
    def tell(kind: str, what: Any) -> None:
        for listener in listeners:
            listener(kind, what)

    return tell


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
